"""Collects the records of a vector, merges those of the channels and formats the result block.

The block, little-endian: per vector a word of 16 bytes and `k` records of {int64 score, uint32 id,
uint32 zero}, best first, zeros past the count, padded to whole beats. The word holds the count
(uint32) and, with `HeadConfig.logsumexp`, exponent (int32) and sum (uint64) of the log-sum-exp;
what is not built is zero. After the last vector the trailer, `trailer_words` words of 8 bytes: the
counters in the order of `hw.counters.counter_names`, zeros, and last the status word, {uint32
status code, uint32 job number}.
"""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.buffer import StreamBuffer
from hw.config import MULTIPLIER_BITS, HeadConfig, ceil_div, log2
from hw.converter import WidthConverter
from hw.counters import COUNTER_BITS, counter_names
from hw.entries import BoundRemover, EntryMerge, EntryStore
from hw.logsumexp_merge import RESULT_LAYOUT
from hw.topk import EntryLayout
from hw.trees import adder_tree, tree_levels

RECORD_BYTES = 16
RECORD_BITS = 8 * RECORD_BYTES
TRAILER_MULTIPLE = 8
"""Words of 8 bytes that a trailer has a multiple of: the widest bus's beat."""


def record_beats(config: HeadConfig, k: int) -> int:
    """Bus beats of the count and the records of one vector, padded to whole beats."""
    return ceil_div((1 + k) * RECORD_BYTES, config.bus_bytes)


def trailer_words(config: HeadConfig) -> int:
    """Words of 8 bytes of the trailer."""
    return ceil_div(len(counter_names(config)) + 1, TRAILER_MULTIPLE) * TRAILER_MULTIPLE


def trailer_beats(config: HeadConfig) -> int:
    """Bus beats of the trailer."""
    return trailer_words(config) * 8 // config.bus_bytes


