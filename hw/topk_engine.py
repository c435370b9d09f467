"""One engine of the top-k's heap: it sifts keys down through two neighbouring levels."""

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.topk_store import EarlyPairStore, PairStore
from hw.trees import is_less

EARLY_PAIRS = 64
"""A level of so many pairs is in block RAM: distributed RAM would take more LUTs than an engine."""

LOW_PERCENT = 35
"""Share of the compared bits that is compared a clock before the others, with an interval of 6."""

SHARED_PAIRS = 8
"""Two levels share a RAM if the second has at most this many pairs: it has 16 words."""


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


def engine_levels(k: int) -> list[tuple[Level, ...]]:
    """Which levels each engine serves, from the top.

    Two each, but an only child below the root is left to itself: it needs no choice between two
    children, and the others then share RAMs better.
    """
    levels = heap_levels(k)
    alone = [levels[:1]] if levels and levels[0].first == 0 else []
    rest = levels[len(alone) :]
    return alone + [rest[index : index + 2] for index in range(0, len(rest), 2)]


def fill_layout(pair_bits: int) -> data.StructLayout:
    """A broadcast that overwrites the heap with the key that stands in the engines.

    ``active``: operations end where they are and keys move from engine to engine each clock.
    ``halves``: the slots of ``pair`` to write, in each memory that has or aliases the pair. Pairs
    descend, so the last write to an address is that of its own pair.
    """
    return data.StructLayout({"active": 1, "halves": 2, "pair": pair_bits})


def operation_layout(key_bits: int, pair_bits: int) -> data.StructLayout:
    """A key on its way down. ``load``: take ``key`` and ``node``; ``valid``: and sift it.

    ``node`` is the slot to be filled, with a key of the pair below it or with the key itself.
    """
    return data.StructLayout({"load": 1, "valid": 1, "key": key_bits, "node": pair_bits})


def write_layout(key_bits: int, pair_bits: int) -> data.StructLayout:
    """A write to ``slot``, announced by ``valid``; ``key`` is what to write in the clock after.

    While a fill is active and in the clock after, ``key`` is the key to fill with.
    """
    return data.StructLayout({"valid": 1, "slot": pair_bits + 1, "key": key_bits})


