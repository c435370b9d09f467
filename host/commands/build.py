"""`unembed build`: a bitstream for a board, with all that the host needs to use it."""

import argparse
import ipaddress
import json
from dataclasses import asdict, replace

from rich.table import Table

from host.boards.board import BOARDS
from host.boards.fit import check_fit
from host.boards.options import board_defaults, chosen_board
from host.commands.generate import summary
from host.console import print_json, print_table, stages
from host.errors import UsageError
from host.files.output import check_folder, write_files
from host.litex.build import BITSTREAMS, BOARD, SystemOptions, bitstream
from host.litex.report import Report, read_report
from host.options import paths
from host.options.hardware import Purpose, add_hardware_options, hardware_config
from hw.config import HeadConfig

NAME = "build"
HELP = "build a bitstream for a board with the open tools"

BRIDGES = ("uart", "ethernet")
CLOCKS_MHZ = (50, 55, 60, 65, 70, 75, 80, 100)
"""Those from 50 to 100 that the PLL makes exactly of the board's 100 MHz, besides the other clocks.

Others it misses by up to 1 %, which timings of the DRAM and rates do not know of, or altogether.
"""

BUILT = (*BITSTREAMS, "csr.csv")
FILES = (*BUILT, "report.json", "config.json")

_DEFAULTS = SystemOptions()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--board", choices=BOARDS, required=True, help="board, see unembed boards")
    parser.add_argument(
        "-o", "--out", type=paths.path, required=True, metavar="DIR", help="folder to write to"
    )
    parser.add_argument(
        "--bridge",
        choices=BRIDGES,
        default=_DEFAULTS.bridge,
        help=f"how the host reaches the board (default {_DEFAULTS.bridge})",
    )
    parser.add_argument(
        "--ip",
        metavar="ADDRESS",
        help=f"the board's, with --bridge ethernet (default {_DEFAULTS.ip_address})",
    )
    parser.add_argument(
        "--clock-mhz",
        type=int,
        default=_DEFAULTS.clock_mhz,
        metavar="MHZ",
        help="clock of accelerator and memory port, at most what place and route reaches "
        f"(default {_DEFAULTS.clock_mhz})",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=_DEFAULTS.seed,
        metavar="N",
        help=f"of place and route (default {_DEFAULTS.seed})",
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    add_hardware_options(parser, Purpose.BUILD)
    # The read buffer is that of the configuration; there is no memory to choose.
    parser.set_defaults(memory=None)


def _system_options(arguments: argparse.Namespace) -> SystemOptions:
    if arguments.board != BOARD:
        raise UsageError(
            "--board",
            "has no open flow to a bitstream; unembed generate writes files for it",
            expected=BOARD,
            found=arguments.board,
        )
    if arguments.clock_mhz not in CLOCKS_MHZ:
        listed = ", ".join(map(str, CLOCKS_MHZ))
        raise UsageError(
            "--clock-mhz",
            "is none that the board's PLL makes",
            expected=f"one of {listed}",
            found=arguments.clock_mhz,
        )
    if not 0 <= arguments.seed < 2**32:
        raise UsageError("--seed", "must be in 0..4294967295", found=arguments.seed)
    options = SystemOptions(
        bridge=arguments.bridge, clock_mhz=arguments.clock_mhz, seed=arguments.seed
    )
    if arguments.ip is None:
        return options
    if arguments.bridge != "ethernet":
        raise UsageError("--ip", "is of use with --bridge ethernet alone")
    try:
        address = ipaddress.IPv4Address(arguments.ip)
    except ValueError:
        raise UsageError("--ip", "is no IPv4 address", found=arguments.ip) from None
    if any(
        (address.is_unspecified, address.is_loopback, address.is_multicast, address.is_reserved)
    ):
        raise UsageError("--ip", "is no address that a board can have", found=arguments.ip)
    return replace(options, ip_address=str(address))


def _print(config: HeadConfig, report: Report, options: SystemOptions) -> None:
    print(summary(config))
    table = Table(box=None, pad_edge=False)
    for column in ("", "used", "available", ""):
        table.add_column(column, justify="left" if not column else "right")
    for name, used in report.used.items():
        available = report.available[name]
        table.add_row(name, f"{used:,}", f"{available:,}", f"{100 * used / available:.1f} %")
    print_table(table)
    for clock in report.clocks:
        print(f"clock {clock.net}: {clock.achieved:.1f} MHz of {clock.required:.1f} needed")


def run(arguments: argparse.Namespace) -> int:
    options = _system_options(arguments)
    board = chosen_board(arguments)
    board_defaults(arguments, board)
    config = hardware_config(arguments)
    check_fit(board, config)
    check_folder(arguments.out, FILES)
    with stages() as progress:
        built = bitstream(config, options, progress)
    report = read_report(built / "nextpnr.json")
    report.check_timing(options.seed)
    document = report.as_dict() | {"system": asdict(options)}
    contents = {name: (built / name).read_bytes() for name in BUILT}
    contents["report.json"] = json.dumps(document, indent=2) + "\n"
    contents["config.json"] = json.dumps(asdict(config), indent=2) + "\n"
    write_files(arguments.out, contents)
    paths = [arguments.out / name for name in FILES]
    if arguments.json:
        print_json(document | {"files": list(map(str, paths)), "config": asdict(config)})
        return 0
    _print(config, report, options)
    for path in paths:
        print(path)
    return 0
