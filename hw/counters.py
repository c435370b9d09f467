"""Cycle-exact statistics of a job, each with a definition that a testbench recounts."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig


class CounterDefinition(NamedTuple):
    """Name and exact meaning of a counter."""

    name: str
    doc: str


COUNTERS = (
    CounterDefinition(
        "cycles",
        "Clock edges after the edge at which the job was accepted (START clears), up to and "
        "including the edge at which it ended (DONE is set).",
    ),
    CounterDefinition(
        "data_beats",
        "Clock edges of the job with RVALID and RREADY high on the read port.",
    ),
    CounterDefinition(
        "stream_beats",
        "Of the clocks from the first with ARVALID high to the one in which the last beat leaves "
        "the reader, both included: those with valid and ready high at the reader's output.",
    ),
    CounterDefinition(
        "refused_cycles",
        "Of the same clocks: those with valid high and ready low at the reader's output.",
    ),
    CounterDefinition(
        "wait_cycles",
        "Of the same clocks: those with valid low at the reader's output.",
    ),
    CounterDefinition(
        "address_wait_cycles",
        "Clock edges of the job with ARVALID high and ARREADY low on the read port.",
    ),
    CounterDefinition(
        "first_data_latency_cycles",
        "Clock edges after the job's first edge with ARVALID and ARREADY high, up to and including "
        "its first edge with RVALID and RREADY high, or to its end if there is none.",
    ),
    CounterDefinition(
        "max_outstanding_bytes",
        "Largest value, just after any clock edge of the job, of the beats of all accepted read "
        "bursts less the beats received, in bytes.",
    ),
    CounterDefinition("rows", "Rows whose score the top-k has taken, padding rows not counted."),
    CounterDefinition(
        "insertions",
        "Rows that entered the list of results, those displaced by later rows included.",
    ),
    CounterDefinition(
        "bytes_written",
        "Bytes of the clock edges of the job with WVALID and WREADY high on the write port.",
    ),
)
"""The counters, in the order of the registers and of the trailer of a result block.

