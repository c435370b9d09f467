"""What becomes of the scored rows of some vectors: the top-k, the log-sum-exp, memory."""

from typing import NamedTuple

from amaranth.hdl import (
    Array,
    Cat,
    Const,
    Module,
    Mux,
    ResetInserter,
    Signal,
    Value,
    signed,
    unsigned,
)
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.buffer import StreamBuffer
from hw.config import TERM_BITS, HeadConfig
from hw.header import term_names
from hw.logits import LOGIT_BITS
from hw.logsumexp import EXPONENT_BITS, TOP_LAYOUT, LogSumExp, accumulator_bits
from hw.parameters import ParameterLayout
from hw.rows import RowQueue, sums_layout
from hw.terms import RowTerms
from hw.topk import EntryLayout, TopK


class Sink(NamedTuple):
    """One that takes rows."""

    wanted: Value
    """The row is for this one."""
    offer: Value
    """To be driven: the row is there, and wanted."""
    ready: Value


class Ranker(wiring.Component):
    """Takes the sums of its vectors from the farm and hands each row to all who want it.

    Row queue -> row terms -> {top-k of the row's vector, log-sum-exp, logits}. A row goes to each
    of these as soon as that one is ready, and the next row follows when all have it. Rows that the
    mask excludes only go to the logits.

    With `job_queue` the top-k and the log-sum-exp exist twice: while one bank gives up the results
    of a job, the other takes the rows of the next.

    Throughput: a row of a vector a clock. A vector that keeps a row takes its next one
    ``insert_interval + 1`` clocks later; with a single slot the next row is at hand, and it takes
    no more than `TopK` does.

    Parameters
    ----------
    config : HeadConfig
    channel, ranker : int

    Members
    -------
    start : In
        One clock, before the first sums of a job. The arguments are stable from then on, until
        `done` or, without `job_queue`, until the last entry has been taken.
    bank : In
        The bank of the job that streams.
    rows, vectors, k : In
        Rows of the channel, vectors of the job, its results per vector.
    parameters : In(ArrayLayout of ParameterLayout)
        Those of each slot, right while there are rows.
    write_logits : In
        Rows go to `logits`.
    scores_valid, scores : In
        As the farm gives them, those of this ranker.
    release : Out
        See `RowQueue`.
    mask : In(stream)
        See `RowQueue`; with a mask.
    bias, bound : In(stream of signed 16 bits)
        See `RowTerms`; only those that are built.
    logits : Out(stream of 64 bits)
        The score of every row, row by row in the order of slots; with `all_logits`.
    done : Out
        All rows have been handed over and taken in; high until `start`.
    taken : Out
        A row of a vector leaves the row queue.
    inserted : Out
        So many rows went into the top-k in the clock before.
    drain_bank, drain_slot : In
        Bank and slot of the results to be put out.
    ready : Out
        That slot's top-k can be drained. It may lag behind `done` where rows can pass it.
    drain : In
        One clock, while `ready`.
    entries : Out(stream of EntryLayout)
        See `TopK`. Bank and slot are stable until the last one was taken.
    lse_top, lse_read_exponent, lse_read_sum :
        `top`, `read_exponent` and `read_sum` of the `LogSumExp` for that bank and slot; with
        `logsumexp`.
    clear : In
        Drop the job that streams. Nothing is taken until the next `start`.
    clear_finish : In
        Drop what is in `drain_bank`.
    """

    def __init__(self, config: HeadConfig, channel: int = 0, ranker: int = 0):
        self.config = config
        self.channel = channel
        self.ranker = ranker
        self.vectors_here = vectors = config.ranker_vectors(ranker)
        members = {
            "start": In(1),
            "bank": In(1),
            "rows": In(range(config.max_rows + 1)),
            "vectors": In(range(config.batch + 1)),
            "k": In(range(config.k + 1)),
            "parameters": In(data.ArrayLayout(ParameterLayout(), vectors)),
            "scores_valid": In(1),
            "scores": In(sums_layout(config, vectors)),
            "release": Out(1),
            "done": Out(1),
            "taken": Out(1),
            "inserted": Out(range(vectors + 1)),
            "drain_bank": In(1),
            "drain_slot": In(range(max(2, vectors))),
            "ready": Out(1),
            "drain": In(1),
            "entries": Out(stream.Signature(EntryLayout(config))),
            "clear": In(1),
            "clear_finish": In(1),
        }
        if config.mask:
            members["mask"] = In(stream.Signature(unsigned(vectors)))
        for name in term_names(config):
            members[name] = In(stream.Signature(signed(TERM_BITS)))
        if config.all_logits:
            members["write_logits"] = In(1)
            members["logits"] = Out(stream.Signature(unsigned(LOGIT_BITS)))
        if config.logsumexp:
            members["lse_top"] = Out(TOP_LAYOUT)
            members["lse_read_exponent"] = In(signed(EXPONENT_BITS))
            members["lse_read_sum"] = Out(unsigned(accumulator_bits(config)))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        queue = RowQueue(config, self.channel, self.ranker)
        m.submodules.queue = ResetInserter(self.clear)(queue)
        m.d.comb += [
            queue.start.eq(self.start),
            queue.rows.eq(self.rows),
            queue.vectors.eq(self.vectors),
            queue.valid.eq(self.scores_valid),
            queue.scores.eq(self.scores),
            self.release.eq(queue.release),
            self.taken.eq(queue.o.valid & queue.o.ready),
        ]
        if config.mask:
            connect(m, flipped(self.mask), queue.mask)
        # Those who take the rows say so late, and far away.
        finished = [queue.done]
        rows = self._buffer(m, queue.o, "queue", finished)
        if config.terms:
            terms = self._add_terms(m, rows, queue.unused)
            finished.append(terms.idle)
            rows = self._buffer(m, terms.o, "terms", finished)

        row = rows.payload
        allowed = row.allowed if config.mask else Const(1)
        sinks = [self._rank(m, row, allowed, finished)]
        if config.logsumexp:
            sinks.append(self._sum(m, row, allowed, finished))
        if config.all_logits:
            m.d.comb += self.logits.payload.eq(row.score)
            sinks.append(Sink(self.write_logits, self.logits.valid, self.logits.ready))
        self._share(m, rows, sinks)
        m.d.comb += self.done.eq(Cat(finished).all() if len(finished) > 1 else finished[0])
        return m

    @property
    def banks(self) -> range:
        return range(2 if self.config.job_queue else 1)

    @property
    def slots(self) -> range:
        return range(self.vectors_here)

    def _is_bank(self, bank, number):
        return bank == number if len(self.banks) > 1 else Const(1)

    def _is_slot(self, slot, number):
        return slot == number if len(self.slots) > 1 else Const(1)

    def _in_bank(self, bank, values):
        """The one of `values`, one for each bank, that `bank` selects."""
        return Mux(bank, values[1], values[0]) if len(self.banks) > 1 else values[0]

    def _in_slot(self, slot, values):
        """The one of `values`, one for each slot, that `slot` selects."""
        return Array(values)[slot] if len(self.slots) > 1 else values[0]

    def _dropping(self, number):
        """Resets bank `number`."""
        streaming = self.clear & self._is_bank(self.bank, number)
        return ResetInserter(
            streaming | (self.clear_finish & self._is_bank(self.drain_bank, number))
        )

    def _buffer(self, m, rows, name, finished):
        """The stream `rows` behind a buffer, which is empty in the end."""
        buffer = StreamBuffer(rows.payload.shape().size)
        m.submodules[f"{name}_buffer"] = ResetInserter(self.clear)(buffer)
        buffered = stream.Signature(rows.payload.shape()).create(path=(f"{name}_rows",))
        m.d.comb += [
            buffer.i.payload.eq(rows.payload.as_value()),
            buffer.i.valid.eq(rows.valid),
            rows.ready.eq(buffer.i.ready),
            buffered.payload.as_value().eq(buffer.o.payload),
            buffered.valid.eq(buffer.o.valid),
            buffer.o.ready.eq(buffered.ready),
        ]
        finished.append(~buffer.o.valid)
        return buffered

    def _add_terms(self, m, rows, unused):
        terms = RowTerms(self.config, self.ranker)
        m.submodules.terms = ResetInserter(self.clear)(terms)
        connect(m, rows, terms.i)
        m.d.comb += terms.drop.eq(unused)
        for name in term_names(self.config):
            connect(m, flipped(getattr(self, name)), getattr(terms, name))
            multipliers = getattr(terms, f"{name}_multipliers")
            m.d.comb += [multipliers[slot].eq(self.parameters[slot][name]) for slot in self.slots]
        return terms

    def _rank(self, m, row, allowed, finished) -> Sink:
        """The top-k of every bank and slot."""
        config = self.config
        offer = Signal(name="rank_offer")
        candidate = {"rank": row.rank if config.bound else row.score, "id": row.id}
        if config.bound:
            candidate["term"] = row.term
        banks = []
        for number in self.banks:
            here = self._is_bank(self.bank, number)
            k = self.k
            if len(self.banks) > 1:
                # The next job may ask for another k while this one's results are put out.
                k = Signal.like(self.k, name=f"k{number}", reset_less=True)
                with m.If(self.start & here):
                    m.d.sync += k.eq(self.k)
            bank = [TopK(config) for _ in self.slots]
            banks.append(bank)
            for slot, topk in enumerate(bank):
                drained = self._is_bank(self.drain_bank, number)
                drained &= self._is_slot(self.drain_slot, slot)
                m.submodules[f"topk{number}_{slot}"] = self._dropping(number)(topk)
                m.d.comb += [
                    topk.k.eq(k),
                    topk.clear.eq(self.start & here),
                    topk.i.valid.eq(offer & here & self._is_slot(row.slot, slot)),
                    topk.drain.eq(self.drain & drained),
                    topk.o.ready.eq(self.entries.ready & drained),
                ]
                m.d.comb += [topk.i.payload[name].eq(value) for name, value in candidate.items()]
            if config.job_queue:
                finished += [topk.settled for topk in bank]

        def selected(bank, slot, value):
            values = [self._in_slot(slot, [value(topk) for topk in topks]) for topks in banks]
            return self._in_bank(bank, values)

        def drained(value):
            return selected(self.drain_bank, self.drain_slot, value)

        m.d.comb += [
            # Only one bank takes rows.
            self.inserted.eq(
                sum(Cat(bank[slot].inserted for bank in banks).any() for slot in self.slots)
            ),
            self.ready.eq(drained(lambda topk: topk.ready)),
            self.entries.valid.eq(drained(lambda topk: topk.o.valid)),
            self.entries.payload.as_value().eq(drained(lambda topk: topk.o.payload.as_value())),
        ]
        return Sink(allowed, offer, selected(self.bank, row.slot, lambda topk: topk.i.ready))

    def _sum(self, m, row, allowed, finished) -> Sink:
        """The log-sum-exp of every bank."""
        offer = Signal(name="sum_offer")
        units = []
        for number in self.banks:
            here = self._is_bank(self.bank, number)
            unit = LogSumExp(self.config, self.vectors_here)
            units.append(unit)
            m.submodules[f"logsumexp{number}"] = self._dropping(number)(unit)
            m.d.comb += [
                unit.start.eq(self.start & here),
                unit.i.valid.eq(offer & here),
                unit.i.payload.score.eq(row.score),
                unit.i.payload.slot.eq(row.slot),
                unit.read_slot.eq(self.drain_slot),
                unit.read_exponent.eq(self.lse_read_exponent),
            ]
            for slot in self.slots:
                m.d.comb += [
                    unit.multiplier[slot].eq(self.parameters[slot].multiplier),
                    unit.shift[slot].eq(self.parameters[slot].shift),
                ]
        finished.append(self._in_bank(self.bank, [unit.idle for unit in units]))
        tops = [unit.top.as_value() for unit in units]
        m.d.comb += [
            self.lse_top.as_value().eq(self._in_bank(self.drain_bank, tops)),
            self.lse_read_sum.eq(self._in_bank(self.drain_bank, [u.read_sum for u in units])),
        ]
        return Sink(allowed, offer, self._in_bank(self.bank, [unit.i.ready for unit in units]))

    def _share(self, m, rows, sinks):
        """Gives a row to all sinks that want it, each when it is ready."""
        served = []
        for number, sink in enumerate(sinks):
            served.append(sink.ready | ~sink.wanted)
            m.d.comb += sink.offer.eq(rows.valid & sink.wanted)
            if len(sinks) > 1:
                passed = Signal(name=f"passed{number}")
                served[-1] |= passed
                with m.If(passed):
                    m.d.comb += sink.offer.eq(0)
                with m.If(rows.valid):
                    m.d.sync += passed.eq(served[-1] & ~rows.ready)
                with m.If(self.clear):
                    m.d.sync += passed.eq(0)
        m.d.comb += rows.ready.eq(Cat(served).all() if len(served) > 1 else served[0])
