"""From integer scores to the base-2 logarithms of their exponentials."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.config import MULTIPLIER_BITS, SHIFT_BITS
from hw.multiplier import WideMultiplier

LOGARITHM_BITS = 33


class Log2Scaler(wiring.Component):
    """The base-2 logarithm of a score's exponential, one each clock.

    With all roundings downwards,

        scaled = score * 2^24 / 2^shift, clamped to -2^34 .. 2^34 - 1
        logarithm = scaled * multiplier / 2^34    in units of 2^-20

    Parameters
    ----------
    score_bits : int

    Members
    -------
    score : In, signed
    shift : In
        That of the score.
    multiplier : In
        That of the score of `MULTIPLIER_DELAY` clocks ago: it is only needed then.
    logarithm : Out, signed
        That of the score of `LATENCY` clocks ago.
    """

    SCALED_BITS = 35
    GAIN_BITS = 24
    QUOTIENT_BITS = 34
    SHIFT_STAGES = ((6, 5), (4, 3), (2, 1), (0,))
    """Bits of the shift that a clock deals with."""
    MULTIPLIER_DELAY = len(SHIFT_STAGES)
    LATENCY = MULTIPLIER_DELAY + WideMultiplier.latency_of(SCALED_BITS) + 1

    def __init__(self, score_bits: int):
        self.score_bits = score_bits
        super().__init__(
            {
                "score": In(signed(score_bits)),
                "shift": In(SHIFT_BITS),
                "multiplier": In(MULTIPLIER_BITS),
                "logarithm": Out(signed(LOGARITHM_BITS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        scaled = self._scale(m)

        # Two limbs of the multiplier, each times two of the scaled score.
        limb_bits = WideMultiplier.LIMB_BITS
        products = []
        for index, low in enumerate((0, limb_bits)):
            limb = self.multiplier[low : low + limb_bits]
            product = WideMultiplier(self.SCALED_BITS, len(limb) + 1)
            m.submodules[f"limb{index}"] = product
            m.d.comb += [product.a.eq(scaled), product.b.eq(limb)]
            products.append(product.product)
        logarithm = Signal(signed(LOGARITHM_BITS), reset_less=True)
        whole = products[0].shift_right(limb_bits) + products[1]
        m.d.sync += logarithm.eq(whole.shift_right(self.QUOTIENT_BITS - limb_bits))
        m.d.comb += self.logarithm.eq(logarithm)
        return m

    def _scale(self, m):
        """The shifted and clamped score, `MULTIPLIER_DELAY` clocks later.

        The largest shifts come first. Then what is left to shift bounds how many bits can still
        move into the result; when those above differ from the sign, the result is clamped.
        """
        value = Cat(Const(0, self.GAIN_BITS), self.score).as_signed()
        shift = self.shift
        clamped = Const(0, 1)
        for stage, bits in enumerate(self.SHIFT_STAGES):
            for bit in bits:
                value = Mux(shift[bit], value.shift_right(1 << bit), value)
                kept = self.SCALED_BITS + (1 << bit) - 1
                if len(value) > kept:
                    sign = value[-1]
                    clamped |= (value[kept - 1 : -1] ^ sign.replicate(len(value) - kept)).any()
                    value = Cat(value[: kept - 1], sign).as_signed()
            if stage == len(self.SHIFT_STAGES) - 1:
                limit = Cat((~value[-1]).replicate(self.SCALED_BITS - 1), value[-1])
                value = Mux(clamped, limit.as_signed(), value)
            moved = Signal(signed(len(value)), name=f"shifted{stage}", reset_less=True)
            m.d.sync += moved.eq(value)
            value = moved
            if stage < len(self.SHIFT_STAGES) - 1:
                later_shift = Signal(min(bits), name=f"shift{stage}", reset_less=True)
                later_clamped = Signal(name=f"clamped{stage}", reset_less=True)
                m.d.sync += [later_shift.eq(shift), later_clamped.eq(clamped)]
                shift, clamped = later_shift, later_clamped
        return value
