"""Files for a board with an ECP5: constraints for nextpnr."""

from fractions import Fraction

from host.boards.board import Board, constraint_text
from host.boards.generic import clock_text


def lpf(clock_mhz: Fraction) -> str:
    """The clock of an accelerator that is placed alone, as a Lattice preference."""
    return (
        "# The accelerator alone; in a design of its own the clock has the name of its net there.\n"
        f'FREQUENCY PORT "ap_clk" {clock_text(clock_mhz)} MHZ;\n'
    )


def nextpnr_options(board: Board) -> list[str]:
    """Options of nextpnr-ecp5 for the FPGA of a board."""
    fpga = board.fpga
    return [f"--{fpga.device}", "--package", fpga.package, "--speed", fpga.speed]


def ecp5_files(board: Board, clock_mhz: Fraction) -> dict[str, str]:
    """Constraints by file name: the clock of the accelerator, the pins of the board."""
    pins = f"{board.name}.lpf"
    return {"unembed.lpf": lpf(clock_mhz), pins: constraint_text(board.name, pins)}
