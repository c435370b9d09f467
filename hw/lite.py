"""The two halves of an AXI4-Lite slave, for a register file behind them."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.axi import RESP_OKAY, RESP_SLVERR, lite_slave_members
from hw.register_map import ADDRESS_BITS, WORD_BITS, WORD_BYTES


def _lite_members(*channels):
    """The AXI4-Lite pins of some channels, named by their prefixes."""
    members = lite_slave_members(ADDRESS_BITS)
    return {name: member for name, member in members.items() if name.startswith(channels)}


class LiteWritePort(wiring.Component):
    """The write channels of an AXI4-Lite slave, one write at a time, AW and W in either order.

    Members
    -------
    awaddr ... bready
        The AW, W and B pins.
    write : Out(1)
        One clock per write, the second after the later of the two handshakes. The following
        describe it and are stable from the clock before.
    word : Out(ADDRESS_BITS - 2)
        Word address.
    data : Out(32)
    strobe : Out(4)
        Bytes to write.
    error : In(1)
        In the clock of `write`: answer SLVERR.
    """

    def __init__(self):
        super().__init__(
            _lite_members("aw", "w", "b")
            | {
                "write": Out(1),
                "word": Out(ADDRESS_BITS - 2),
                "data": Out(WORD_BITS),
                "strobe": Out(WORD_BYTES),
                "error": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        have_address = Signal()
        have_data = Signal()
        write = Signal()
        word = Signal(self.word.shape(), reset_less=True)
        value = Signal(WORD_BITS, reset_less=True)
        strobe = Signal(WORD_BYTES, reset_less=True)
        bvalid = Signal()
        bresp = Signal(2, reset_less=True)

        with m.If(self.awvalid & self.awready):
            m.d.sync += [have_address.eq(1), word.eq(self.awaddr[2:])]
        with m.If(self.wvalid & self.wready):
            m.d.sync += [have_data.eq(1), value.eq(self.wdata), strobe.eq(self.wstrb)]
        m.d.sync += write.eq(have_address & have_data & ~write & ~bvalid)
        with m.If(write):
            m.d.sync += [bvalid.eq(1), bresp.eq(Mux(self.error, RESP_SLVERR, RESP_OKAY))]
        with m.If(self.bvalid & self.bready):
            m.d.sync += [bvalid.eq(0), have_address.eq(0), have_data.eq(0)]

        m.d.comb += [
            self.awready.eq(~have_address),
            self.wready.eq(~have_data),
            self.bvalid.eq(bvalid),
            self.bresp.eq(bresp),
            self.write.eq(write),
            self.word.eq(word),
            self.data.eq(value),
            self.strobe.eq(strobe),
        ]
        return m


class LiteReadPort(wiring.Component):
    """The read channels of an AXI4-Lite slave, one read at a time, for a pipelined multiplexer.

    Members
    -------
    araddr ... rready
        The AR and R pins.
    word : Out(ADDRESS_BITS - 2)
        Word address, stable from the clock after the AR handshake to the end of the read.
    select : Out(1)
        The clock after the first with a new `word`: what is read is the state in this clock.
    data : In(32)
        The word, in the clock after `select`.
    error : In(1)
        In the same clock: answer SLVERR.
    """

    def __init__(self):
        super().__init__(
            _lite_members("ar", "r")
            | {
                "word": Out(ADDRESS_BITS - 2),
                "select": Out(1),
                "data": In(WORD_BITS),
                "error": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        busy = Signal()
        word = Signal(self.word.shape(), reset_less=True)
        decode = Signal()
        select = Signal()
        merge = Signal()
        rvalid = Signal()
        rdata = Signal(WORD_BITS, reset_less=True)
        rresp = Signal(2, reset_less=True)

        m.d.sync += [decode.eq(0), select.eq(decode), merge.eq(select)]
        with m.If(self.arvalid & self.arready):
            m.d.sync += [busy.eq(1), decode.eq(1), word.eq(self.araddr[2:])]
        with m.If(merge):
            m.d.sync += [
                rvalid.eq(1),
                rdata.eq(self.data),
                rresp.eq(Mux(self.error, RESP_SLVERR, RESP_OKAY)),
            ]
        with m.If(self.rvalid & self.rready):
            m.d.sync += [rvalid.eq(0), busy.eq(0)]

        m.d.comb += [
            self.arready.eq(~busy),
            self.rvalid.eq(rvalid),
            self.rdata.eq(rdata),
            self.rresp.eq(rresp),
            self.word.eq(word),
            self.select.eq(select),
        ]
        return m
