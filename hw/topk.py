"""The exact top-k: a pipelined heap that keeps the best rows of a job."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import TERM_BITS, HeadConfig
from hw.topk_engine import (
    SiftEngine,
    engine_levels,
    fill_layout,
    operation_layout,
)
from hw.trees import is_less


def candidate_members(config: HeadConfig) -> dict:
    """What the top-k keeps of a row; with a bound its term, that the score may be found again."""
    members = {"rank": signed(config.rank_bits), "id": unsigned(config.id_bits)}
    if config.bound:
        members["term"] = signed(TERM_BITS)
    return members


class CandidateLayout(data.StructLayout):
    """A row that may enter the top-k."""

    def __init__(self, config: HeadConfig):
        super().__init__(candidate_members(config))


class EntryLayout(data.StructLayout):
    """An entry that the top-k gives up: a row, or a slot that no row has taken."""

    def __init__(self, config: HeadConfig):
        super().__init__(candidate_members(config) | {"occupied": 1})


class TopK(wiring.Component):
    """Keeps the `k` best rows of a job: higher rank first, then lower id.

    Rows and slots are compared as one unsigned key: rank in offset binary, then the inverted id.
    All zeros is an empty slot, below every row; all ones is a full one, above every row. No row has
    these keys, since `HeadConfig.rank_bits` leaves the lowest and the highest rank free. A term
    goes along below the key and is not compared.

    The slots are a heap with the worst one at its root. A row better than the root replaces it and
    sifts down; a job for fewer than K results begins with full slots in the rest of the heap. To
    drain, the root is put out and replaced by a full slot, which sifts down likewise. An operation
    is on one level of the heap at a time and the next follows behind it, so the logic grows with
    log K and the rate does not fall with K.

    Throughput: a row that is not among the best so far takes one clock, or two with an
    `insert_interval` of 6; one that is, ``insert_interval`` clocks. Records leave at that interval,
    too, the first one at most ``2 * insert_interval`` clocks after `drain`.

    Clearing writes two slots a clock, half of K rounded up to a power of two, and takes
    ``2 * engines + 2`` clocks besides, an engine being two levels of the heap.

    Parameters
    ----------
    config : HeadConfig
        `k` is the number of slots; `insert_interval` 6 has shorter paths than 4.

    Members
    -------
    k : In
        Results of the job, 1..K, stable from `clear` to the last record.
    clear : In
        One clock: begin a job. What is left of the one before is dropped, a waiting record too.
    ready : Out
        Neither clearing nor draining.
    i : In(stream of CandidateLayout)
        Rows of the job in any order, each id at most once.
    drain : In
        One clock, after the last row was taken and while `ready`: put out the result.
    o : Out(stream of EntryLayout)
        `k` records, slots without a row first, then rows from the worst to the best.
    inserted : Out
        A row went into the heap in the clock before.
    settled : Out
        No row that was taken waits to be judged, and `inserted` is over.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        self.levels = engine_levels(config.k)
        super().__init__(
            {
                "k": In(range(config.k + 1)),
                "clear": In(1),
                "ready": Out(1),
                "i": In(stream.Signature(CandidateLayout(config))),
                "drain": In(1),
                "o": Out(stream.Signature(EntryLayout(config))),
                "inserted": Out(1),
                "settled": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        term_bits = TERM_BITS if config.bound else 0
        rank_start = term_bits + config.id_bits
        key_bits = rank_start + config.rank_bits
        interval = config.insert_interval
        pair_bits = max(1, (self.pairs - 1).bit_length())
        root = Signal(key_bits, reset_less=True)
        candidate = Signal(key_bits, reset_less=True)
        pending = Signal()
        filling = Signal()
        fill_empty = Signal(reset_less=True)
        running = Signal()
        draining = Signal()
        accepted = Signal()
        pop = Signal()

        # What comes first of all: the first engine or, with a single slot, the root alone.
        entry = Signal(operation_layout(key_bits, pair_bits))
        fill = Signal(fill_layout(pair_bits))
        engines = [
            SiftEngine(
                key_bits,
                pair_bits,
                interval,
                levels,
                last=index == len(self.levels) - 1,
                carried_bits=term_bits,
            )
            for index, levels in enumerate(self.levels)
        ]
        if engines:
            self._connect_engines(m, engines, entry, fill)
            root_write, root_key = engines[0].up.valid, engines[0].up.key
        else:
            key = Signal(key_bits, reset_less=True)
            with m.If(entry.load):
                m.d.sync += key.eq(entry.key)
            root_write, root_key = entry.valid, key
        root_changes = Signal()
        m.d.sync += root_changes.eq(root_write | filling)
        with m.If(root_changes):
            m.d.sync += root.eq(root_key)

        # `recent` has a bit for each clock since an operation began. `free`, the last clock of an
        # interval or later, enables whole keys, so it is a register.
        free = Signal()
        recent = Signal(interval - 1)
        starts = ~(entry.valid | recent[:-1].any())
        better = is_less(root[term_bits:], candidate[term_bits:])
        if interval == 6:
            # The comparison is registered as well, so rows are judged in every second clock.
            judged = Signal(reset_less=True)
            m.d.sync += judged.eq(better)
            starts &= ~(free & running)
            better = judged
        m.d.sync += recent.eq(Cat(entry.valid, recent))
        m.d.sync += free.eq(starts | filling)

        # A row waits here to be compared with a root that is not about to change.
        rank = self.i.payload.rank.as_unsigned()
        key = [~self.i.payload.id, rank[:-1], ~rank[-1]]
        if config.bound:
            key.insert(0, self.i.payload.term)
        m.d.comb += [
            self.i.ready.eq(free & running),
            accepted.eq(pending & free & better),
        ]
        with m.If(filling):
            m.d.sync += [pending.eq(0), candidate.eq(0)]
        with m.Elif(free):
            m.d.sync += [
                pending.eq(self.i.valid & running),
                candidate.eq(Cat(key)),
            ]
        m.d.sync += self.inserted.eq(accepted & ~filling)
        m.d.comb += self.settled.eq(~(pending | self.inserted))

        fill_full = Signal(reset_less=True)
        m.d.sync += fill_full.eq(filling & ~fill_empty)
        # Nothing is accepted any more where an entry waits; `pop` would come late.
        full = self.o.valid | fill_full
        m.d.comb += [
            entry.load.eq(free),
            entry.valid.eq(accepted | pop),
            entry.key.eq(Mux(full, (1 << key_bits) - 1, candidate)),
            entry.node.eq(self._root_slot),
        ]

        # Draining. `pop` leaves the same interval between operations as the rows do.
        left = Signal(range(config.k + 1), reset_less=True)
        occupied = Signal(reset_less=True)
        m.d.comb += [
            pop.eq(self.o.valid & self.o.ready),
            self.o.payload.id.eq(~root[term_bits:rank_start]),
            self.o.payload.rank.eq(Cat(root[rank_start:-1], ~root[-1]).as_signed()),
            self.o.payload.occupied.eq(occupied),
            self.ready.eq(~filling & ~draining),
        ]
        if config.bound:
            m.d.comb += self.o.payload.term.eq(root[:term_bits].as_signed())
        m.d.sync += occupied.eq(root[rank_start:].any())
        with m.If(running):
            m.d.sync += left.eq(self.k)
        with m.If(pop):
            m.d.sync += [self.o.valid.eq(0), left.eq(left - 1)]
        with m.Elif(draining & ~pending & ~recent[:-1].any()):
            m.d.sync += self.o.valid.eq(left != 0)
            with m.If(left == 0):
                m.d.sync += draining.eq(0)
        with m.If(self.drain & running):
            m.d.sync += [running.eq(0), draining.eq(1)]
        with m.If(self.clear):
            m.d.sync += [
                filling.eq(1),
                fill_empty.eq(0),
                running.eq(0),
                draining.eq(0),
                self.o.valid.eq(0),
            ]
        self._fill(m, fill, filling, fill_empty, running, len(engines))
        return m

    @property
    def _root_slot(self) -> int:
        """Number of the root's slot; see `heap_levels`."""
        return self.levels[0][0].first if self.levels else 0

    @property
    def pairs(self) -> int:
        """Pairs of slots, the root's included."""
        return self.levels[-1][-1].first + self.levels[-1][-1].pairs if self.levels else 1

    def _connect_engines(self, m, engines, entry, fill):
        for index, engine in enumerate(engines):
            m.submodules[f"engine_{index}"] = engine
            m.d.comb += engine.fill.eq(fill)
        m.d.comb += engines[0].i.eq(entry)
        for above, below in zip(engines, engines[1:], strict=False):
            m.d.comb += [
                below.i.eq(above.o),
                below.early_node.eq(above.next_early_node),
                below.early_enable.eq(above.next_early_enable),
                above.down.eq(below.up),
            ]

    def _fill(self, m, fill, filling, fill_empty, running, engines):
        """Makes the first `k` slots empty and the others full.

        The full key moves into all engines and is written to every pair from the last one down to
        the one in which slots begin to be empty. Then the empty key follows the same way, from that
        pair down to the first one.
        """
        walk = Signal(range(self.pairs + 1), reset_less=True)
        settle = Signal(range(max(1, engines) + 1), reset_less=True)
        settled = Signal(reset_less=True)  # settle == 0
        at_boundary = Signal(reset_less=True)  # walk == k // 2
        at_first = Signal(reset_less=True)  # walk == 0
        boundary = Signal(reset_less=True)
        writes = Signal()
        goes_on = Signal()
        half = self.k[1:]
        half_after = Signal(len(half) + 1, reset_less=True)
        odd = self.k[0]
        empty_halves = Cat(1, odd) if self._root_slot else Cat(odd, 0)
        m.d.comb += [
            writes.eq(filling & settled),
            goes_on.eq(writes & ~at_first & (fill_empty | ~at_boundary)),
        ]
        # Comparisons have a clock to themselves; the first of a fill, that of settling.
        m.d.sync += [
            settled.eq(~settle[1:].any()),
            half_after.eq(half + 1),
            at_boundary.eq(Mux(goes_on, walk == half_after, walk == half)),
            at_first.eq(Mux(goes_on, walk == 1, walk == 0)),
            fill.active.eq(filling),
            fill.pair.eq(walk),
            fill.halves.eq(Mux(boundary, empty_halves, 0b11) & writes.replicate(2)),
        ]
        with m.If(settle != 0):
            m.d.sync += settle.eq(settle - 1)
        with m.If(writes):
            m.d.sync += boundary.eq(0)
            with m.If(~fill_empty & at_boundary):
                m.d.sync += [
                    fill_empty.eq(1),
                    boundary.eq(1),
                    settle.eq(max(1, engines)),
                    settled.eq(0),
                ]
            with m.Elif(at_first):
                m.d.sync += filling.eq(0)
                m.d.sync += running.eq(1)
        with m.If(goes_on):
            m.d.sync += walk.eq(walk - 1)
        with m.If(self.clear):
            m.d.sync += [
                walk.eq(self.pairs),
                settle.eq(max(1, engines)),
                settled.eq(0),
                boundary.eq(0),
            ]
