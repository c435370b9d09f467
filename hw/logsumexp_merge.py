"""One log-sum-exp from the accumulators of several units that shared a vector's rows."""

from contextlib import contextmanager

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig
from hw.logsumexp import EXPONENT_BITS, TOP_LAYOUT, WINDOW, LogSumExp, accumulator_bits
from hw.trees import adder_tree, tree_levels

RESULT_LAYOUT = data.StructLayout({"exponent": signed(32), "sum": unsigned(64)})
"""The base-2 logarithm of the sum of exponentials is ``exponent - 20 + log2(sum)``; the sum is 0
if there was no row."""


class LogSumExpMerger(wiring.Component):
    """Reads the window below the largest exponent of all units and folds it into one sum.

    With E that exponent, the sum S begins as 0 and, for j from 63 down to 0, becomes
    ``S / 2 + A[E - j]``, rounded downwards, where A adds up the units' accumulators. It takes
    ``WINDOW + ports + 2 * latency`` clocks and a few.

    Parameters
    ----------
    config : HeadConfig
    ports : int
        Units, at least 1.
    latency : int
        Clocks from `read_exponent` to `read_sum`: that of a unit and of what lies between.

    Members
    -------
    start : In
        One clock, when all rows are accumulated; what selects the vector in the units is stable
        from now on. A merge that is under way is given up.
    top : In(TOP_LAYOUT) per port
        Read `latency` clocks after `start` or later.
    read_exponent : Out per port
    read_sum : In per port
    done : Out
        `result` is right; high until `start`.
    result : Out(RESULT_LAYOUT)

    Raises
    ------
    ValueError
        There are no ports.
    """

    def __init__(self, config: HeadConfig, ports: int, latency: int = LogSumExp.READ_LATENCY):
        if ports < 1:
            raise ValueError(f"ports must be at least 1, got {ports}")
        self.config = config
        self.ports = ports
        self.latency = latency
        super().__init__(
            {
                "start": In(1),
                "top": In(TOP_LAYOUT).array(ports),
                "read_exponent": Out(signed(EXPONENT_BITS)).array(ports),
                "read_sum": In(unsigned(accumulator_bits(config))).array(ports),
                "done": Out(1, init=1),
                "result": Out(RESULT_LAYOUT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sum_bits = accumulator_bits(self.config)
        settle = Signal(range(self.latency + 1))
        port = Signal(range(max(2, self.ports)))
        valid = Signal()
        exponent = Signal(signed(EXPONENT_BITS))
        reading = Signal(signed(EXPONENT_BITS), reset_less=True)
        left = Signal(range(WINDOW))
        issuing = Signal()
        folding = Signal(self.latency + tree_levels(self.ports))
        # Twice a sum of all rows' mantissas is never reached.
        total = Signal(sum_bits + 1)

        top = Signal(TOP_LAYOUT)
        m.d.comb += top.eq(Array(self.top)[port])
        part = adder_tree(
            m, [Cat(value, Const(0, 1)).as_signed() for value in self.read_sum], "sum"
        )
        m.d.comb += [
            *(read.eq(reading) for read in self.read_exponent),
            self.result.exponent.eq(Mux(valid, exponent, 0)),
            self.result.sum.eq(total),
        ]
        m.d.sync += folding.eq(Cat(issuing, folding))
        with m.If(folding[-1]):
            m.d.sync += total.eq((total >> 1) + part.as_unsigned())

        @contextmanager
        def state(name):
            """A state that `start` leaves."""
            with m.State(name):
                yield
                with m.If(self.start):
                    m.next = "SETTLE"

        with m.FSM():
            with state("IDLE"):
                pass
            with state("SETTLE"):
                m.d.sync += settle.eq(settle - 1)
                with m.If(settle == 0):
                    m.next = "SCAN"
            with state("SCAN"):
                m.d.sync += port.eq(port + 1)
                with m.If(top.valid & (~valid | (top.exponent > exponent))):
                    m.d.sync += [valid.eq(1), exponent.eq(top.exponent)]
                with m.If(port == self.ports - 1):
                    m.next = "BEGIN"
            with state("BEGIN"):
                m.d.sync += [
                    reading.eq(self.result.exponent - (WINDOW - 1)),
                    left.eq(WINDOW - 1),
                    issuing.eq(1),
                ]
                m.next = "READ"
            with state("READ"):
                m.d.sync += [reading.eq(reading + 1), left.eq(left - 1)]
                with m.If(left == 0):
                    m.d.sync += issuing.eq(0)
                    m.next = "FOLD"
            with state("FOLD"), m.If(~folding.any()):
                m.d.sync += self.done.eq(1)
                m.next = "IDLE"
        with m.If(self.start):
            m.d.sync += [
                self.done.eq(0),
                settle.eq(self.latency),
                port.eq(0),
                valid.eq(0),
                issuing.eq(0),
                folding.eq(0),
                total.eq(0),
            ]
        return m
