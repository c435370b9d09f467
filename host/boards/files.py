"""What `unembed generate` writes for a board."""

import json
from dataclasses import asdict
from fractions import Fraction

from host.boards.board import ECP5, GENERIC_FILES, Board
from host.boards.ecp5 import ecp5_files
from host.boards.generic import core_file
from host.boards.zynq import zynq_files
from hw import register_docs, register_rdl, verilog
from hw.config import HeadConfig
from hw.verilog import MODULE

_VIVADO = f"""\
  synth:
    flow: vivado
    flow_options:
      part: {{part}}
      pnr: none
    filesets: [rtl, constraints]
    toplevel: {MODULE}
"""

# The accelerator alone has more pins than a package: place and route is of a design around it.
_YOSYS = f"""\
  synth:
    flow: generic
    flow_options:
      tool: yosys
      arch: ecp5
      output_format: json
    filesets: [rtl]
    toplevel: {MODULE}
"""


def _core(board: Board, family: str) -> str:
    has_vendor_blocks = family == ECP5
    if board.fpga is None:
        return core_file({}, "", has_vendor_blocks)
    if board.family == ECP5:
        return core_file({}, _YOSYS, has_vendor_blocks)
    target = _VIVADO.format(part=board.fpga.part)
    return core_file({"unembed.xdc": "xdc"}, target, has_vendor_blocks)


def board_files(
    board: Board, config: HeadConfig, family: str, clock_mhz: Fraction | None
) -> dict[str, str]:
    """The files for a board by name; the same text each time.

    Parameters
    ----------
    board : Board
    config : HeadConfig
        That fits it (`host.boards.fit`).
    family : str
        Of `hw.family.FAMILIES`, whose blocks the Verilog may name.
    clock_mhz : Fraction or None
        The accelerator's; None for no board.
    """
    texts = (
        verilog.generate(config, family),
        register_docs.markdown(config),
        register_docs.c_header(config),
        register_rdl.systemrdl(config, MODULE),
        _core(board, family),
        json.dumps(asdict(config), indent=2) + "\n",
    )
    files = dict(zip(GENERIC_FILES, texts, strict=True))
    if board.fpga is None:
        return files
    if board.family == ECP5:
        return files | ecp5_files(board, clock_mhz)
    return files | zynq_files(board, config, clock_mhz)
