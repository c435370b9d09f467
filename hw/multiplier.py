"""Pipelined signed multipliers that map to one DSP block each, and wider ones made of them."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.config import ceil_div
from hw.family import DSP_BITS, WIDEST_DSP_BITS, Family, is_ecp5
from hw.trees import adder_tree, tree_levels


class Multiplier(wiring.Component):
    """Signed product of two operands that a DSP block takes, three clocks later, one each clock.

    The three registers (operands, product, output) are those that DSP blocks offer inside. Yosys
    leaves them outside on the ECP5, where they cost the clock; there the block is instantiated.
    Small operands, too, belong in DSP blocks: `use_dsp` tells Vivado, which would spend LUTs.

    Parameters
    ----------
    a_bits : int
        Up to 18, or as many as the wider port of a family's DSP blocks has.
    b_bits : int
        Up to 18.

    Members
    -------
    a, b : In, signed
    product : Out, signed

    Raises
    ------
    ValueError
        An operand is wider than any DSP block takes or, when it is elaborated, than those of the
        family.
    """

    LATENCY = 3

    def __init__(self, a_bits: int, b_bits: int):
        for name, bits, most in (("a_bits", a_bits, WIDEST_DSP_BITS), ("b_bits", b_bits, DSP_BITS)):
            if not 1 <= bits <= most:
                raise ValueError(f"{name} must be in 1..{most}, got {bits}")
        super().__init__(
            {
                "a": In(signed(a_bits)),
                "b": In(signed(b_bits)),
                "product": Out(signed(a_bits + b_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if isinstance(platform, Family) and len(self.a) > platform.widest_operand_bits:
            raise ValueError(
                f"a_bits must be at most {platform.widest_operand_bits} on {platform.name}, "
                f"got {len(self.a)}"
            )
        if is_ecp5(platform):
            m.submodules.dsp, product = self._mult18x18d()
            m.d.comb += self.product.eq(product)
            return m
        a = Signal.like(self.a, reset_less=True)
        b = Signal.like(self.b, reset_less=True)
        product = Signal.like(self.product, reset_less=True, attrs={"use_dsp": "yes"})
        output = Signal.like(self.product, reset_less=True)
        m.d.sync += [a.eq(self.a), b.eq(self.b), product.eq(a * b), output.eq(product)]
        m.d.comb += self.product.eq(output)
        return m

    def _mult18x18d(self) -> tuple[Instance, Value]:
        """The ECP5's multiplier with all of its registers, and its product (Lattice FPGA-TN-02205).

        The operands stand at its upper bits, as does the product: constant zeros below cost no
        routing, copies of the sign above would.
        """
        a = Cat(Const(0, DSP_BITS - len(self.a)), self.a)
        b = Cat(Const(0, DSP_BITS - len(self.b)), self.b)
        product = Signal(2 * DSP_BITS, name="dsp_product")
        ports = {}
        for bit in range(DSP_BITS):
            ports |= {f"i_A{bit}": a[bit], f"i_B{bit}": b[bit], f"i_C{bit}": Const(0)}
        for bit in range(2 * DSP_BITS):
            ports[f"o_P{bit}"] = product[bit]
        for register in ("INPUTA", "INPUTB", "PIPELINE", "OUTPUT"):
            ports[f"p_REG_{register}_CLK"] = "CLK0"
        instance = Instance(
            "MULT18X18D",
            **ports,
            i_CLK0=ClockSignal(),
            i_CE0=Const(1),
            i_RST0=Const(0),
            i_SIGNEDA=Const(1),
            i_SIGNEDB=Const(1),
            i_SOURCEA=Const(0),
            i_SOURCEB=Const(0),
        )
        return instance, product[2 * DSP_BITS - len(self.product) :]


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
