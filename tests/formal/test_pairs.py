"""Pairs of products that share a factor are two products, for all values of all factors."""

from pathlib import Path

import pytest
from amaranth.back import verilog
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.config import HIDDEN_BITS, WEIGHT_BITS, HeadConfig
from hw.multiplier_pair import MultiplierPair
from sim import toolchain
from sim.build import no_progress

PAIRS = ((4, 8), (4, 16), (8, 8))
"""Widths of the factors and of the one they share; all that `HeadConfig` allows."""
OPERAND_BITS = 24


class Pairs(wiring.Component):
    """The pairs, each on the lowest bits of `operands`: first, second, shared factor."""

    def __init__(self):
        members = {"operands": In(OPERAND_BITS)}
        for bits, shared_bits in PAIRS:
            for name in ("first", "second"):
                members[f"{name}_{bits}_{shared_bits}"] = Out(bits + shared_bits)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        for bits, shared_bits in PAIRS:
            name = f"{bits}_{shared_bits}"
            m.submodules[f"pair_{name}"] = pair = MultiplierPair(bits, shared_bits)
            m.d.comb += [
                pair.first.eq(self.operands[:bits]),
                pair.second.eq(self.operands[bits : 2 * bits]),
                pair.shared.eq(self.operands[2 * bits : 2 * bits + shared_bits]),
                getattr(self, f"first_{name}").eq(pair.first_product),
                getattr(self, f"second_{name}").eq(pair.second_product),
            ]
        return m


def run_all_values(design: str) -> None:
    """Compile and run `pairs.cpp`; raises ToolError with the first wrong pair of products."""
    with toolchain.workspace() as folder:
        source = folder / "pairs.v"
        source.write_text(design)
        archives = toolchain.verilate(folder, [source], "pairs", [], [], no_progress)
        program = folder / "all_values"
        bench = Path(__file__).with_name("pairs.cpp")
        toolchain.run(
            [
                *toolchain.compile_command(folder),
                str(bench),
                *map(str, archives),
                "-pthread",
                "-o",
                str(program),
            ],
            folder,
        )
        toolchain.run([str(program)], folder)


def test_every_pair_of_products_is_exact():
    run_all_values(verilog.convert(Pairs(), name="pairs", emit_src=False))


@pytest.mark.parametrize("hidden_bits", HIDDEN_BITS)
@pytest.mark.parametrize("weight_bits", WEIGHT_BITS)
def test_those_are_all_pairs_that_can_be_built(weight_bits, hidden_bits):
    shape = {"weight_bits": weight_bits, "hidden_bits": hidden_bits, "batch": 2, "width": 4}
    if tuple(sorted((weight_bits, hidden_bits))) in PAIRS:
        assert HeadConfig(**shape, dsp_pairs=True).dsp_pairs
    else:
        with pytest.raises(ValueError, match="dsp_pairs must be off"):
            HeadConfig(**shape, dsp_pairs=True)
