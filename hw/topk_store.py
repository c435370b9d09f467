"""Memories of sibling pairs for the top-k's heap."""

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out


def _members(key_bits, pair_bits):
    return {
        "read_pair": In(pair_bits),
        "pair": Out(data.ArrayLayout(key_bits, 2)),
        "write_halves": In(2),
        "write_pair": In(pair_bits),
        "write_key": In(key_bits),
    }


class PairStore(wiring.Component):
    """Pairs of keys in distributed RAM, a single pair in registers.

    Reads within the clock; a write is visible in the next clock.

    Parameters
    ----------
    key_bits : int
        Width of a key.
    pair_bits : int
        Width of a pair's number.
    first : int
        Number of the first pair, zero or a power of two.
    pairs : int
        Pairs from there. Numbers beyond alias others, modulo a power of two.

    Members
    -------
    read_pair : In(pair_bits)
    pair : Out(ArrayLayout(key_bits, 2))
        The pair `read_pair`.
    write_halves : In(2)
        Which of the two keys of `write_pair` become `write_key`.
    write_pair : In(pair_bits)
    write_key : In(key_bits)
    """

    def __init__(self, key_bits: int, pair_bits: int, first: int, pairs: int):
        self.key_bits = key_bits
        self.first = first
        self.pairs = pairs
        super().__init__(_members(key_bits, pair_bits))

    def elaborate(self, platform):
        m = Module()
        if self.pairs == 1:
            for half in range(2):
                if self.first == 0 and half == 0:
                    # No slot of the heap: never the smaller one of its pair.
                    m.d.comb += self.pair[half].eq(Const(-1, unsigned(self.key_bits)))
                    continue
                key = Signal(self.key_bits, name=f"key_{half}", reset_less=True)
                m.d.comb += self.pair[half].eq(key)
                with m.If(self.write_halves[half]):
                    m.d.sync += key.eq(self.write_key)
            return m
        depth = 1 << (self.pairs - 1).bit_length()
        for half, name in enumerate(("left", "right")):
            storage = memory.Memory(
                shape=unsigned(self.key_bits),
                depth=depth,
                init=[],
                attrs={"ram_style": "distributed"},
            )
            m.submodules[name] = storage
            read = storage.read_port(domain="comb")
            write = storage.write_port()
            m.d.comb += [
                read.addr.eq(self.read_pair),
                self.pair[half].eq(read.data),
                write.addr.eq(self.write_pair),
                write.data.eq(self.write_key),
                write.en.eq(self.write_halves[half]),
            ]
        return m


class EarlyPairStore(wiring.Component):
    """Pairs of keys in block RAM, for the last level of a heap.

    A block RAM is too slow to be read and compared in one step. So both pairs that may be needed
    are read a step early, when only the slot above their parents is known, and the choice between
    them is made when they are in registers. `early_enable` is two clocks or more ahead of use, and
    three or more after the write of a key that must be seen.

    Parameters and members are those of `PairStore` and:

    early_node : In(pair_bits)
        The slot two levels above the pairs to read.
    early_enable : In(1)
        Read now.
    """

    def __init__(self, key_bits: int, pair_bits: int, first: int, pairs: int):
        if pairs < 2:
            raise ValueError(f"pairs must be at least 2, got {pairs}")
        self.key_bits = key_bits
        self.pairs = pairs
        super().__init__(
            _members(key_bits, pair_bits)
            | {
                "early_node": In(pair_bits),
                "early_enable": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        near = Signal(data.ArrayLayout(self.key_bits, 4), reset_less=True)
        # The two never meet; saying so spares the logic for a read during a write.
        enable = Signal()
        m.d.comb += enable.eq(self.early_enable & ~self.write_halves.any())
        for index in range(4):
            storage = memory.Memory(
                shape=unsigned(self.key_bits),
                depth=self.pairs // 2,
                init=[],
                attrs={"ram_style": "block"},
            )
            m.submodules[f"quarter_{index}"] = storage
            read = storage.read_port()
            write = storage.write_port()
            chosen = self.write_halves[index % 2] & (self.write_pair[0] == index // 2)
            m.d.comb += [
                read.addr.eq(self.early_node),
                read.en.eq(enable),
                write.addr.eq(self.write_pair[1:]),
                write.data.eq(self.write_key),
                write.en.eq(chosen),
            ]
            m.d.sync += near[index].eq(read.data)
        for half in range(2):
            m.d.comb += self.pair[half].eq(Mux(self.read_pair[0], near[half + 2], near[half]))
        return m
