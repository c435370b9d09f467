"""Multipliers and adder trees against Python's integers."""

import random

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.family import Family
from hw.multiplier import Multiplier, WideMultiplier
from hw.multiplier_pair import MultiplierPair
from hw.trees import adder_tree, tree_levels
from tests.blocks.streams import simulate


def operands(bits, rng, count):
    edges = [-(1 << bits - 1), (1 << bits - 1) - 1, 0, -1, 1 << (bits - 2) if bits > 1 else 0]
    return edges + [rng.randrange(-(1 << bits - 1), 1 << bits - 1) for _ in range(count)]


def run_multiplier(dut, latency, a_bits, b_bits):
    rng = random.Random(f"{a_bits} {b_bits}")
    pairs = [(a, b) for a in operands(a_bits, rng, 6) for b in operands(b_bits, rng, 6)]
    got = []

    async def bench(ctx):
        for index in range(len(pairs) + latency):
            a, b = pairs[min(index, len(pairs) - 1)]
            ctx.set(dut.a, a)
            ctx.set(dut.b, b)
            if index >= latency:
                got.append(ctx.get(dut.product))
            await ctx.tick()

    simulate(dut, bench)
    assert got == [a * b for a, b in pairs]


@pytest.mark.parametrize(
    ("a_bits", "b_bits"), [(4, 8), (8, 16), (16, 16), (18, 18), (27, 18), (1, 1)]
)
def test_products_are_exact_one_each_clock(a_bits, b_bits):
    run_multiplier(Multiplier(a_bits, b_bits), Multiplier.LATENCY, a_bits, b_bits)


@pytest.mark.parametrize(("bits", "shared_bits"), [(4, 8), (4, 16), (8, 8), (1, 1)])
def test_pairs_that_share_a_factor_are_exact_one_each_clock(bits, shared_bits):
    rng = random.Random(f"{bits} {shared_bits}")
    factors = operands(bits, rng, 3)
    triples = [
        (first, second, shared)
        for first in factors
        for second in factors
        for shared in operands(shared_bits, rng, 3)
    ]
    dut = MultiplierPair(bits, shared_bits)
    got = []

    async def bench(ctx):
        for index in range(len(triples) + dut.LATENCY):
            first, second, shared = triples[min(index, len(triples) - 1)]
            ctx.set(dut.first, first)
            ctx.set(dut.second, second)
            ctx.set(dut.shared, shared)
            if index >= dut.LATENCY:
                got.append((ctx.get(dut.first_product), ctx.get(dut.second_product)))
            await ctx.tick()

    simulate(dut, bench)
    assert got == [(first * shared, second * shared) for first, second, shared in triples]


@pytest.mark.parametrize("b_bits", [8, 17])
@pytest.mark.parametrize("a_bits", [9, 18, 19, 29, 35, 36, 52, 53])
def test_wide_products_are_exact_one_each_clock(a_bits, b_bits):
    run_multiplier(
        WideMultiplier(a_bits, b_bits), WideMultiplier.latency_of(a_bits), a_bits, b_bits
    )


@pytest.mark.parametrize(("bits", "limbs"), [(2, 1), (18, 1), (19, 2), (35, 2), (36, 3)])
def test_wide_operands_take_the_fewest_limbs(bits, limbs):
    assert WideMultiplier.limbs_of(bits) == limbs


def test_operands_wider_than_any_dsp_block_are_refused():
    with pytest.raises(ValueError, match=r"a_bits must be in 1\.\.27, got 28"):
        Multiplier(28, 4)
    with pytest.raises(ValueError, match=r"b_bits must be in 1\.\.18, got 19"):
        Multiplier(4, 19)


@pytest.mark.parametrize(("family", "most"), [("ecp5", 18), ("7series", 25), ("ultrascale+", 27)])
def test_operands_wider_than_the_dsp_blocks_of_the_family_are_refused(family, most):
    Multiplier(most, 18).elaborate(Family(family))
    if most < 27:
        with pytest.raises(ValueError, match=f"a_bits must be at most {most} on {family}, got 27"):
            Multiplier(27, 18).elaborate(Family(family))


class Tree(wiring.Component):
    def __init__(self, terms):
        self.terms = terms
        super().__init__({"i": In(signed(8)).array(terms), "o": Out(signed(20))})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(adder_tree(m, list(self.i), "sum"))
        if self.terms == 1:
            idle = Signal()
            m.d.sync += idle.eq(~idle)
        return m


@pytest.mark.parametrize("terms", [1, 2, 3, 5, 8])
def test_a_tree_adds_any_number_of_terms(terms):
    dut = Tree(terms)
    rng = random.Random(terms)
    rows = [
        [rng.choice((-128, 127, rng.randrange(-128, 128))) for _ in range(terms)] for _ in range(20)
    ]

    async def bench(ctx):
        for index in range(len(rows) + tree_levels(terms)):
            for term, value in zip(dut.i, rows[min(index, len(rows) - 1)], strict=True):
                ctx.set(term, value)
            if index >= tree_levels(terms):
                assert ctx.get(dut.o) == sum(rows[index - tree_levels(terms)])
            await ctx.tick()

    simulate(dut, bench)
