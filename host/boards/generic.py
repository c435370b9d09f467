"""Files that every board gets: the register map in its forms, and a FuseSoC core file."""

from fractions import Fraction

from hw.register_map import VERSION
from hw.verilog import LINT_WAIVERS, MODULE


def clock_text(mhz: Fraction) -> str:
    """A clock in MHz, decimal, to 6 places."""
    return f"{float(mhz):.6f}".rstrip("0").rstrip(".")


def ip_version() -> str:
    """Version of the core: that of its register map."""
    return f"{VERSION >> 16}.{VERSION & 0xFFFF}"


VENDOR_BLOCK_WAIVERS = ("MODMISSING", "UNDRIVEN")
"""Warnings besides where the Verilog names a vendor's blocks, of which Verilator has no models."""


def core_file(constraints: dict[str, str], target: str, has_vendor_blocks: bool) -> str:
    """A FuseSoC core file (CAPI2) with the targets `default` and `lint`, and perhaps one more.

    Parameters
    ----------
    constraints : dict of str
        Constraint files and their FuseSoC types, for the further target.
    target : str
        That target in YAML, indented by two spaces; empty without one.
    has_vendor_blocks : bool
        The Verilog names blocks of an FPGA family.
    """
    codes = LINT_WAIVERS + (VENDOR_BLOCK_WAIVERS if has_vendor_blocks else ())
    waivers = ", ".join(f"-Wno-{code}" for code in codes)
    text = f"""\
CAPI=2:
name: unembed:ip:{MODULE}:{ip_version()}
description: A language-model head with AXI4 ports, written by unembed generate

filesets:
  rtl:
    files: [{MODULE}.v]
    file_type: verilogSource
"""
    if constraints:
        text += "  constraints:\n    files:\n"
        text += "".join(
            f"      - {name}: {{file_type: {kind}}}\n" for name, kind in constraints.items()
        )
    text += f"""
targets:
  default:
    filesets: [rtl]
    toplevel: {MODULE}

  lint:
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall, {waivers}]
    filesets: [rtl]
    toplevel: {MODULE}
"""
    return text + (f"\n{target}" if target else "")
