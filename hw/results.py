"""Collects the records of a job, sorts them best first and formats its result block.

The block, little-endian: per vector a word of 16 bytes with the count (uint32, then zeros) and `k`
records of {int64 score, uint32 id, uint32 zero}, best first, zeros past the count; from the next
bus beat on the trailer, `TRAILER_WORDS` words of 8 bytes: the counters in the order of
`hw.counters.COUNTERS`, zeros, and last the status word, {uint32 status code, uint32 job number}.
"""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig, ceil_div, log2
from hw.converter import WidthConverter
from hw.counters import COUNTERS
from hw.topk import EntryLayout

RECORD_BYTES = 16
RECORD_BITS = 8 * RECORD_BYTES
TRAILER_WORDS = 16
"""Words of 8 bytes."""
TRAILER_BYTES = 8 * TRAILER_WORDS


def record_beats(config: HeadConfig, k: int) -> int:
    """Bus beats of the count and the records of one vector, padded to whole beats."""
    return ceil_div((1 + k) * RECORD_BYTES, config.bus_bytes)


class ResultBuffer(wiring.Component):
    """Turns the entries of the top-k, worst first, into the beats of a result block.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    start : In
        One clock: the next `k` entries on `i` are those of a new job.
    k : In
        Stable from `start` on.
    i : In(stream of EntryLayout)
        Worst first, slots without a row before all others.
    collected : Out
        All `k` entries are here; high until `start`.
    send_records, send_trailer : In
        One clock, when `o` is idle: put out that part.
    beats : Out
        Beats of the records, two clocks after `start`.
    counters : In(ArrayLayout)
        In the order of `COUNTERS`, stable while the trailer goes out.
    status, job : In
        Status code and number of the job, likewise.
    o : Out(stream)
        Bus beats.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "k": In(range(config.k + 1)),
                "i": In(stream.Signature(EntryLayout(config))),
                "collected": Out(1),
                "send_records": In(1),
                "send_trailer": In(1),
                "beats": Out(range(record_beats(config, config.k) + 1)),
                "counters": In(data.ArrayLayout(64, len(COUNTERS))),
                "status": In(8),
                "job": In(32),
                "o": Out(stream.Signature(unsigned(config.bus_bits))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        entry = EntryLayout(config)
        # Entries are read when all are written: no bypass is needed for a collision.
        m.submodules.entries = entries = memory.Memory(
            shape=entry, depth=max(2, config.k), init=[], attrs={"no_rw_check": 1}
        )
        write = entries.write_port()
        read = entries.read_port()

        # Collecting: the worst goes to index k - 1, the best comes last and goes to index 0.
        left = Signal(range(config.k + 1))
        count = Signal(range(config.k + 1))
        m.d.comb += [
            self.i.ready.eq(left != 0),
            self.collected.eq(left == 0),
            write.addr.eq(left - 1),
            write.data.eq(self.i.payload),
            write.en.eq(self.i.valid & self.i.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(left - 1), count.eq(count + self.i.payload.occupied)]
        with m.If(self.start):
            m.d.sync += [left.eq(self.k), count.eq(0)]

        records_per_beat = max(1, config.bus_bits // RECORD_BITS)
        beats_per_record = max(1, RECORD_BITS // config.bus_bits)
        m.d.sync += self.beats.eq(
            ((self.k + records_per_beat) >> log2(records_per_beat)) << log2(beats_per_record)
        )

        # Sending, a clock each: fetch word `index`, choose among entries or counters, format it.
        # The memory's output is slow, so nothing but a register follows it.
        m.submodules.converter = converter = WidthConverter(RECORD_BITS, config.bus_bits)
        words_max = record_beats(config, config.k) * records_per_beat
        index = Signal(range(max(words_max, TRAILER_WORDS // 2) + 1))
        end = Signal.like(index)
        sending = Signal()
        trailer = Signal()
        fetching, chosen, valid = Signal(), Signal(), Signal()
        fetched_index = Signal.like(index)
        is_count, is_record = Signal(), Signal()
        read_entry = Signal(entry, reset_less=True)
        # With a reset, since ABC in Yosys 0.70 aborts on this multiplexer's register without one.
        counter_pair = Signal(RECORD_BITS)
        word = Signal(RECORD_BITS, reset_less=True)
        advance = Signal()
        m.d.comb += [
            advance.eq(~valid | converter.i.ready),
            converter.i.valid.eq(valid),
            read.addr.eq(index - 1),
            read.en.eq(advance),
        ]
        if config.bus_bits < RECORD_BITS:
            m.d.comb += [
                converter.i.payload.data.eq(word),
                converter.i.payload.words.eq(beats_per_record - 1),
            ]
        else:
            m.d.comb += converter.i.payload.eq(word)

        score = Signal(signed(64))
        m.d.comb += score.eq(read_entry.score)
        record = Mux(is_record & read_entry.occupied, Cat(score, read_entry.id), 0)
        padding = [Const(0, 64)] * (TRAILER_WORDS - 1 - len(COUNTERS))
        status_word = Cat(self.status, Const(0, 24), self.job)
        words = [*(self.counters[n] for n in range(len(COUNTERS))), *padding, status_word]
        pairs = Array(Cat(low, high) for low, high in zip(words[::2], words[1::2], strict=True))
        with m.If(advance):
            m.d.sync += [
                fetching.eq(sending),
                fetched_index.eq(index),
                chosen.eq(fetching),
                read_entry.eq(read.data),
                is_count.eq(fetched_index == 0),
                is_record.eq((fetched_index != 0) & (fetched_index <= self.k)),
                counter_pair.eq(pairs[fetched_index[:3]]),
                valid.eq(chosen),
                word.eq(Mux(trailer, counter_pair, Mux(is_count, count, record))),
            ]
            with m.If(sending):
                m.d.sync += index.eq(index + 1)
                with m.If(index == end):
                    m.d.sync += sending.eq(0)
        with m.If(self.send_records | self.send_trailer):
            m.d.sync += [sending.eq(1), index.eq(0), trailer.eq(self.send_trailer)]
        with m.If(self.send_records):
            words = (self.beats << log2(records_per_beat)) >> log2(beats_per_record)
            m.d.sync += end.eq(words - 1)
        with m.If(self.send_trailer):
            m.d.sync += end.eq(TRAILER_WORDS // 2 - 1)
        wiring.connect(m, converter.o, wiring.flipped(self.o))
        return m