The edges of a job are those that `cycles` counts.
"""

COUNTER_BITS = 64
"""Width of a counter as it is read."""

CYCLE_BITS = 48
"""Width of the counters of clocks and of read beats: 13 days at 250 MHz."""

WRITE_BEAT_BITS = 32

SPLIT_BITS = 16


class EventCounter(wiring.Component):
    """Counts clocks.

    The value is exact in every clock. Its upper bits are enabled by a register that says that the
    lower ones are about to wrap, so that no carry runs through the whole width.

    Parameters
    ----------
    width : int
        Width of the count, which wraps.
    split_bits : int
        Number of lower bits.

    Members
    -------
    clear : In(1)
        Makes the count 0; has priority over `event`.
    event : In(1)
        Counts this clock.
    count : Out(width)
    """

    def __init__(self, width: int, split_bits: int = SPLIT_BITS):
        self.width = width
        self.split_bits = split_bits
        super().__init__({"clear": In(1), "event": In(1), "count": Out(width)})

    def elaborate(self, platform):
        m = Module()
        low = Signal(min(self.width, self.split_bits))
        parts = [low]
        with m.If(self.event):
            m.d.sync += low.eq(low + 1)
        with m.If(self.clear):
            m.d.sync += low.eq(0)
        if self.width > len(low):
            high = Signal(self.width - len(low))
            full = Signal()
            parts.append(high)
            with m.If(self.event):
                m.d.sync += full.eq(low == 2 ** len(low) - 2)
                m.d.sync += high.eq(high + full)
            with m.If(self.clear):
                m.d.sync += [full.eq(0), high.eq(0)]
        m.d.comb += self.count.eq(Cat(parts))
        return m


class Counters(wiring.Component):
    """The counters of the job that runs or, between jobs, of the last one.

    Everything is registered once before it is counted: a clock shows in `counters` two edges
    later, so the counts are final from two edges after that of `end`.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    begin : In(1)
        The job is accepted at this clock's edge: clears all counters; counting starts with the
        next clock.
    end : In(1)
        The job ends at this clock's edge: the last clock that counts.
    beat, address, address_wait : In(1)
        The reader's R handshake; its AR handshake; its ARVALID without ARREADY.
    outstanding_beats : In(range(config.outstanding_beats + 1))
        Beats of accepted read bursts less beats received up to the last edge.
    active : In(1)
        The clocks that `stream_beats`, `refused_cycles` and `wait_cycles` share out.
    stream_valid, stream_ready : In(1)
        The reader's output stream.
    rows_taken : In(1)
        The top-k takes a row.
    inserted : In(1)
        A row has entered the list of results.
    write_beat : In(1)
        The writer's W handshake.
    counters : Out(ArrayLayout(64, len(COUNTERS)))
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "begin": In(1),
                "end": In(1),
                "beat": In(1),
                "address": In(1),
                "address_wait": In(1),
                "outstanding_beats": In(range(config.outstanding_beats + 1)),
                "active": In(1),
                "stream_valid": In(1),
                "stream_ready": In(1),
                "rows_taken": In(1),
                "inserted": In(1),
                "write_beat": In(1),
                "counters": Out(data.ArrayLayout(COUNTER_BITS, len(COUNTERS))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        begin = Signal()
        end = Signal()
        running = Signal()
        m.d.sync += [begin.eq(self.begin), end.eq(self.end)]
        with m.If(end):
            m.d.sync += running.eq(0)
        with m.If(begin):
            m.d.sync += running.eq(1)

        # Registered once, like begin and end.
        beat = Signal()
        address = Signal()
        outstanding = Signal.like(self.outstanding_beats)
        m.d.sync += [
            beat.eq(self.beat),
            address.eq(self.address),
            outstanding.eq(self.outstanding_beats),
        ]

        latency_open = Signal()
        latency_known = Signal()
        with m.If(running):
            with m.If(beat):
                m.d.sync += [latency_open.eq(0), latency_known.eq(1)]
            with m.Elif(address & ~latency_known):
                m.d.sync += latency_open.eq(1)
        with m.If(begin):
            m.d.sync += [latency_open.eq(0), latency_known.eq(0)]

        most = Signal.like(outstanding)
        with m.If(running & (outstanding > most)):
            m.d.sync += most.eq(outstanding)
        with m.If(begin):
            m.d.sync += most.eq(0)

        def registered(event, name):
            register = Signal(name=name)
            m.d.sync += register.eq(event)
            return register

        row_bits = self.config.max_rows.bit_length()
        stream = self.active & self.stream_valid
        events = {
            "cycles": (CYCLE_BITS, 1),
            "data_beats": (CYCLE_BITS, beat),
            "stream_beats": (CYCLE_BITS, registered(stream & self.stream_ready, "taken")),
            "refused_cycles": (CYCLE_BITS, registered(stream & ~self.stream_ready, "refused")),
            "wait_cycles": (CYCLE_BITS, registered(self.active & ~self.stream_valid, "waiting")),
            "address_wait_cycles": (CYCLE_BITS, registered(self.address_wait, "address_waiting")),
            "first_data_latency_cycles": (CYCLE_BITS, latency_open),
            "rows": (row_bits, registered(self.rows_taken, "row_taken")),
            "insertions": (row_bits, registered(self.inserted, "row_inserted")),
            "bytes_written": (WRITE_BEAT_BITS, registered(self.write_beat, "written")),
        }
        counts = {"max_outstanding_bytes": most}
        for name, (width, event) in events.items():
            m.submodules[name] = counter = EventCounter(width)
            m.d.comb += [counter.clear.eq(begin), counter.event.eq(running & event)]
            counts[name] = counter.count

        beat_shift = self.config.bus_bytes.bit_length() - 1
        for index, (name, _) in enumerate(COUNTERS):
            in_bytes = name in ("max_outstanding_bytes", "bytes_written")
            value = counts[name] << beat_shift if in_bytes else counts[name]
            m.d.comb += self.counters[index].eq(value)
        return m
