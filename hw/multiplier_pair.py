"""Two signed products that share a factor, by one multiplication."""

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.family import pair_operand_bits
from hw.multiplier import Multiplier


class MultiplierPair(wiring.Component):
    """``first * shared`` and ``second * shared`` with one `Multiplier`, four clocks later, exact,
    one pair each clock.

    The operand is ``second << s | first`` as a sum, ``s`` being the width of a product. So the
    lower `s` bits of the one product are that of `first`; where it is negative, it has borrowed
    one from the bits above, which is given back in the fourth clock.

    Parameters
    ----------
    bits : int
        Width of `first` and `second`.
    shared_bits : int
        Width of the factor they share, at most 18.

    Members
    -------
    first, second, shared : In, signed
    first_product, second_product : Out, signed

    Raises
    ------
    ValueError
        The operand is wider than any DSP block takes or, when it is elaborated, than those of the
        family.
    """

    LATENCY = Multiplier.LATENCY + 1

    def __init__(self, bits: int, shared_bits: int):
        self.bits = bits
        self.shared_bits = shared_bits
        self.multiplier = Multiplier(pair_operand_bits(bits, shared_bits), shared_bits)
        super().__init__(
            {
                "first": In(signed(bits)),
                "second": In(signed(bits)),
                "shared": In(signed(shared_bits)),
                "first_product": Out(signed(bits + shared_bits)),
                "second_product": Out(signed(bits + shared_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.multiplier = multiplier = self.multiplier
        bits = len(self.first_product)
        low = Signal(signed(bits))
        high = Signal(signed(self.bits + 1))
        m.d.comb += [
            low.eq(self.first),
            high.eq(self.second - self.first[-1]),
            multiplier.a.eq(Cat(low, high)),
            multiplier.b.eq(self.shared),
        ]
        first = multiplier.product[:bits]
        second = multiplier.product[bits : 2 * bits]
        first_product = Signal.like(self.first_product, reset_less=True)
        second_product = Signal.like(self.second_product, reset_less=True)
        m.d.sync += [first_product.eq(first), second_product.eq(second + first[-1])]
        m.d.comb += [
            self.first_product.eq(first_product),
            self.second_product.eq(second_product),
        ]
        return m
