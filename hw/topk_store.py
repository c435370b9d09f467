"""Memories of sibling pairs for the top-k's heap."""

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out


def _members(key_bits, pair_bits):
    return {
        "load": In(1),
        "load_pair": In(pair_bits),
        "pair": Out(data.ArrayLayout(key_bits, 2)),
        "write_halves": In(2),
        "write_pair": In(pair_bits),
        "write_key": In(key_bits),
    }


class PairStore(wiring.Component):
    """Pairs of keys in distributed RAM, a single pair in registers.

    A write is visible in the clock after `write_key`. The right keys are stored at inverted
    addresses: so each of the two RAMs has address registers of its own, where tools would merge
    equal ones and slow them down by the fan-out.

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
    load : In(1)
    load_pair : In(pair_bits)
        Show pair `load_pair` from the next clock on, with what is written to it meanwhile.
    pair : Out(ArrayLayout(key_bits, 2))
    write_halves : In(2)
        Which of the two keys of `write_pair` to write in the next clock.
    write_pair : In(pair_bits)
    write_key : In(key_bits)
        What to write for the halves and the pair of the clock before: those fan out and can be
        told early, this comes late.
    """

    def __init__(self, key_bits: int, pair_bits: int, first: int, pairs: int):
        self.key_bits = key_bits
        self.first = first
        self.pairs = pairs
        super().__init__(_members(key_bits, pair_bits))

    def elaborate(self, platform):
        m = Module()
        halves = Signal(2)
        m.d.sync += halves.eq(self.write_halves)
        if self.pairs == 1:
            for half in range(2):
                if self.first == 0 and half == 0:
                    # No slot of the heap: never the smaller one of its pair.
                    m.d.comb += self.pair[half].eq(Const(-1, unsigned(self.key_bits)))
                    continue
                key = Signal(self.key_bits, name=f"key_{half}", reset_less=True)
                m.d.comb += self.pair[half].eq(key)
                with m.If(halves[half]):
                    m.d.sync += key.eq(self.write_key)
            return m
        address_bits = (self.pairs - 1).bit_length()
        for half, name in enumerate(("left", "right")):
            storage = memory.Memory(
                shape=unsigned(self.key_bits),
                depth=1 << address_bits,
                init=[],
                attrs={"ram_style": "distributed"},
            )
            m.submodules[name] = storage
            inverted = -half
            address = Signal(address_bits, name=f"{name}_address", reset_less=True)
            with m.If(self.load):
                m.d.sync += address.eq(self.load_pair ^ inverted)
            read = storage.read_port(domain="comb")
            write = storage.write_port()
            write_address = Signal.like(address, name=f"{name}_write_address")
            m.d.sync += write_address.eq(self.write_pair ^ inverted)
            m.d.comb += [
                read.addr.eq(address),
                self.pair[half].eq(read.data),
                write.addr.eq(write_address),
                write.data.eq(self.write_key),
                write.en.eq(halves[half]),
            ]
        return m


class EarlyPairStore(wiring.Component):
    """Pairs of keys in block RAM, for the last level of a heap.

    A block RAM is too slow to be read and compared in one step. So both pairs that may be needed
    are read a step early, when only the slot above their parents is known, and the choice between
    them is made when they are in registers. `early_enable` is two clocks or more ahead of use, and
    one or more after the write of a key that must be seen.

    Parameters and members are those of `PairStore`, but `write_key` comes together with
    `write_halves` and `write_pair`; and:

    early_node : In(pair_bits)
        The slot two levels above the pairs to read.
    early_enable : In(1)
        Read now; not while something is written.
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
                read.en.eq(self.early_enable),
                write.addr.eq(self.write_pair[1:]),
                write.data.eq(self.write_key),
                write.en.eq(chosen),
            ]
            m.d.sync += near[index].eq(read.data)
        # Two selects for the sake of fan-out; being inverses, they are not merged.
        second, first = Signal(reset_less=True), Signal(reset_less=True)
        with m.If(self.load):
            m.d.sync += [second.eq(self.load_pair[0]), first.eq(~self.load_pair[0])]
        m.d.comb += [
            self.pair[0].eq(Mux(second, near[2], near[0])),
            self.pair[1].eq(Mux(first, near[1], near[3])),
        ]
        return m
