"""Cycle-exact statistics of a job, each with a definition that a testbench recounts."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig, log2
from hw.reader import most_outstanding_beats


class CounterDefinition(NamedTuple):
    """Name and exact meaning of a counter."""

    name: str
    doc: str


JOB_COUNTERS = (
    CounterDefinition(
        "cycles",
        "Clock edges after the edge at which the job was accepted (START clears), up to and "
        "including the edge at which it ended (DONE is set).",
    ),
    CounterDefinition(
        "rows",
        "Pairs of a row and a vector that the row queues have handed over: those that a mask "
        "forbids are counted, padding rows are not.",
    ),
    CounterDefinition(
        "insertions",
        "Rows that entered a list of results, those displaced by later rows included. Every "
        "channel keeps a list of its own for each vector.",
    ),
    CounterDefinition(
        "bytes_written",
        "Bytes of the job's clock edges with WVALID and WREADY high, summed over the write ports.",
    ),
)
"""The counters of a job as a whole."""

CHANNEL_COUNTERS = (
    CounterDefinition(
        "data_beats",
        "Clock edges of the job with RVALID and RREADY high on the channel's read port, beats of "
        "the mask included.",
    ),
    CounterDefinition(
        "stream_beats",
        "Of the clocks from the first with ARVALID high for anything but the mask to the one in "
        "which the last beat of hidden state and image leaves the reader, both included: those "
        "with valid and ready high at that output of the reader.",
    ),
    CounterDefinition(
        "refused_cycles",
        "Of the same clocks: those with valid high and ready low at the same output.",
    ),
    CounterDefinition(
        "wait_cycles",
        "Of the same clocks: those with valid low at the same output.",
    ),
    CounterDefinition(
        "address_wait_cycles",
        "Clock edges of the job with ARVALID high and ARREADY low on the channel's read port.",
    ),
    CounterDefinition(
        "first_data_latency_cycles",
        "Clock edges after the job's first edge with ARVALID and ARREADY high on the channel's "
        "read port, up to and including its first edge with RVALID and RREADY high, or to its end "
        "if there is none.",
    ),
    CounterDefinition(
        "max_outstanding_bytes",
        "Largest value, just after any clock edge of the job, of the beats of all accepted bursts "
        "of the channel's read port less the beats received, in bytes.",
    ),
)
"""The counters of each channel.

The edges of a job are those that `cycles` counts; of the edges on the ports, where two jobs are
under way, those that carry the job's own addresses and data.
"""


def channel_counter(name: str, channel: int) -> str:
    """Name of a channel's counter."""
    return f"{name}{channel}"


def counter_names(config: HeadConfig) -> tuple[str, ...]:
    """The counters of a build in the order of the registers and of the trailer of a result
    block: those of the job, then those of each channel.
    """
    names = [counter.name for counter in JOB_COUNTERS]
    for channel in range(config.channels):
        names += [channel_counter(counter.name, channel) for counter in CHANNEL_COUNTERS]
    return tuple(names)


COUNTER_BITS = 64
"""Width of a counter as it is read."""

CYCLE_BITS = 48
"""Width of the counters of clocks and of read beats: 13 days at 250 MHz."""

LEAST_WRITE_BEAT_BITS = 32
"""Width of the counter of written beats, unless all scores of the largest job are more."""

SPLIT_BITS = 16
"""Bits of a counter that are added in one clock."""

INSERTION_CLOCKS = 16
"""Clocks after a job was accepted: by then all insertions of the one before are counted, and none
of its own can have been made."""


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


class AmountCounter(wiring.Component):
    """Counts events of which several may happen in a clock; the value is exact in every clock.

    Parameters
    ----------
    width : int
        Width of the count, which wraps.
    amount_bits : int
        Width of an amount.

    Members
    -------
    clear : In(1)
        Makes the count 0; has priority over `amount`.
    amount : In(amount_bits)
        Events in this clock.
    count : Out(width)
    """

    def __init__(self, width: int, amount_bits: int):
        super().__init__({"clear": In(1), "amount": In(amount_bits), "count": Out(width)})

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.count.eq(self.count + self.amount)
        with m.If(self.clear):
            m.d.sync += self.count.eq(0)
        return m


def write_ports(config: HeadConfig) -> int:
    """Memory ports that write: that of channel 0, all if scores are written."""
    return config.channels if config.all_logits else 1