class ResultBuffer(wiring.Component):
    """Turns the entries of the top-k, worst first, into the beats of a result block.

    A record takes a clock, or a beat's time on `o` if that is longer; with more than one channel
    three clocks, with a bound six.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    collect : In
        One clock: the next `k` entries on each of `i0`, `i1`, ... are those of a new vector.
    k : In
        Stable from `collect` until the vector's records are out.
    i0, i1, ... : In(stream of EntryLayout)
        Of each channel, worst first, slots without a row before all others.
    collected : Out
        All entries are here; high until `collect`.
    lse : In(RESULT_LAYOUT)
        With `logsumexp`: that of the vector, stable from `send_records` until its records are out.
    bound_multiplier : In
        With `bound`: that of the vector, stable from `collect` until its records are out.
    send_records, send_trailer : In
        One clock, when `o` is idle: put out that part.
    beats : Out
        Beats of a vector's records, a clock after `k`.
    counters : In(ArrayLayout)
        In the order of `counter_names`, stable while the trailer goes out.
    status, job : In
        Status code and number of the job, likewise.
    o : Out(stream)
        Bus beats.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        members = {
            "collect": In(1),
            "k": In(range(config.k + 1)),
            "collected": Out(1),
            "send_records": In(1),
            "send_trailer": In(1),
            "beats": Out(range(record_beats(config, config.k) + 1)),
            "counters": In(data.ArrayLayout(COUNTER_BITS, len(counter_names(config)))),
            "status": In(8),
            "job": In(32),
            "o": Out(stream.Signature(unsigned(config.bus_bits))),
        }
        for channel in range(config.channels):
            members[f"i{channel}"] = In(stream.Signature(EntryLayout(config)))
        if config.logsumexp:
            members["lse"] = In(RESULT_LAYOUT)
        if config.bound:
            members["bound_multiplier"] = In(MULTIPLIER_BITS)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        records, count = self._records(m)

        records_per_beat = max(1, config.bus_bits // RECORD_BITS)
        beats_per_record = max(1, RECORD_BITS // config.bus_bits)
        m.d.sync += self.beats.eq(
            ((self.k + records_per_beat) >> log2(records_per_beat)) << log2(beats_per_record)
        )

        # Sending, a clock each: say what word `index` is, choose among record and counters.
        m.submodules.converter = converter = WidthConverter(RECORD_BITS, config.bus_bits)
        words_max = record_beats(config, config.k) * records_per_beat
        index = Signal(range(max(words_max, trailer_words(config) // 2) + 1))
        end = Signal.like(index)
        sending, trailer, chosen = Signal(), Signal(), Signal()
        is_count, is_record = Signal(), Signal()
        records_over = Signal()  # `index` is above k
        # Whether there is room for a word reaches far back: it comes from few flip-flops.
        m.submodules.buffer = buffer = StreamBuffer(RECORD_BITS)
        word = buffer.o.payload
        room, missing, step = Signal(), Signal(), Signal()
        m.d.comb += [
            room.eq(~buffer.i.valid | buffer.i.ready),
            step.eq(room & ~missing),
            records.ready.eq(chosen & is_record & room),
            converter.i.valid.eq(buffer.o.valid),
            buffer.o.ready.eq(converter.i.ready),
        ]
        if config.channels > 1 or config.bound:
            m.d.comb += missing.eq(chosen & is_record & ~records.valid)
        if config.bus_bits < RECORD_BITS:
            m.d.comb += [
                converter.i.payload.data.eq(word),
                converter.i.payload.words.eq(beats_per_record - 1),
            ]
        else:
            m.d.comb += converter.i.payload.eq(word)

        score = Signal(signed(64))
        m.d.comb += score.eq(getattr(records.payload, "score" if config.bound else "rank"))
        record = Mux(is_record, Cat(score, records.payload.id), 0)
        first_word = Signal(RECORD_BITS)
        m.d.comb += first_word[:32].eq(count)
        if config.logsumexp:
            m.d.comb += first_word[32:].eq(Cat(self.lse.exponent, self.lse.sum))
        counter_pair = self._counter_pair(m, index, step)
        with m.If(room):
            m.d.sync += [
                buffer.i.valid.eq(chosen & ~missing),
                buffer.i.payload.eq(Mux(trailer, counter_pair, Mux(is_count, first_word, record))),
            ]
        with m.If(step):
            m.d.sync += [
                chosen.eq(sending),
                is_count.eq(index == 0),
                is_record.eq(~trailer & (index != 0) & ~records_over),
            ]
            with m.If(sending):
                m.d.sync += [index.eq(index + 1), records_over.eq(records_over | (index == self.k))]
                with m.If(index == end):
                    m.d.sync += sending.eq(0)
        with m.If(self.send_records | self.send_trailer):
            m.d.sync += [
                sending.eq(1),
                index.eq(0),
                records_over.eq(0),
                trailer.eq(self.send_trailer),
            ]
        with m.If(self.send_records):
            words = (self.beats << log2(records_per_beat)) >> log2(beats_per_record)
            m.d.sync += end.eq(words - 1)
        with m.If(self.send_trailer):
            m.d.sync += end.eq(trailer_words(config) // 2 - 1)
        wiring.connect(m, converter.o, wiring.flipped(self.o))
        return m

    def _records(self, m):
        """The records of a vector, best first, as a stream, and their count."""
        config = self.config
        stores = []
        for channel in range(config.channels):
            m.submodules[f"entries{channel}"] = store = EntryStore(config)
            wiring.connect(m, wiring.flipped(getattr(self, f"i{channel}")), store.i)
            m.d.comb += [store.collect.eq(self.collect), store.k.eq(self.k)]
            stores.append(store)
        records = [store.o for store in stores]
        if config.channels == 1:
            count = stores[0].count
            m.d.comb += self.collected.eq(stores[0].complete)
        else:
            # The counts are added once they no longer change.
            complete = stores[0].complete
            for store in stores[1:]:
                complete &= store.complete
            settled = Signal(tree_levels(config.channels) + 1)
            m.d.sync += settled.eq(Cat(complete, settled))
            with m.If(self.collect):
                m.d.sync += settled.eq(0)
            terms = [Cat(store.count, Const(0, 1)).as_signed() for store in stores]
            total = adder_tree(m, terms, "count")
            count = Signal.like(self.k)
            m.d.sync += count.eq(Mux(total > self.k, self.k, total))
            m.d.comb += self.collected.eq(settled[-1])

        level = 0
        while len(records) > 1:
            for pair in range(len(records) // 2):
                merge = EntryMerge(config)
                m.submodules[f"merge{level}_{pair}"] = merge
                m.d.comb += merge.clear.eq(self.collect)
                wiring.connect(m, records[pair], merge.i0)
                wiring.connect(m, records[pair + 1], merge.i1)
                records[pair : pair + 2] = [merge.o]
            level += 1
        if config.bound:
            m.submodules.bound_remover = remover = BoundRemover(config)
            m.d.comb += remover.multiplier.eq(self.bound_multiplier)
            wiring.connect(m, records[0], remover.i)
            records = [remover.o]
        return records[0], count

    def _counter_pair(self, m, index, step):
        """Words ``2 * index`` and ``2 * index + 1`` of the trailer, a clock after `index`.

        Chosen in two clocks where there are many: first in every group of eight pairs.
        """
        config = self.config
        names = counter_names(config)
        padding = [Const(0, 64)] * (trailer_words(config) - 1 - len(names))
        status_word = Cat(self.status, Const(0, 24), self.job)
        words = [*(self.counters[n] for n in range(len(names))), *padding, status_word]
        pairs = [Cat(low, high) for low, high in zip(words[::2], words[1::2], strict=True)]
        groups = []
        for first in range(0, len(pairs), 8):
            # With a reset: Yosys 0.70 fails on what is left of its constant bits without one.
            chosen = Signal(RECORD_BITS, name=f"counter_pair{first // 8}")
            with m.If(step):
                m.d.sync += chosen.eq(Array(pairs[first : first + 8])[index[:3]])
            groups.append(chosen)
        if len(groups) == 1:
            return groups[0]
        group = Signal(range(len(groups)), reset_less=True)
        with m.If(step):
            m.d.sync += group.eq(index[3:])
        return Array(groups)[group]
