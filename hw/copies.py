"""A register that is there several times, for a signal with many readers."""

from amaranth.hdl import ClockSignal, Const, Instance, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.family import is_ecp5


class RegisterCopies(wiring.Component):
    """Equal registers of `i`, without reset: each of few readers close to it.

    Synthesis would make one of them again, the fan-out of which no placement can shorten. For the
    ECP5 the flip-flops are named one by one, so that it cannot.

    Parameters
    ----------
    width, copies : int
        At least 1.

    Members
    -------
    i : In(width)
    o : Out(ArrayLayout(width, copies))
        `i` of the clock before.
    """

    LATENCY = 1

    def __init__(self, width: int, copies: int):
        for name, value in (("width", width), ("copies", copies)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.width = width
        self.copies = copies
        super().__init__({"i": In(width), "o": Out(data.ArrayLayout(width, copies))})

    def elaborate(self, platform):
        m = Module()
        for copy in range(self.copies):
            if not is_ecp5(platform) or self.copies == 1:
                register = Signal(self.width, name=f"copy{copy}", reset_less=True)
                m.d.sync += register.eq(self.i)
                m.d.comb += self.o[copy].eq(register)
                continue
            for bit in range(self.width):
                # Yosys merges equal cells of the kinds that it knows, not the part's own.
                m.submodules[f"copy{copy}_{bit}"] = Instance(
                    "TRELLIS_FF",
                    p_GSR="DISABLED",
                    p_CEMUX="1",
                    p_CLKMUX="CLK",
                    p_LSRMUX="LSR",
                    p_REGSET="RESET",
                    i_CLK=ClockSignal(),
                    i_LSR=Const(0),
                    i_DI=self.i[bit],
                    o_Q=self.o[copy][bit],
                )
        return m