def write_beat_bits(config: HeadConfig) -> int:
    """Width of the counter of written beats.

    A score has 8 bytes; the ends of chunks that are not full, and the results, are less than that
    once more.
    """
    scores = config.all_logits * config.max_rows * config.batch
    return max(LEAST_WRITE_BEAT_BITS, (2 * 8 * scores // config.bus_bytes).bit_length())


def total(terms: list[Value]) -> Value:
    """Sum of unsigned `terms`, as a balanced tree without registers."""
    while len(terms) > 1:
        pairs = [terms[index : index + 2] for index in range(0, len(terms), 2)]
        terms = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return terms[0]


class Counters(wiring.Component):
    """The counters of the job that runs or, between jobs, of the last one.

    With ``config.job_queue`` two jobs may be under way. `counters` are those of the older one once
    it was handed over, or else of the last one that was. What a job reads it reads before it is
    handed over, so such counts are kept from then on; what may come later, in a second counter.

    Everything is registered once before it is counted: a clock shows in `counters` two edges
    later, so the counts are final from two edges after that of `end`; rows and insertions of
    several channels, which are added up first, from three.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    begin : In(1)
        The job is accepted at this clock's edge: clears its counters; counting starts with the
        next clock.
    end : In(1)
        The job ends at this clock's edge: the last clock that counts.
    hand_over, bank, drain_bank : In(1)
        With ``config.job_queue``. The job that streams is handed over at this clock's edge, the
        last one in which it reads; its bank; from the next clock on the bank of the job that was
        handed over. See `INSERTION_CLOCKS` for the insertions.
    beat, address, address_wait : In(channels)
        Per channel the reader's R handshake; its AR handshake; its ARVALID without ARREADY.
    outstanding_beats : In(ArrayLayout)
        Per channel: beats of accepted read bursts less beats received up to the last edge.
    active : In(channels)
        The clocks that `stream_beats`, `refused_cycles` and `wait_cycles` share out.
    stream_valid, stream_ready : In(channels)
        The readers' output streams.
    rows_taken : In(channels * rankers)
        A row queue hands over a row and vector.
    inserted : In(ArrayLayout)
        Per ranker, those of channel 0 first: rows that have entered a list of results.
    write_beat : In(write_ports(config))
        The W handshakes.
    counters : Out(ArrayLayout(64, len(counter_names(config))))
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        channels = config.channels
        outstanding = range(most_outstanding_beats(config) + 1)
        rankers = channels * config.rankers
        names = counter_names(config)
        members = {
            "begin": In(1),
            "end": In(1),
            "beat": In(channels),
            "address": In(channels),
            "address_wait": In(channels),
            "outstanding_beats": In(data.ArrayLayout(outstanding, channels)),
            "active": In(channels),
            "stream_valid": In(channels),
            "stream_ready": In(channels),
            "rows_taken": In(rankers),
            "inserted": In(data.ArrayLayout(range(config.ranker_vectors(0) + 1), rankers)),
            "write_beat": In(write_ports(config)),
            "counters": Out(data.ArrayLayout(COUNTER_BITS, len(names))),
        }
        if config.job_queue:
            members |= {"hand_over": In(1), "bank": In(1), "drain_bank": In(1)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        begin, end = Signal(), Signal()
        m.d.sync += [begin.eq(self.begin), end.eq(self.end)]
        row_bits = (config.max_rows * config.batch).bit_length()
        rows = self._amounts(m, self.rows_taken, "row_taken")
        insertions = self._amounts(m, self.inserted, "row_inserted")
        written = _register(m, total(list(self.write_beat)), "written")
        late = {
            "cycles": (CYCLE_BITS, [Const(1)]),
            "insertions": (row_bits, insertions),
            "bytes_written": (write_beat_bits(config), [written]),
        }

        def streamed(running):
            """Counts that are final when the job is handed over."""
            counts = {"rows": _count(m, "rows", row_bits, begin, running, rows)}
            for channel in range(config.channels):
                for name, count in self._channel(m, channel, begin, running).items():
                    counts[channel_counter(name, channel)] = count
            return counts

        if config.job_queue:
            counts = self._count_two_jobs(m, begin, end, streamed, late)
        else:
            running = _span(m, begin, end, "running")
            counts = streamed(running)
            for name, (width, amounts) in late.items():
                counts[name] = _count(m, name, width, begin, running, amounts)

        for index, name in enumerate(counter_names(config)):
            in_bytes = name.startswith(("max_outstanding_bytes", "bytes_written"))
            value = counts[name] << log2(config.bus_bytes) if in_bytes else counts[name]
            m.d.comb += self.counters[index].eq(value)
        return m

    def _amounts(self, m, events, name) -> list[Signal]:
        """Events of a clock later, those of each channel added up."""
        rankers = self.config.rankers
        return [
            _register(m, total(list(events)[first : first + rankers]), f"{name}_{first // rankers}")
            for first in range(0, len(events), rankers)
        ]

    def _count_two_jobs(self, m, begin, end, streamed, late) -> dict[str, Value]:
        """The counts of the job that was handed over last, while the next one streams."""
        hand_over, handed_over = Signal(), Signal()
        bank, drain_bank, insert_bank = Signal(), Signal(), Signal()
        m.d.sync += [
            hand_over.eq(self.hand_over),
            handed_over.eq(hand_over),
            bank.eq(self.bank),
            drain_bank.eq(self.drain_bank),
        ]
        # Insertions are counted a few clocks late; those of the next job follow its data.
        settle = Signal(range(INSERTION_CLOCKS + 1))
        with m.If(begin):
            m.d.sync += settle.eq(INSERTION_CLOCKS)
        with m.Elif(settle != 0):
            m.d.sync += settle.eq(settle - 1)
        with m.If(settle == 1):
            m.d.sync += insert_bank.eq(bank)

        held = {}
        for name, count in streamed(_span(m, begin, hand_over, "streaming")).items():
            held[name] = Signal.like(count, name=f"held_{name}", reset_less=True)
            with m.If(handed_over):
                m.d.sync += held[name].eq(count)

        finishing = _span(m, hand_over, end, "finishing")
        # Nobody writes but the job that was handed over, or before that a job on its own.
        write_bank = Mux(finishing, drain_bank, bank)
        values = {name: [] for name in late}
        for number in range(2):
            begins = Signal(name=f"begin_{number}")
            m.d.comb += begins.eq(begin & (bank == number))
            running = _span(m, begins, end & (drain_bank == number), f"running_{number}")
            owned = {
                "cycles": running,
                "insertions": running & (insert_bank == number),
                "bytes_written": running & (write_bank == number),
            }
            for name, (width, amounts) in late.items():
                label = f"{name}_{number}"
                values[name].append(_count(m, label, width, begins, owned[name], amounts))
        return held | {name: Mux(drain_bank, *reversed(pair)) for name, pair in values.items()}

    def _channel(self, m, channel, begin, running) -> dict[str, Value]:
        """The counts of a channel, in the order of `CHANNEL_COUNTERS`."""

        def of_channel(event, name):
            return _register(m, event[channel], f"{name}_{channel}")

        beat = of_channel(self.beat, "beat")
        address = of_channel(self.address, "address")
        outstanding = of_channel(self.outstanding_beats, "outstanding")

        latency_open = Signal(name=f"latency_open_{channel}")
        latency_known = Signal(name=f"latency_known_{channel}")
        with m.If(running):
            with m.If(beat):
                m.d.sync += [latency_open.eq(0), latency_known.eq(1)]
            with m.Elif(address & ~latency_known):
                m.d.sync += latency_open.eq(1)
        with m.If(begin):
            m.d.sync += [latency_open.eq(0), latency_known.eq(0)]

        most = Signal.like(outstanding, name=f"most_{channel}")
        with m.If(running & (outstanding > most)):
            m.d.sync += most.eq(outstanding)
        with m.If(begin):
            m.d.sync += most.eq(0)

        stream = self.active & self.stream_valid
        events = {
            "data_beats": beat,
            "stream_beats": of_channel(stream & self.stream_ready, "taken"),
            "refused_cycles": of_channel(stream & ~self.stream_ready, "refused"),
            "wait_cycles": of_channel(self.active & ~self.stream_valid, "waiting"),
            "address_wait_cycles": of_channel(self.address_wait, "address_waiting"),
            "first_data_latency_cycles": latency_open,
        }
        counts = {
            name: _count(m, channel_counter(name, channel), CYCLE_BITS, begin, running, [event])
            for name, event in events.items()
        }
        return counts | {"max_outstanding_bytes": most}


def _register(m, value, name) -> Signal:
    register = Signal(len(value), name=name)
    m.d.sync += register.eq(value)
    return register


def _span(m, begin, end, name) -> Signal:
    """High from the clock after `begin` to that of `end`; `begin` wins."""
    span = Signal(name=name)
    with m.If(end):
        m.d.sync += span.eq(0)
    with m.If(begin):
        m.d.sync += span.eq(1)
    return span


def _count(m, name, width, clear, running, amounts) -> Value:
    """Adds up `amounts` while `running`; several are added up in a clock of their own."""
    amounts = [Mux(running, amount, 0) for amount in amounts]
    amount = amounts[0] if len(amounts) == 1 else _register(m, total(amounts), f"{name}_amount")
    if len(amount) == 1:
        m.submodules[name] = counter = EventCounter(width)
        m.d.comb += counter.event.eq(amount)
    else:
        m.submodules[name] = counter = AmountCounter(width, len(amount))
        m.d.comb += counter.amount.eq(amount)
    m.d.comb += counter.clear.eq(clear)
    return counter.count
