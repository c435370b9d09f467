"""`unembed suggest`: the best configuration for a head on a board, with the reasons."""

import argparse
from fractions import Fraction

from rich.table import Table

from host.boards.board import BOARDS, GENERIC, Board, board
from host.commands.generate import summary
from host.console import print_json, print_table, stages
from host.errors import UsageError
from host.explore.board_memory import board_device
from host.explore.head import SweptHead
from host.explore.measure import Simulated, SimulationTask
from host.explore.placement import PlacedDesign, PlacementTask
from host.explore.space import DEFAULT_K
from host.explore.store import version
from host.explore.suggest import MORE, RESOURCES, Suggestion, suggest
from host.explore.values import integers, weight_widths
from host.messages import say
from host.options import paths
from host.options.memory import clock_mhz
from host.synth.target import ECP5, Target
from hw.config import MAX_BATCH, MAX_K, WEIGHT_BITS

NAME = "suggest"
HELP = "find the best configuration for a head on a board, and say what binds it"

REAL = [name for name in BOARDS if name != GENERIC]
FOLDER = "hardware"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "head",
        type=paths.name,
        metavar="HEAD",
        help="a model or image as for unembed pack, or V x d as 49152x576, with random weights",
    )
    parser.add_argument("--board", choices=REAL, required=True, help="see unembed boards")
    parser.add_argument(
        "-k", type=int, default=DEFAULT_K, help="results per state (default %(default)s)"
    )
    parser.add_argument(
        "--batch",
        type=integers,
        default=(1,),
        metavar="N,...",
        help="hidden states that there are at a time: one number, or those to choose from "
        "(default 1)",
    )
    parser.add_argument(
        "--weights",
        type=weight_widths,
        metavar="intN,...",
        help="weight formats to choose from (default: the head's)",
    )
    parser.add_argument(
        "--clock-mhz",
        type=clock_mhz,
        metavar="MHZ",
        help="of the accelerator (default: the board's)",
    )
    parser.add_argument(
        "--no-simulate", action="store_true", help="leave out the simulation that verifies it"
    )
    parser.add_argument(
        "--synth",
        action="store_true",
        help="verify area and clock by synthesis and, on an ECP5, by place and route",
    )
    parser.add_argument("--json", action="store_true", help="all of it as JSON")


def run(arguments: argparse.Namespace) -> int:
    chosen = board(arguments.board)
    head = SweptHead.named(arguments.head)
    mhz = arguments.clock_mhz or Fraction(chosen.clock.mhz)
    values = {"k": (arguments.k,), "batch": arguments.batch}
    _check(arguments)
    if arguments.weights is not None:
        if head.packed:
            raise UsageError("--weights", f"are those of {head.path}: give the model instead")
        values["weight_bits"] = arguments.weights
    with stages() as progress:
        found = suggest(chosen, head, values, mhz * 10**6, progress)
        simulated = placed = None
        if not arguments.no_simulate:
            progress("simulating the best one", 0, 1)
            simulated = SimulationTask(head, found.best.point).run(version())
            progress("simulating the best one", 1, 1)
        if arguments.synth:
            progress("synthesising the best one", 0, 1)
            placed = PlacementTask(found.best.point.config, _target(chosen)).run(version())
            progress("synthesising the best one", 1, 1)
    if arguments.json:
        print_json(_document(found, simulated, placed))
    else:
        _print(found, simulated, placed)
    if simulated is not None and simulated.mismatches:
        say("failed", f"{simulated.mismatches} results are unlike the golden model's")
        return 1
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for values that no board can have."""
    for name, values, most in (
        ("-k", (arguments.k,), MAX_K),
        ("--batch", arguments.batch, MAX_BATCH),
    ):
        for value in values:
            if not 1 <= value <= most:
                raise UsageError(name, f"must be in 1..{most}", found=value)
    for bits in arguments.weights or ():
        if bits not in WEIGHT_BITS:
            names = ", ".join(f"int{known}" for known in WEIGHT_BITS)
            raise UsageError("--weights", f"must be of {names}", found=f"int{bits}")


def _target(chosen: Board) -> Target:
    fpga = chosen.fpga
    if fpga.family != ECP5:
        return Target(fpga.family)
    return Target(ECP5, fpga.device, fpga.package, int(fpga.speed))


def _print(found: Suggestion, simulated: Simulated | None, placed: PlacedDesign | None) -> None:
    best, chosen = found.best, found.board
    estimate = best.estimate
    mhz = float(best.point.clock_hz) / 1e6
    print(f"{chosen.title}: {chosen.memory.kind}, as {board_device(chosen).name}; {mhz:g} MHz")
    print(f"{found.head.name}: the fastest of {found.considered:,} configurations that fits")
    print(summary(best.point.config) + f", tiles of {best.point.config.tile_rows} rows")
    print(
        f"{estimate.tokens_per_s:,.1f} tokens/s, {estimate.cycles / estimate.vectors:,.0f} cycles "
        "per token (estimated)"
    )
    if simulated is not None:
        print(
            f"simulated: {simulated.cycles:,} cycles a job, estimated were {estimate.cycles:,}; "
            f"{simulated.compared} results compared with the golden model's, "
            f"{simulated.mismatches} mismatches"
        )
    if placed is not None:
        clock = f"{placed.fmax_mhz:.1f} MHz" if placed.fmax_mhz else "no clock without vendor tools"
        print(
            f"synthesised: {placed.lut:,} LUT{placed.lut_inputs}, {placed.dsp:,} DSP, "
            f"{placed.ram:g} block RAMs, {clock}"
        )
    print(f"bound by {estimate.bound_by}: {estimate.bound.reason}")
    print(f"would help: {estimate.bound.remedy}")
    _print_resources(found)
    print(best.point.generate_command(FOLDER, chosen))


def _print_resources(found: Suggestion) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0))
    for name in ("", "used", "of", f"{MORE} x as much gives"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    speed = found.best.estimate.tokens_per_s
    for name, title in RESOURCES.items():
        gain = found.more[name] / speed - 1
        more = f"{found.more[name]:,.1f} tokens/s ({gain:+.0%})" if gain > 0.005 else "nothing"
        table.add_row(title, *_use(found, name), more)
    print_table(table)


def _use(found: Suggestion, name: str) -> tuple[str, str]:
    if name == "clock_hz":
        return "", f"{float(found.supply.clock_hz) / 1e6:g} MHz"
    if name == "memories":
        return f"{found.used[name]:.0%}", f"{found.board.memory.peak_bytes_per_s / 1e9:g} GB/s"
    about = "~" if name == "lut" else ""
    return f"{about}{found.used[name]:,}", f"{getattr(found.supply, name):,}"


def _document(
    found: Suggestion, simulated: Simulated | None, placed: PlacedDesign | None
) -> dict[str, object]:
    config = found.best.point.config
    return {
        "board": found.board.name,
        "head": {"name": found.head.name, "rows": found.head.rows, "dim": found.head.dim},
        "memory": board_device(found.board).name,
        "considered": found.considered,
        "config": vars(config) | {"lanes": config.lanes},
        "estimate": found.best.estimate.as_dict(),
        "simulated": vars(simulated) if simulated else None,
        "synthesised": vars(placed) if placed else None,
        "used": found.used,
        "available": {
            name: float(getattr(found.supply, name)) for name in RESOURCES if name != "memories"
        },
        "tokens_per_s_with_twice": found.more,
        "command": found.best.point.generate_command(FOLDER, found.board),
    }
