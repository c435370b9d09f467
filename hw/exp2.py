"""Powers of two with a fraction: a table and a linear interpolation."""

from math import isqrt

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.multiplier import Multiplier

FRACTION_BITS = 20
"""Fraction bits of the argument and of the mantissa."""
MANTISSA_BITS = FRACTION_BITS + 1
INDEX_BITS = 8
PLACE_BITS = FRACTION_BITS - INDEX_BITS
STEP_BITS = 13
"""Width of the largest difference between neighbours in the table."""


def power_table() -> list[int]:
    """A[i] = 2^(20 + i / 256), rounded to the nearest, for i = 0..256.

    With integers alone: no table may depend on a machine's mathematics library.
    """
    table = []
    for index in range((1 << INDEX_BITS) + 1):
        doubled = 1 << (FRACTION_BITS + 1 << INDEX_BITS) + index
        for _ in range(INDEX_BITS):
            doubled = isqrt(doubled)
        table.append(doubled + 1 >> 1)
    return table


class Exp2(wiring.Component):
    """2 to the power of the fraction of a fixed-point number, one each clock.

    With f the fraction in units of 2^-20, i = f / 4096 and A as in `power_table`, all rounded
    downwards, the mantissa is ``A[i] + (A[i + 1] - A[i]) * (f mod 4096) / 4096``. It lies in
    2^20 .. 2^21 - 1, is within 1.4e-6 of the true value and takes `LATENCY` clocks.

    Members
    -------
    fraction : In
    mantissa : Out
        In units of 2^-20.
    """

    LATENCY = 1 + Multiplier.LATENCY + 1

    def __init__(self):
        super().__init__({"fraction": In(FRACTION_BITS), "mantissa": Out(MANTISSA_BITS)})

    def elaborate(self, platform):
        m = Module()
        # The leading one of A is not stored. An entry fits in the width of one block RAM.
        powers = power_table()
        init = [
            low - (1 << FRACTION_BITS) | (high - low) << FRACTION_BITS
            for low, high in zip(powers, powers[1:], strict=False)
        ]
        m.submodules.table = table = memory.Memory(
            shape=unsigned(FRACTION_BITS + STEP_BITS),
            depth=len(init),
            init=init,
            attrs={"ram_style": "block", "rom_style": "block"},
        )
        read = table.read_port()
        place = Signal(PLACE_BITS, reset_less=True)
        m.submodules.product = product = Multiplier(STEP_BITS + 1, PLACE_BITS + 1)
        m.d.sync += place.eq(self.fraction[:PLACE_BITS])
        m.d.comb += [
            read.addr.eq(self.fraction[PLACE_BITS:]),
            product.a.eq(read.data[FRACTION_BITS:]),
            product.b.eq(place),
        ]
        base = read.data[:FRACTION_BITS]
        for stage in range(Multiplier.LATENCY):
            later = Signal(FRACTION_BITS, name=f"base{stage}", reset_less=True)
            m.d.sync += later.eq(base)
            base = later
        mantissa = Signal(MANTISSA_BITS, reset_less=True)
        step = product.product[PLACE_BITS : PLACE_BITS + STEP_BITS]
        m.d.sync += mantissa.eq(Cat(base, Const(1, 1)) + step)
        m.d.comb += self.mantissa.eq(mantissa)
        return m
