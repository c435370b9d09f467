"""One engine of the top-k's heap: it sifts keys down through two neighbouring levels."""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.topk_store import EarlyPairStore, PairStore

EARLY_PAIRS = 64
"""A last level of this many pairs is in block RAM; distributed RAM would cost more LUTs."""

SHARED_PAIRS = 8
"""Two levels share a RAM if the second has at most so many pairs: a distributed RAM has 16 words."""


@dataclass(frozen=True)
class Level:
    """A level of the heap below its root: pairs of siblings, numbered through all levels.

    Pair n is slots 2n and 2n + 1, the children of slot n.
    """

    first: int
    """Number of its first pair."""
    pairs: int


def heap_levels(k: int) -> tuple[Level, ...]:
    """The levels below the root of the smallest heap that holds `k` keys.

    A power of two would leave the last level of a perfect binary tree all but empty. There the root
    is slot 0, whose only child is slot 1, the top of a perfect tree of k - 1 slots; pair 0 is slot
    1 and a slot that is never used. Otherwise the root is slot 1 of a perfect tree.
    """
    if k & (k - 1) == 0:
        first_levels, depth = (Level(0, 1),), k.bit_length() - 2
    else:
        first_levels, depth = (), k.bit_length() - 1
    levels = first_levels + tuple(Level(1 << d, 1 << d) for d in range(depth))
    return levels if k > 1 else ()


def fill_layout(pair_bits: int) -> data.StructLayout:
    """A broadcast that overwrites the heap with the key that stands in the engines.

    ``active``: operations are dropped, keys move from engine to engine each clock. ``halves``: the
    slots of ``pair`` to write, in each memory that has or aliases the pair. Pairs descend, so the
    last write to an address is that of its own pair.
    """
    return data.StructLayout({"active": 1, "halves": 2, "pair": pair_bits})


def operation_layout(key_bits: int, pair_bits: int) -> data.StructLayout:
    """A key on its way down. ``load``: take ``key`` and ``node``; ``valid``: and sift it.

    ``node`` is the slot to be filled, with a key of the pair below it or with the key itself.
    """
    return data.StructLayout({"load": 1, "valid": 1, "key": key_bits, "node": pair_bits})


def write_layout(key_bits: int, pair_bits: int) -> data.StructLayout:
    """A write of ``key`` to ``slot``; the key is valid while a fill is active as well."""
    return data.StructLayout({"valid": 1, "slot": pair_bits + 1, "key": key_bits})


