"""`unembed explore`: which configuration for a head, a memory and an FPGA."""

import argparse
import importlib.util
from pathlib import Path

import numpy as np

from host.console import print_json, stages
from host.errors import UsageError, UserError
from host.explore import csv_file, figures, report, table
from host.explore.head import SweptHead
from host.explore.plan import ALL, FRONT, NONE, Plan, Sweep
from host.explore.space import DEFAULT_K, Space
from host.explore.sweep import explore
from host.explore.values import clocks_mhz, integers, memories, parameter_values
from host.explore.workers import Workers
from host.files.arrays import load_array
from host.files.output import check_folder
from host.jobs.hidden import check_hidden
from host.messages import say
from host.options import paths
from host.options.hardware import PARAMETERS, given_parameters
from host.options.memory import (
    DEFAULT_CLOCK_MHZ,
    IDEAL,
    add_dram_options,
    add_latency_option,
    check_swept_memories,
)
from host.synth.synthesis import MOST_SEEDS
from host.synth.target import SYNTH_FAMILIES, Target
from host.synth.tools import versions

NAME = "explore"
HELP = "sweep hardware parameters and memories: a table, a CSV file and pictures"

CSV, REPORT, FIGURES = "results.csv", "report.html", "figures"
DEFAULT_ROWS = 20
LEAST = {"neighbours": 0, "limit": 1, "rows": 1, "workers": 1, "synth_points": 1, "seeds": 1}
"""Of the options that are numbers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "head",
        type=paths.name,
        metavar="HEAD",
        help="a model or image as for unembed pack, or V x d as 49152x576, with random weights",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=paths.path,
        metavar="DIR",
        help=f"write {CSV}, {REPORT} and the pictures in {FIGURES}/",
    )
    parser.add_argument(
        "--simulate",
        choices=(NONE, FRONT, ALL),
        default=FRONT,
        help="which points are simulated and compared with the golden model: those of the Pareto "
        "front (default), all or none; estimated are all",
    )
    parser.add_argument(
        "--neighbours",
        type=int,
        metavar="N",
        help="with --simulate front, also the N nearest points of each of the front (default 0)",
    )
    parser.add_argument(
        "--hidden",
        type=paths.path,
        metavar="FILE",
        help=".npy or .npz, float [N, d]: states on which every weight format is compared with the "
        "exact head, and that are simulated",
    )
    parser.add_argument(
        "--key", default="hidden", help="array of an .npz file (default %(default)s)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N states")
    parser.add_argument(
        "--synth",
        choices=SYNTH_FAMILIES,
        metavar="FAMILY",
        help="also synthesise points of the front for an FPGA family "
        f"({', '.join(SYNTH_FAMILIES)}), on an ECP5 with place and route, whose clock then gives "
        "their tokens/s",
    )
    parser.add_argument(
        "--synth-points",
        type=int,
        metavar="N",
        help=f"how many of them, evenly from the front (default {Plan.placements})",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help=f"placements of each, whose median clock counts (default {Plan.seeds})",
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=DEFAULT_ROWS,
        metavar="N",
        help="lines of the table, the front first (default %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="all points as JSON")
    _add_values(parser)
    _add_system(parser)
    group = parser.add_argument_group("where it runs")
    group.add_argument(
        "--workers", type=int, metavar="N", help="processes of this machine (default: its cores)"
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run the points on a Dask cluster instead, whose workers have this version of unembed "
        "and see HEAD at the same path, as tcp://host:8786",
    )


def _add_values(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "what is swept",
        "Values between commas, and ranges of powers of two such as 16..512; all combinations are "
        "points. What is not given has the default of unembed pack and generate, sizes that of the "
        "head.",
    )
    group.add_argument(
        "--lanes",
        type=integers,
        metavar="N,...",
        dest="sweep_lanes",
        help="multipliers for each state and memory port, in place of --fold: the weights of a "
        "beat or a half, a quarter or an eighth of them",
    )
    group.add_argument(
        "-k",
        type=integers,
        metavar="N,...",
        dest="hardware_k",
        help=f"results per state, for which the hardware is built (default {DEFAULT_K})",
    )
    for parameter in PARAMETERS:
        if parameter.field == "k":
            continue
        names = [parameter.option]
        metavar = "N,..."
        if parameter.field == "weight_bits":
            names, metavar = [*names, "--weights"], "intN,..."
        elif parameter.is_flag:
            metavar = "no,yes"
        group.add_argument(
            *names,
            type=parameter_values(parameter),
            metavar=metavar,
            dest=f"hardware_{parameter.field}",
            help=parameter.help,
        )
    group.add_argument(
        "--config",
        type=paths.path,
        metavar="FILE",
        help="single values by their names in HeadConfig, as for unembed generate; options "
        "override it",
    )


def _add_system(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("simulated system")
    group.add_argument(
        "--memory",
        type=memories,
        metavar="NAME,...",
        dest="sweep_memory",
        help="as for unembed simulate, swept as well (default ideal)",
    )
    group.add_argument(
        "--clock-mhz",
        type=clocks_mhz,
        metavar="MHZ,...",
        dest="sweep_clock_mhz",
        help=f"clocks, swept as well (default {DEFAULT_CLOCK_MHZ})",
    )
    add_dram_options(group)
    add_latency_option(group)


def _check_packages(arguments: argparse.Namespace) -> None:
    """Raise UserError or ToolError for what would be missing after hours."""
    needed = []
    if arguments.out is not None:
        needed.append("plotly")
    if arguments.scheduler is not None or arguments.simulate != NONE or arguments.synth is not None:
        needed.append("distributed")
    for package in needed:
        if importlib.util.find_spec(package) is None:
            raise UserError(
                "explore", f"needs the package {package}: pip install 'unembed[explore]'"
            )
    if arguments.synth is not None:
        versions(Target(arguments.synth).is_placed)


def _check_arguments(arguments: argparse.Namespace) -> None:
    _check_packages(arguments)
    check_swept_memories(arguments, arguments.sweep_memory or (IDEAL,))
    for name, least in LEAST.items():
        value = getattr(arguments, name)
        if value is not None and value < least:
            option = "--" + name.replace("_", "-")
            raise UsageError(option, f"must be at least {least}", found=value)
    if (arguments.seeds or 0) > MOST_SEEDS:
        raise UsageError("--seeds", f"must be in 1..{MOST_SEEDS}", found=arguments.seeds)
    for name in ("synth_points", "seeds"):
        if getattr(arguments, name) is not None and arguments.synth is None:
            option = "--" + name.replace("_", "-")
            raise UsageError(option, "is of use only with --synth")
    if arguments.neighbours is not None and arguments.simulate != FRONT:
        raise UsageError("--neighbours", f"is of use only with --simulate {FRONT}")
    if arguments.limit is not None and arguments.hidden is None:
        raise UsageError("--limit", "is of use only with --hidden")
    if arguments.workers is not None and arguments.scheduler is not None:
        raise UsageError("--workers", "are those of the cluster, with --scheduler")
    if arguments.out is not None:
        check_folder(arguments.out, (CSV, REPORT))
        check_folder(arguments.out / FIGURES, figures.FILES)


def _space(arguments: argparse.Namespace, head: SweptHead) -> Space:
    values, where = {}, {}
    for name in ("memory", "clock_mhz", "lanes"):
        if getattr(arguments, f"sweep_{name}") is not None:
            values[name] = getattr(arguments, f"sweep_{name}")
    for name, (value, place) in given_parameters(arguments).items():
        values[name] = value if isinstance(value, tuple) else (value,)
        where[name] = "-k" if place == "--max-k" else place
    if "lanes" in values and arguments.hardware_fold is None:
        values.pop("fold", None)  # a file's, which an option overrides
    system = {
        "latency_cycles": arguments.latency,
        "latency_ns": arguments.memory_latency_ns,
        "devices": arguments.memory_devices,
    }
    given = {name: value for name, value in system.items() if value is not None}
    if arguments.synth is not None:
        given["family"] = Target(arguments.synth).hdl_family
    return Space(head, values, where, **given)


def _states(arguments: argparse.Namespace, head: SweptHead) -> np.ndarray | None:
    if arguments.hidden is None:
        return None
    if head.path is None:
        raise UsageError("--hidden", "needs a head from a file, with which formats are compared")
    hidden = load_array(arguments.hidden, arguments.key)
    try:
        hidden = check_hidden(hidden, head.dim)[: arguments.limit]
    except (TypeError, UserError) as error:
        raise UserError(arguments.hidden, str(error)) from None
    if not len(hidden):
        raise UserError(arguments.hidden, "holds no states")
    return hidden.astype(np.float32)


def run(arguments: argparse.Namespace) -> int:
    _check_arguments(arguments)
    head = SweptHead.named(arguments.head)
    plan = Plan(
        _space(arguments, head),
        arguments.simulate,
        arguments.neighbours or 0,
        _states(arguments, head),
        Target(arguments.synth) if arguments.synth is not None else None,
        arguments.synth_points or Plan.placements,
        arguments.seeds or Plan.seeds,
    )
    with stages() as progress:
        with Workers(arguments.scheduler, arguments.workers) as workers:
            sweep = explore(plan, workers, progress)
        if arguments.out is not None and sweep.outcomes:
            _write(arguments.out, sweep, progress)
    if not sweep.outcomes:
        reason = next(iter(sweep.invalid))
        raise UserError("explore", f"no combination of the values makes hardware: {reason}")
    if arguments.json:
        print_json(table.document(sweep))
    else:
        table.print_sweep(sweep, arguments.rows)
        if arguments.out is not None:
            print(f"results in {arguments.out / CSV}, {arguments.out / REPORT}")
    for outcome in sweep.failed:
        for reason in outcome.failures:
            say("failed", f"point {outcome.number}: {reason}")
    return int(bool(sweep.failed))


def _write(folder: Path, sweep: Sweep, progress) -> None:
    try:
        (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(folder, f"cannot be written: {error.strerror}") from None
    csv_file.write(folder / CSV, sweep)
    figures.write(folder / FIGURES, sweep, lambda done, total: progress("drawing", done, total))
    report.write(folder / REPORT, sweep)
