"""Verilog of a configured accelerator."""

from dataclasses import asdict

from amaranth.back import verilog

from hw.config import HeadConfig
from hw.family import GENERIC, Family
from hw.head import Head

MODULE = "unembed"
"""Name of the top module."""

LINT_WAIVERS = ("WIDTHEXPAND", "WIDTHTRUNC", "CASEINCOMPLETE", "PROCASSINIT", "UNUSEDSIGNAL")
"""Warnings of ``verilator -Wall`` that come from how Yosys writes Verilog; there are no others."""

_HEADER = """\
// unembed: a language-model head, generated{target} with
//
{parameters}
//
// The pins: AXI4-Lite slave s_axi_control_*, for each memory channel an AXI4 master
// m_axi_gmem<n>_*, interrupt; clock ap_clk, synchronous reset ap_rst_n, low while active.
//
// One file holds all modules, so only one of them could have its name.
/* verilator lint_off DECLFILENAME */
// The name of the port `interrupt` is that of AMD's block control protocols. Some C++ compilers
// reserve the word; Verilator says that it renames it there.
/* verilator lint_off SYMRSVDWORD */

"""


def check_family(config: HeadConfig, family: str) -> None:
    """Check that blocks of a family can do what a configuration asks of them.

    Raises
    ------
    ValueError
        There is no such family, or its DSP blocks are too narrow for two products.
    """
    widest = Family(family).widest_operand_bits
    if config.dsp_pairs and config.pair_bits > widest:
        raise ValueError(
            f"dsp_pairs must be off for weight_bits {config.weight_bits} and hidden_bits "
            f"{config.hidden_bits} on {family}: two products take a multiplier with a port of "
            f"{config.pair_bits} bits, its DSP blocks have {widest}"
        )


def generate(config: HeadConfig, family: str = GENERIC) -> str:
    """Verilog of the accelerator; the same text for the same configuration and family.

    Only the generic form can be simulated without models of a vendor's blocks; the others do the
    same clock by clock.

    Source locations are left out: they would differ from checkout to checkout.

    Raises
    ------
    ValueError
        See `check_family`.
    """
    check_family(config, family)
    fields = asdict(config)
    width = max(map(len, fields))
    parameters = "\n".join(f"//   {name:<{width}}  {int(value)}" for name, value in fields.items())
    target = "" if family == GENERIC else f" for the family {family}"
    body = verilog.convert(Head(config), platform=Family(family), name=MODULE, emit_src=False)
    return _HEADER.format(parameters=parameters, target=target) + body