class SiftEngine(wiring.Component):
    """Sifts a key down one or two levels of a min-heap.

    A level takes ``interval / 2`` clocks: read the pair below the slot to fill and compare; then
    write the least of the pair and the key to that slot. If the key was not the least, it goes on
    with the slot from which the written one came. With an interval of 6, reading and comparing
    are a clock each. Two levels share one set of comparators: the engine is on the second level of
    one operation and then on the first one of the next, without a pause.

    Hazard: the slot that an operation leaves open on a level is written one step later, from the
    level below, and visible ``interval`` clocks after that level was read. So operations must
    start at least ``interval`` clocks apart. Then two writes never meet at a memory either, since
    the second of its two writers follows one step behind the first.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    pair_bits : int
        Width of a pair's number.
    interval : 4 or 6
        Clocks between two operations.
    levels : one or two Levels
        Its levels, from the top; see `engine_levels`.
    last : bool
        No engine follows; the key ends in the slots of the last level.
    carried_bits : int
        Lowest bits of a key that are not compared.

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
    """

    def __init__(
        self,
        key_bits: int,
        pair_bits: int,
        interval: int,
        levels: Sequence[Level],
        last: bool,
        carried_bits: int = 0,
    ):
        if len(levels) not in (1, 2):
            raise ValueError(f"an engine has 1 or 2 levels, got {len(levels)}")
        self.key_bits = key_bits
        self.pair_bits = pair_bits
        self.interval = interval
        self.step = interval // 2
        self.levels = tuple(levels)
        self.last = last
        self.carried_bits = carried_bits
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
            }
        )

    def elaborate(self, platform):
        m = Module()
        step = self.step
        length = step * len(self.levels)
        # One bit per clock of an operation; one that has found its slot disappears.
        phase = Signal(length)
        key = Signal(self.key_bits, reset_less=True)
        pair = Signal(data.ArrayLayout(self.key_bits, 2))

        # The comparisons are registered before they move keys, as they leave the carry chains.
        # `pair` holds still until the move.
        compared = pair
        if self.interval == 6:
            compared = Signal.like(pair, name="compared", reset_less=True)
            m.d.sync += compared.eq(pair)
        # The low bits are compared in the clock that reads the pair, in which there is time; so the
        # carry chains of the clock after are shorter.
        low_bits = 0
        if self.interval == 6:
            low_bits = LOW_PERCENT * (self.key_bits - self.carried_bits) // 100
        middle = self.carried_bits + low_bits
        low = [value[self.carried_bits : middle] for value in (key, *pair)]
        high = [value[middle:] for value in (key, *compared)]

        def less_than(a, b):
            """Of two keys: 0 is the one on its way, 1 and 2 are the pair."""
            if not low_bits:
                return is_less(high[a], high[b])
            low_less = Signal(reset_less=True, name=f"low_less{a}{b}")
            m.d.sync += low_less.eq(is_less(low[a], low[b]))
            return is_less(Cat(Const(0, 1), high[a]), Cat(low_less, high[b]))

        left_less = Signal(reset_less=True)
        m.d.sync += left_less.eq(less_than(1, 2))
        right_least = Signal()
        m.d.comb += right_least.eq(~left_less)
        less = [less_than(0, 1), less_than(0, 2)]
        if self.levels[0].first == 0:
            # An only child, on the right.
            m.d.sync += left_less.eq(0)
            less[0] = 1
        stays = Signal(2, reset_less=True)
        m.d.sync += stays.eq(Cat(less))
        with m.If(self.fill.active):
            m.d.sync += stays.eq(0b11)
        goes_on = Signal()
        m.d.comb += goes_on.eq(~stays.all())
        least = Signal(self.key_bits)
        m.d.comb += least.eq(Mux(goes_on, Mux(right_least, compared[1], compared[0]), key))

        decided = Cat(phase[step * n - 1] for n in range(1, len(self.levels) + 1))
        for n in range(1, length):
            survives = goes_on if n % step == 0 else 1
            m.d.sync += phase[n].eq(phase[n - 1] & survives)
        m.d.sync += phase[0].eq(self.i.valid)
        with m.If(self.i.load | self.fill.active):
            m.d.sync += key.eq(self.i.key)
        # The slots to be filled on the way: above the first level and, if there is one, the second.
        top = Signal(self.pair_bits, reset_less=True)
        with m.If(self.i.load):
            m.d.sync += top.eq(self.i.node)
        node = top
        if len(self.levels) == 2:
            node = Signal(self.pair_bits, reset_less=True)
            with m.If(decided[0]):
                m.d.sync += node.eq(Cat(right_least, top))
        child = Cat(right_least, node)

        m.d.comb += [
            self.up.valid.eq(phase[step - 2]),
            self.up.slot.eq(top),
            self.up.key.eq(least),
            self.o.load.eq(decided[-1]),
            self.o.valid.eq(decided[-1] & goes_on),
            self.o.key.eq(key),
            self.o.node.eq(child),
            self.next_early_node.eq(node),
            self.next_early_enable.eq(phase[length - step]),
        ]
        # Where a key ends, there is a clock to spare.
        leaf = Signal(write_layout(self.key_bits, self.pair_bits))
        leaf_key = Signal(self.key_bits, reset_less=True)
        m.d.sync += leaf_key.eq(key)
        m.d.comb += [
            leaf.valid.eq(decided[-1] & goes_on),
            leaf.slot.eq(child),
            leaf.key.eq(leaf_key),
        ]
        below = leaf if self.last else self.down

        if len(self.levels) == 1:
            store = self._store(m, "store", self.levels[0], below)
            m.d.comb += [
                store.load.eq(self.i.load),
                store.load_pair.eq(self.i.node),
                pair.eq(store.pair),
            ]
            if isinstance(store, EarlyPairStore):
                m.d.comb += [
                    store.write_key.eq(key),
                    store.early_node.eq(self.early_node),
                    # A read never meets a write; where tools can see that, they need no logic to
                    # define what it would give.
                    store.early_enable.eq(self.early_enable & ~decided[0] & ~self.fill.active),
                ]
            return m

        own = Signal(write_layout(self.key_bits, self.pair_bits))
        m.d.comb += [own.valid.eq(phase[length - 2]), own.slot.eq(node), own.key.eq(least)]
        second_pair = Cat(right_least, top)
        if not self.last and self.levels[1].pairs <= SHARED_PAIRS:
            merged = Signal(write_layout(self.key_bits, self.pair_bits))
            from_below = Signal(reset_less=True)
            m.d.sync += from_below.eq(~own.valid)
            both = Level(self.levels[0].first, self.levels[0].pairs + self.levels[1].pairs)
            store = self._store(m, "shared", both, merged)
            m.d.comb += [
                merged.valid.eq(own.valid | below.valid),
                merged.slot.eq(Mux(own.valid, own.slot, below.slot)),
                merged.key.eq(Mux(from_below, below.key, least)),
                store.load.eq(self.i.load | decided[0]),
                store.load_pair.eq(Mux(decided[0], second_pair, self.i.node)),
                pair.eq(store.pair),
            ]
            return m

        first = self._store(m, "first", self.levels[0], own)
        second = self._store(m, "second", self.levels[1], below)
        # Two selects for the sake of fan-out; being inverses, they are not merged.
        on_first, on_second = Signal(reset_less=True), Signal(reset_less=True)
        to_second = phase[step - 1 : length - 1].any()
        m.d.sync += [on_second.eq(to_second), on_first.eq(~to_second)]
        m.d.comb += [
            first.load.eq(self.i.load),
            first.load_pair.eq(self.i.node),
            second.load.eq(decided[0]),
            second.load_pair.eq(second_pair),
            pair[0].eq(Mux(on_second, second.pair[0], first.pair[0])),
            pair[1].eq(Mux(on_first, first.pair[1], second.pair[1])),
        ]
        return m

    def _store(self, m, name, level, write):
        """The memory of `level`, written by `write` and the fill."""
        kind = EarlyPairStore if level.pairs >= EARLY_PAIRS else PairStore
        store = kind(self.key_bits, self.pair_bits, level.first, level.pairs)
        m.submodules[name] = store
        # Below its first pair, a fill would overwrite a memory's own pairs.
        own_fill = Signal(name=f"{name}_fill")
        lowest_bit = max(0, level.first.bit_length() - 1)
        has_pair = self.fill.pair[lowest_bit:].any() if level.first else 1
        m.d.comb += [
            own_fill.eq(self.fill.active & has_pair),
            store.write_pair.eq(Mux(self.fill.active, self.fill.pair, write.slot[1:])),
            store.write_key.eq(write.key),
        ]
        for half in range(2):
            chosen = write.valid & (write.slot[0] == half)
            m.d.comb += store.write_halves[half].eq(
                Mux(self.fill.active, own_fill & self.fill.halves[half], chosen)
            )
        return store
