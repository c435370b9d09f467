"""On-chip memory with a registered output."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out


class BlockRAM(wiring.Component):
    """One write port, one read port, two clocks from address to data.

    The second clock is a register behind the memory: a block RAM alone takes most of a period to
    deliver its word. Reading an address in the clock in which it is written gives an undefined
    word; no block here does that.

    Parameters
    ----------
    width : int
        Bits per word.
    depth : int
        Words.

    Members
    -------
    write_address, write_data, write_enable : In
    read_address : In
    read_data : Out
        The word at `read_address` of two clocks ago.
    """

    LATENCY = 2

    def __init__(self, width: int, depth: int):
        if width < 1 or depth < 1:
            raise ValueError(f"width and depth must be at least 1, got {width} and {depth}")
        self.width = width
        self.depth = depth
        super().__init__(
            {
                "write_address": In(range(max(2, depth))),
                "write_data": In(width),
                "write_enable": In(1),
                "read_address": In(range(max(2, depth))),
                "read_data": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # `no_rw_check`: no bypass is needed for the collision that the docstring rules out.
        m.submodules.storage = storage = memory.Memory(
            shape=unsigned(self.width),
            depth=max(2, self.depth),
            init=[],
            attrs={"ram_style": "block", "no_rw_check": 1},
        )
        write = storage.write_port()
        read = storage.read_port()
        output = Signal(self.width, reset_less=True)
        m.d.comb += [
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            write.en.eq(self.write_enable),
            read.addr.eq(self.read_address),
            self.read_data.eq(output),
        ]
        m.d.sync += output.eq(read.data)
        return m
