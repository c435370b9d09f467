"""The AXI4 write master: memory segments and a stream of bus beats in."""

from amaranth.hdl import Cat, Const, Module, ResetInserter, Signal, signed, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import RESP_OKAY, drive_constant_pins, write_master_members
from hw.burst import BurstPlanner, segment_layout
from hw.config import HeadConfig
from hw.fifo import StreamFIFO

BEATS_BITS = 16
"""Width of a segment's beat count."""
MAX_BURST = 16
"""Most beats of a burst; results are short, and a burst is buffered before it starts."""
MAX_PENDING = 15
"""Most bursts that wait for their response."""
REQUEST_CLOCKS = 2
"""From the last beat of a burst to the clock in which the burst is requested."""
PASSAGE_CLOCKS = StreamFIFO.LATENCY - REQUEST_CLOCKS
"""From that clock to the one of that beat on the pins, if the beats before have gone."""


class Writer(wiring.Component):
    """Writes beats to the segments of its commands, in order.

    A burst is requested only when all of its beats are in the FIFO, so WVALID is never low inside
    it and a shared memory port is never blocked. AWVALID and WVALID wait neither for each other nor
    for the other's READY; the next burst starts when both are accepted, at best with a clock
    between their beats, and with two behind a burst of one beat.
    Bursts are incrementing, of whole beats, at most ``min(16, config.max_burst)`` long, and never
    cross 4 KiB. BREADY is constantly high. No AXI output depends on an AXI input in the same
    clock.

    Parameters
    ----------
    config : HeadConfig
        ``bus_bits`` and ``max_burst``.

    Members
    -------
    command : In
        Stream of ``{address: 64, beats: 16}``: a byte address aligned to the bus, beats >= 1.
    i : In
        Stream of beats. Those of a burst may come before their command.
    aw*, w*, b* : the AXI4 pins
    abort : In
        While high no AWVALID rises and commands and beats are dropped; bursts whose AWVALID has
        risen are completed. Once it was high that goes on until the last response has come;
        commands and beats wait for that when it is low.
    idle : Out
        In the clock before no command or beat came, nothing was buffered and every burst answered.
    error : Out
        Pulse: a response other than OKAY came.
    beat : Out
        In this clock a beat is accepted.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(segment_layout(BEATS_BITS))),
                "i": In(stream.Signature(unsigned(config.bus_bits))),
                "abort": In(1),
                "idle": Out(1, init=1),
                "error": Out(1),
                "beat": Out(1),
            }
            | write_master_members(config.bus_bits)
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        max_burst = min(MAX_BURST, config.max_burst)

        m.submodules.planner = planner = BurstPlanner(config.bus_bits, BEATS_BITS, max_burst)
        clear = Signal()
        # A burst, in LUTs: block RAMs would be as many as for a deep one, and far apart.
        m.submodules.fifo = fifo = ResetInserter(clear)(
            StreamFIFO(config.bus_bits, MAX_BURST, memory="auto")
        )
        drive_constant_pins(m, self, "aw", config.bus_bits)

        # Abort: what the block holds is cleared a clock later, from flip-flops, since that reaches
        # far; but for the beats of a burst that has begun, until they are sent.
        sending = Signal()
        pending = Signal(range(MAX_PENDING + 1))
        draining = Signal()
        m.d.comb += [
            planner.clear.eq(draining),
            clear.eq(draining & ~sending),
            planner.command.payload.eq(self.command.payload),
            planner.command.valid.eq(self.command.valid & ~draining),
            self.command.ready.eq(self.abort | (planner.command.ready & ~draining)),
            fifo.i.payload.eq(self.i.payload),
            fifo.i.valid.eq(self.i.valid),
            self.i.ready.eq(self.abort | (fifo.i.ready & ~draining)),
        ]
        m.d.sync += draining.eq(self.abort | (draining & (pending != 0)))

        # Beats here minus one, so that nothing has to be added before the comparison below.
        beyond = Signal(signed((MAX_BURST + 2).bit_length() + 1), init=-1)
        m.d.sync += beyond.eq(beyond + (fifo.i.valid & fifo.i.ready) - self.beat)
        with m.If(clear):
            m.d.sync += beyond.eq(-1)

        # Whether all beats of the burst are here is known from a flip-flop. One that is sent still
        # counts, so that it is asked for one more meanwhile.
        burst = planner.o.payload
        complete = Signal()
        request = Signal()
        enough = Cat(~sending, beyond).as_signed() > Cat(Const(0, 1), burst.len)
        m.d.sync += complete.eq(planner.o.valid & enough & ~request & (pending != MAX_PENDING))
        with m.If(clear):
            m.d.sync += complete.eq(0)
        address = Signal.like(self.awaddr, reset_less=True)
        burst_len = Signal.like(self.awlen, reset_less=True)
        m.d.comb += [
            self.awaddr.eq(address),
            self.awlen.eq(burst_len),
            request.eq(complete & ~self.awvalid & ~sending & ~(self.abort | draining)),
            planner.o.ready.eq(request),
        ]
        with m.If(~self.awvalid):
            m.d.sync += [
                self.awvalid.eq(request),
                address.eq(burst.address),
                burst_len.eq(burst.len),
            ]
        with m.Elif(self.awready):
            m.d.sync += self.awvalid.eq(0)

        left = Signal(range(MAX_BURST), reset_less=True)  # beats after this one
        m.d.comb += [
            self.wdata.eq(fifo.o.payload),
            self.wstrb.eq(~0),
            self.wlast.eq(left == 0),
            # Even the newest beat is on the FIFO's output in the clock after its request.
            self.wvalid.eq(sending),
            fifo.o.ready.eq(sending & self.wready),
            self.beat.eq(self.wvalid & self.wready),
        ]
        with m.If(request):
            m.d.sync += [sending.eq(1), left.eq(burst.len)]
        with m.Elif(self.beat):
            m.d.sync += [sending.eq(~self.wlast), left.eq(left - 1)]

        m.d.comb += [
            self.bready.eq(1),
            self.error.eq(self.bvalid & (self.bresp != RESP_OKAY)),
        ]
        nothing = ~planner.busy & (beyond < 0) & (pending == 0)
        m.d.sync += self.idle.eq(nothing & ~self.command.valid & ~self.i.valid)
        m.d.sync += pending.eq(pending + request - self.bvalid)
        return m
