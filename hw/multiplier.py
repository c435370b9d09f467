"""Pipelined signed multipliers that map to one DSP block each, and wider ones made of them."""

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.config import ceil_div
from hw.trees import adder_tree, tree_levels

DSP_BITS = 18
"""Signed operand width that a DSP block of every supported family multiplies."""


class Multiplier(wiring.Component):
    """Signed product of two operands of at most 18 bits, three clocks later, one each clock.

    The three registers (operands, product, output) are those that DSP blocks offer inside.

    Members
    -------
    a, b : In, signed
    product : Out, signed
    """

    LATENCY = 3

    def __init__(self, a_bits: int, b_bits: int):
        for name, bits in (("a_bits", a_bits), ("b_bits", b_bits)):
            if not 1 <= bits <= DSP_BITS:
                raise ValueError(f"{name} must be in 1..{DSP_BITS}, got {bits}")
        super().__init__(
            {
                "a": In(signed(a_bits)),
                "b": In(signed(b_bits)),
                "product": Out(signed(a_bits + b_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        a = Signal.like(self.a, reset_less=True)
        b = Signal.like(self.b, reset_less=True)
        product = Signal.like(self.product, reset_less=True)
        output = Signal.like(self.product, reset_less=True)
        m.d.sync += [a.eq(self.a), b.eq(self.b), product.eq(a * b), output.eq(product)]
        m.d.comb += self.product.eq(output)
        return m


class WideMultiplier(wiring.Component):
    """Signed product of a wide operand and one of at most 18 bits, one each clock.

    The wide operand is cut into limbs of 17 bits, the lower ones unsigned, which are multiplied
    by one `Multiplier` each and added in a registered tree.

    Members
    -------
    a, b : In, signed
    product : Out, signed
    """

    LIMB_BITS = DSP_BITS - 1

    @classmethod
    def limbs_of(cls, a_bits: int) -> int:
        """Multipliers for a wide operand of `a_bits`."""
        return max(1, ceil_div(a_bits - 1, cls.LIMB_BITS))

    @classmethod
    def latency_of(cls, a_bits: int) -> int:
        """Clocks from operands to product."""
        return Multiplier.LATENCY + tree_levels(cls.limbs_of(a_bits))

    def __init__(self, a_bits: int, b_bits: int):
        self.a_bits = a_bits
        self.b_bits = b_bits
        self.limbs = self.limbs_of(a_bits)
        super().__init__(
            {
                "a": In(signed(a_bits)),
                "b": In(signed(b_bits)),
                "product": Out(signed(a_bits + b_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        parts = []
        for limb in range(self.limbs):
            low = limb * self.LIMB_BITS
            top = limb == self.limbs - 1
            bits = self.a_bits - low if top else self.LIMB_BITS + 1
            multiplier = Multiplier(bits, self.b_bits)
            m.submodules[f"limb{limb}"] = multiplier
            if top:
                m.d.comb += multiplier.a.eq(self.a[low:].as_signed())
            else:
                m.d.comb += multiplier.a.eq(self.a[low : low + self.LIMB_BITS])
            m.d.comb += multiplier.b.eq(self.b)
            parts.append(Cat(Const(0, low), multiplier.product).as_signed())
        m.d.comb += self.product.eq(adder_tree(m, parts, "limb_sum"))
        return m