class SiftEngine(wiring.Component):
    """Sifts a key down one or two levels of a min-heap.

    A level takes ``interval / 2`` clocks: read the pair below the slot to fill and compare; then
    write the least of the pair and the key to that slot. If the key was not the least, it goes on
    with the slot from which the written one came. With an interval of 6, reading and comparing
    are a clock each. Two levels share one set of comparators: the engine is on the second level of
    one operation and then on the first one of the next, without a pause.

    Hazard: the slot an operation leaves open on a level is written one step later, from the level
    below, and visible ``interval`` clocks after that level was read. Operations must therefore
    start at least ``interval`` clocks apart, unless the one before ended on the first level of all.
    Then two writes never meet at a memory either: its two writers are an odd number of steps apart.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    pair_bits : int
        Width of a pair's number.
    interval : 4 or 6
        Clocks between two operations.
    levels : one or two Levels
        Its levels, from the top; one only in the last engine.
    last : bool
        No engine follows; the key ends in the slots of the last level.

    Members
    -------
    fill : In(fill_layout)
    i : In(operation_layout)
        Operations from above. The first step begins in the clock after ``valid``.
    early_node, early_enable : In
        The slot to be filled on the level above and the first clock of that step; for block RAM.
    up : Out(write_layout)
        Writes to the level above (to the root from the first engine).
    o : Out(operation_layout)
        Operations to the engine below.
    next_early_node, next_early_enable : Out
        `early_node` and `early_enable` of the engine below.
    down : In(write_layout)
        `up` of the engine below.
    phase : Out(interval / 2 * len(levels))
        One bit per clock of an operation, from the clock after ``i.valid``; an operation that has
        found its slot disappears.
    """

    def __init__(
        self, key_bits: int, pair_bits: int, interval: int, levels: Sequence[Level], last: bool
    ):
        if len(levels) not in (1, 2) or (len(levels) == 1 and not last):
            raise ValueError(f"an engine has 2 levels, the last one 1 or 2, got {len(levels)}")
        self.key_bits = key_bits
        self.pair_bits = pair_bits
        self.interval = interval
        self.step = interval // 2
        self.levels = tuple(levels)
        self.last = last
        operation = operation_layout(key_bits, pair_bits)
        write = write_layout(key_bits, pair_bits)
        super().__init__(
            {
                "fill": In(fill_layout(pair_bits)),
                "i": In(operation),
                "early_node": In(pair_bits),
                "early_enable": In(1),
                "up": Out(write),
                "o": Out(operation),
                "next_early_node": Out(pair_bits),
                "next_early_enable": Out(1),
                "down": In(write),
                "phase": Out(self.step * len(self.levels)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        step = self.step
        length = len(self.phase)
        key = Signal(self.key_bits, reset_less=True)
        node = Signal(self.pair_bits, reset_less=True)
        node_bits = (self.levels[-1].first + self.levels[-1].pairs - 1).bit_length()
        pair = Signal(data.ArrayLayout(self.key_bits, 2))
        left, right = pair[0], pair[1]

        # The comparisons are registered before they move keys. `pair` holds still until the move.
        compared = pair
        if self.interval == 6:
            compared = Signal.like(pair, name="compared", reset_less=True)
            m.d.sync += compared.eq(pair)
        left_least = Signal(reset_less=True)
        below_left = Signal(reset_less=True)
        below_right = Signal(reset_less=True)
        m.d.sync += [
            left_least.eq(compared[0] < compared[1]),
            below_left.eq(key < compared[0]),
            below_right.eq(key < compared[1]),
        ]
        ends = Signal()
        m.d.comb += ends.eq((below_left & below_right) | self.fill.active)
        child = Cat(~left_least, node)
        least = Signal(self.key_bits)
        m.d.comb += least.eq(Mux(ends, key, Mux(left_least, compared[0], compared[1])))

        decided = Cat(self.phase[step * n - 1] for n in range(1, len(self.levels) + 1))
        for n in range(1, length):
            goes_on = ~ends if n % step == 0 else 1
            m.d.sync += self.phase[n].eq(self.phase[n - 1] & goes_on & ~self.fill.active)
        m.d.sync += self.phase[0].eq(self.i.valid & ~self.fill.active)
        with m.If(self.i.load | self.fill.active):
            m.d.sync += key.eq(self.i.key)
        with m.If(self.i.load):
            m.d.sync += node.eq(self.i.node)
        with m.Elif(decided[0]):
            m.d.sync += node.eq(child[:node_bits])

        m.d.comb += [
            self.up.valid.eq(decided[0]),
            self.up.slot.eq(node),
            self.up.key.eq(least),
            self.o.load.eq(decided[-1]),
            self.o.valid.eq(decided[-1] & ~ends),
            self.o.key.eq(key),
            self.o.node.eq(child),
            self.next_early_node.eq(node),
            self.next_early_enable.eq(self.phase[length - step]),
        ]
        leaf = Signal(write_layout(self.key_bits, self.pair_bits))
        m.d.comb += [
            leaf.valid.eq(decided[-1] & ~ends),
            leaf.slot.eq(child),
            leaf.key.eq(key),
        ]
        below = leaf if self.last else self.down

        if len(self.levels) == 1:
            first = self._store(m, "first", self.levels[0], node, below)
            m.d.comb += pair.eq(first.pair)
            if isinstance(first, EarlyPairStore):
                m.d.comb += [
                    first.early_node.eq(self.early_node),
                    first.early_enable.eq(self.early_enable),
                ]
            return m

        own = Signal(write_layout(self.key_bits, self.pair_bits))
        m.d.comb += [own.valid.eq(decided[1]), own.slot.eq(node), own.key.eq(least)]
        if not self.last and 1 < self.levels[1].pairs <= SHARED_PAIRS:
            write = Mux(own.valid, own, below)
            merged = Signal.like(own, name="merged")
            m.d.comb += merged.eq(write)
            shared = Level(self.levels[0].first, self.levels[0].pairs + self.levels[1].pairs)
            store = self._store(m, "shared", shared, node, merged)
            m.d.comb += [
                merged.valid.eq(own.valid | below.valid),
                pair.eq(store.pair),
            ]
            return m

        first = self._store(m, "first", self.levels[0], node, own)
        second = self._store(m, "second", self.levels[1], node, below)
        on_second = Signal(reset_less=True)
        m.d.sync += on_second.eq(self.phase[step - 1 : length - 1].any())
        m.d.comb += pair.eq(Mux(on_second, second.pair, first.pair))
        if isinstance(second, EarlyPairStore):
            m.d.comb += [second.early_node.eq(node), second.early_enable.eq(self.phase[0])]
        return m

    def _store(self, m, name, level, node, write):
        """The memory of `level`, read at `node` and written by `write` and the fill."""
        kind = EarlyPairStore if self.last and level.pairs >= EARLY_PAIRS else PairStore
        store = kind(self.key_bits, self.pair_bits, level.first, level.pairs)
        m.submodules[name] = store
        # Below its first pair, a fill would overwrite a memory's own pairs.
        own_fill = Signal(name=f"{name}_fill")
        lowest_bit = max(0, level.first.bit_length() - 1)
        has_pair = self.fill.pair[lowest_bit:].any() if level.first else 1
        m.d.comb += [
            own_fill.eq(self.fill.active & has_pair),
            store.read_pair.eq(node),
            store.write_pair.eq(Mux(self.fill.active, self.fill.pair, write.slot[1:])),
            store.write_key.eq(write.key),
        ]
        for half in range(2):
            chosen = write.valid & (write.slot[0] == half)
            m.d.comb += store.write_halves[half].eq(
                Mux(self.fill.active, own_fill & self.fill.halves[half], chosen)
            )
        return store
