"""`unembed synth`: what an accelerator costs on an FPGA, and how fast it is there."""

import argparse

from host.boards.board import Board
from host.boards.options import add_board_option, board_defaults, chosen_board
from host.commands.generate import summary
from host.console import print_json, stages
from host.errors import UsageError
from host.options.hardware import Purpose, add_hardware_options, hardware_config
from host.options.memory import add_sizing_options, check_sizing_options
from host.synth.blocks import BLOCKS
from host.synth.report import document, print_report
from host.synth.synthesis import MOST_SEEDS, synthesise
from host.synth.target import DEVICES, ECP5, SPEEDS, SYNTH_FAMILIES, Target

NAME = "synth"
HELP = "synthesise an accelerator, place and route it, and say what it costs and its clock"

DEFAULT_FAMILY = ECP5
_DEVICE_FIELDS = ("device", "package")
_PLACED = ("device", "package", "speed", "seeds")
"""Options that are of use only with place and route."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_board_option(parser)
    parser.add_argument(
        "--family",
        choices=SYNTH_FAMILIES,
        help="FPGA family without a board; AMD's are synthesised only, which gives no clock "
        f"(default {DEFAULT_FAMILY})",
    )
    parser.add_argument(
        "--block",
        choices=BLOCKS,
        help="one block alone, behind a register wrapper whose cells do not count",
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    group = parser.add_argument_group("place and route", "For ECP5.")
    group.add_argument(
        "--seeds", type=int, metavar="N", help="runs, of whose clocks the median counts (default 1)"
    )
    group.add_argument(
        "--speed",
        type=int,
        choices=SPEEDS,
        help="speed grade (default 6, or the only one, or the board's)",
    )
    group.add_argument(
        "--device",
        choices=DEVICES,
        help="part, as nextpnr names it: LFE5U-85F is 85k (default 85k)",
    )
    group.add_argument("--package", metavar="NAME", help="its package (default: one it comes in)")
    add_hardware_options(parser, Purpose.BUILD)
    add_sizing_options(parser)


def _target(arguments: argparse.Namespace, board: Board | None) -> Target:
    if board is not None:
        if arguments.family is not None:
            raise UsageError("--family", f"is that of --board {board.name}")
        if board.fpga is None:
            raise UsageError("--board", f"{board.name} has no FPGA", expected="--family")
    family = board.family if board is not None else arguments.family or DEFAULT_FAMILY
    given = {name: getattr(arguments, name) for name in _PLACED}
    given = {name: value for name, value in given.items() if value is not None}
    if family != ECP5:
        for name in given:
            raise UsageError(f"--{name}", f"is of place and route, which {family} does not have")
        return Target(family)
    if arguments.seeds is not None and not 1 <= arguments.seeds <= MOST_SEEDS:
        raise UsageError("--seeds", f"must be in 1..{MOST_SEEDS}", found=arguments.seeds)
    values = {name: value for name, value in given.items() if name != "seeds"}
    if board is not None:
        for name in _DEVICE_FIELDS:
            if name in given:
                raise UsageError(f"--{name}", f"is that of --board {board.name}")
        fpga = board.fpga
        part = {"device": fpga.device, "package": fpga.package, "speed": int(fpga.speed)}
        values = part | values
    try:
        return Target(family, **values)
    except ValueError as error:
        field, _, rest = str(error).partition(" ")
        raise UsageError(f"--{field}", rest) from None


def _capacity(board: Board | None) -> dict[str, int] | None:
    if board is None or board.fpga is None:
        return None
    fpga = board.fpga
    return {"lut4": fpga.lut, "ff": fpga.ff, "dsp": fpga.dsp, "ram": fpga.ram}


def run(arguments: argparse.Namespace) -> int:
    check_sizing_options(arguments)
    board = chosen_board(arguments)
    target = _target(arguments, board)
    if board is not None:
        board_defaults(arguments, board)
    config = hardware_config(arguments)
    with stages() as progress:
        found = synthesise(
            config,
            target,
            block=arguments.block,
            seeds=range(1, (arguments.seeds or 1) + 1),
            capacity=_capacity(board),
            progress=progress,
        )
    if arguments.json:
        print_json(document(found, config))
        return 0
    where = f", {board.title}" if board is not None else ""
    what = f"{arguments.block} of " if arguments.block else ""
    print(f"{target}{where}: {what}{summary(config)}")
    print_report(found)
    return 0
