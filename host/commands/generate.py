"""`unembed generate`: Verilog of an accelerator and what a board needs to use it."""

import argparse
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

from host.boards.board import BOARDS, GENERIC, Board, board
from host.boards.files import board_files
from host.boards.fit import check_fit
from host.boards.options import add_board_option, board_defaults, chosen_board
from host.console import print_json, stages
from host.errors import UsageError, UserError
from host.files.output import check_folder, write_files
from host.options import paths
from host.options.hardware import OPTIONS, Purpose, add_hardware_options, hardware_config
from host.options.memory import add_sizing_options, check_sizing_options
from host.reports.read_buffer import read_buffer
from hw.config import HeadConfig
from hw.family import FAMILIES
from hw.family import GENERIC as PORTABLE

NAME = "generate"
HELP = "write the Verilog of an accelerator, its registers and the files of a board"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--out", type=paths.path, required=True, metavar="DIR", help="folder to write to"
    )
    add_board_option(parser, GENERIC)
    parser.add_argument(
        "--family",
        choices=FAMILIES,
        help="FPGA family whose blocks the Verilog may name (default: the board's)",
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    add_hardware_options(parser, Purpose.BUILD)
    add_sizing_options(parser)


OPTIONAL = ("bias", "bound", "mask", "all_logits", "logsumexp", "job_queue")


def summary(config: HeadConfig) -> str:
    """A configuration in one line."""
    group = f"groups of {config.group}" if config.group else "whole rows"
    channels = f" on {config.channels} channels" if config.channels > 1 else ""
    batch = f" for {config.batch} states" if config.batch > 1 else ""
    built = [name.replace("_", " ") for name in OPTIONAL if getattr(config, name)]
    return (
        f"{config.lanes} lanes ({config.lane_units} rows x {config.lane_width} columns, fold "
        f"{config.fold}){batch}{channels}, {config.bus_bits}-bit bus, int{config.weight_bits} in "
        f"{group}, top {config.k} of up to {config.max_rows} rows of {config.max_dim} columns"
        + (f", with {', '.join(built)}" if built else "")
    )


def verilog_family(arguments: argparse.Namespace, board: Board) -> str:
    """The family of the Verilog; raises UsageError for one that is not the board's.

    The portable form is for every board, and for families that have no form of their own.
    """
    own = board.family if board.family in FAMILIES else PORTABLE
    family = arguments.family or own
    if board.fpga is not None and family not in (own, PORTABLE):
        raise UsageError(
            "--family",
            f"is not that of {board.name}",
            expected=" or ".join(dict.fromkeys((own, PORTABLE))),
            found=family,
        )
    return family


def generated_files(
    board: Board, config: HeadConfig, family: str, clock_mhz: Fraction | None
) -> dict[str, str]:
    """The files of an accelerator by name; see `host.boards.files.board_files`.

    Raises
    ------
    UsageError
        The blocks of the family cannot do what the configuration asks of them.
    """
    try:
        return board_files(board, config, family, clock_mhz)
    except ValueError as error:
        where = OPTIONS.get(str(error).partition(" ")[0], "--family")
        raise UsageError(where, str(error)) from None


def _check_others(folder: Path, chosen: Board) -> None:
    """Raise UserError if a folder has files that would go on describing another board's design."""
    others = {file for name in BOARDS for file in board(name).file_names}
    left = sorted(name for name in others - set(chosen.file_names) if (folder / name).exists())
    if left:
        raise UserError(
            folder,
            "has files of another board: remove them, or choose another folder",
            found=", ".join(left),
        )


def run(arguments: argparse.Namespace) -> int:
    chosen = chosen_board(arguments)
    family = verilog_family(arguments, chosen)
    check_sizing_options(arguments, with_clock=chosen.clock is not None)
    if arguments.clock_mhz is None and chosen.clock is not None:
        arguments.clock_mhz = Fraction(chosen.clock.mhz)
    board_defaults(arguments, chosen)
    config = hardware_config(arguments)
    check_folder(arguments.out, chosen.file_names)
    _check_others(arguments.out, chosen)
    buffer = read_buffer(arguments, config) if arguments.memory is not None else None
    if buffer is not None:
        buffer.warn()
    with stages() as progress:
        if chosen.fpga is not None:
            progress(f"checking that it fits {chosen.name}", 0, 1)
            check_fit(chosen, config)
        progress("generating Verilog", 0, 1)
        files = generated_files(chosen, config, family, arguments.clock_mhz)
        write_files(arguments.out, files)
        progress("generating Verilog", 1, 1)
    written = [arguments.out / name for name in files]
    if arguments.json:
        report = {"board": chosen.name, "family": family}
        report |= {"files": list(map(str, written)), "config": asdict(config)}
        if chosen.clock is not None:
            report["clock_mhz"] = float(arguments.clock_mhz)
        if buffer is not None:
            report["read_buffer"] = buffer.as_dict()
        print_json(report)
        return 0
    print(summary(config))
    if chosen.clock is not None:
        print(f"for {chosen.title} at {float(arguments.clock_mhz):g} MHz")
    if buffer is not None:
        print(buffer.line())
    for path in written:
        print(path)
    return 0
