"""Registers that are there several times."""

import pytest
from amaranth.back import rtlil

from hw.copies import RegisterCopies
from hw.family import Family

from .streams import simulate


def test_every_copy_is_the_input_of_the_clock_before():
    dut = RegisterCopies(5, 3)

    async def bench(ctx):
        for value in (17, 0, 31, 4):
            ctx.set(dut.i, value)
            await ctx.tick()
            assert [ctx.get(copy) for copy in dut.o] == [value] * 3

    simulate(dut, bench)


def test_the_ecp5_has_a_flip_flop_for_each_bit_of_each_copy():
    dut = RegisterCopies(5, 3)
    text = rtlil.convert(dut, ports=[dut.i, dut.o.as_value()], platform=Family("ecp5"))
    assert text.count("cell \\TRELLIS_FF") == 15


@pytest.mark.parametrize(("width", "copies", "name"), [(0, 1, "width"), (1, 0, "copies")])
def test_a_register_without_bits_or_copies_is_refused(width, copies, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        RegisterCopies(width, copies)
