"""`unembed simulate`: hidden states through the simulated accelerator."""

import argparse
import os
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.table import Table

from host.console import print_json, print_table, say, stages
from host.driver import Head
from host.errors import UserError
from host.figures import Figures
from host.hidden import check_hidden, load_hidden
from host.image import Image
from host.options import (
    Purpose,
    UsageError,
    add_hardware_options,
    add_simulation_options,
    check_simulation_options,
    config_for_image,
)
from host.results import Results
from host.verify import golden_results, mismatches
from hw.config import MAX_K, HeadConfig
from sim.device import SimDevice
from sim.memory import MemoryModel

NAME = "simulate"
HELP = "run hidden states through the simulated accelerator"

DEFAULT_K = 64
SHOWN_STATES = 16
WIDEST_LOGIT = 1e9
"""From this magnitude on a logit is shown with an exponent."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("image", type=Path, metavar="IMAGE", help="image from unembed pack")
    parser.add_argument(
        "--hidden", type=Path, required=True, metavar="FILE", help=".npy or .npz, float [N, d]"
    )
    parser.add_argument(
        "--key", default="hidden", help="array of an .npz file (default %(default)s)"
    )
    parser.add_argument(
        "-k", type=int, help=f"results per state (default {DEFAULT_K}, at most --max-k)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N states")
    parser.add_argument(
        "--check", action="store_true", help="compare with the golden model, exit 1 on a mismatch"
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE.npz", help="write ids, scores, logits and counters"
    )
    parser.add_argument("--json", action="store_true", help="results as JSON")
    add_hardware_options(parser, Purpose.RUN)
    add_simulation_options(parser)


def _check_arguments(arguments: argparse.Namespace) -> None:
    check_simulation_options(arguments)
    if arguments.k is not None and not 1 <= arguments.k <= MAX_K:
        raise UsageError("-k", f"must be in 1..{MAX_K}", found=arguments.k)
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError("--limit", "must be at least 1", found=arguments.limit)
    if arguments.out is not None:
        _check_output(arguments)


def _check_output(arguments: argparse.Namespace) -> None:
    """Raise UserError for an output that cannot be written, before the simulation runs."""
    out = arguments.out
    if not out.parent.is_dir():
        raise UserError(out, "cannot be written: its folder does not exist")
    if out.is_dir():
        raise UserError(out, "is a folder", expected="a file name")
    if not os.access(out.parent, os.W_OK):
        raise UserError(out, "cannot be written: its folder is write-protected")
    for path, what in ((arguments.image, "image"), (arguments.hidden, "hidden states")):
        if out.exists() and path.exists() and out.samefile(path):
            raise UserError(out, f"would overwrite the {what}")


def _hidden(arguments: argparse.Namespace, dim: int) -> np.ndarray:
    hidden = load_hidden(arguments.hidden, arguments.key)
    if hidden.ndim == 2 and not len(hidden):
        raise UserError(arguments.hidden, "holds no states")
    try:
        return check_hidden(hidden[: arguments.limit] if hidden.ndim == 2 else hidden, dim)
    except (TypeError, UserError) as error:
        raise UserError(arguments.hidden, str(error)) from None


def _report(
    arguments: argparse.Namespace, config: HeadConfig, results: Results, figures: Figures
) -> dict:
    return {
        "image": str(arguments.image),
        "config": asdict(config),
        "latency_cycles": arguments.latency,
        "states": len(results.ids),
        "k": results.ids.shape[1],
        "figures": figures.as_dict(),
        "counters": {name: values.tolist() for name, values in results.counters.items()},
        "results": [
            {
                "ids": results.ids[n, :count].tolist(),
                "scores": results.scores[n, :count].tolist(),
                "logits": results.logits[n, :count].tolist(),
            }
            for n, count in enumerate(results.counts)
        ],
    }


def _print_table(results: Results, figures: Figures) -> None:
    table = Table(box=None, padding=(0, 3, 0, 0))
    columns = ("state", "best id", "logit", "cycles", "bus", "waiting", "refused", "bytes read")
    for name in columns:
        table.add_column(name, justify="right")
    counters = results.counters
    for n in range(min(SHOWN_STATES, len(results.ids))):
        table.add_row(
            str(n),
            str(results.ids[n, 0]),
            _logit(results.logits[n, 0]),
            f"{counters['cycles'][n]:,}",
            f"{100 * figures.utilisation[n]:.2f} %",
            f"{counters['wait_cycles'][n]:,}",
            f"{counters['refused_cycles'][n]:,}",
            f"{figures.bytes_read[n]:,}",
        )
    print_table(table)
    if len(results.ids) > SHOWN_STATES:
        print(f"... and {len(results.ids) - SHOWN_STATES} more states")
    print(figures.line())


def _save(results: Results, path: Path) -> None:
    try:
        results.save(path)
    except OSError as error:
        # The error's own file name is the temporary one.
        raise UserError(path, f"cannot be written: {error.strerror}") from None


def _logit(value: float) -> str:
    return f"{value:.4f}" if abs(value) < WIDEST_LOGIT else f"{value:.6g}"


def _show_mismatch(place, results: Results, ids: np.ndarray, scores: np.ndarray) -> None:
    state, rank = map(int, place)
    say(
        "mismatch",
        f"state {state}, rank {rank}: the accelerator has id {results.ids[state, rank]} with "
        f"score {results.scores[state, rank]}, the golden model id {ids[state, rank]} with score "
        f"{scores[state, rank]}",
    )


def run(arguments: argparse.Namespace) -> int:
    _check_arguments(arguments)
    image = Image(arguments.image)
    hidden = _hidden(arguments, image.dim)
    config = config_for_image(arguments, image, arguments.k)
    k = arguments.k if arguments.k is not None else min(DEFAULT_K, config.k)
    memory = MemoryModel(latency_cycles=arguments.latency)
    clock_hz = arguments.clock_mhz * 1e6
    check = None
    image.verify()  # before a simulator is built for it
    with stages() as progress:
        with SimDevice(config, memory, clock_hz, progress=progress) as device:
            head = Head(device, image)
            progress("simulating", 0, len(hidden))
            start = time.perf_counter()
            results = head.run(hidden, k, lambda done, total: progress("simulating", done, total))
            seconds = time.perf_counter() - start
        if arguments.out is not None:
            _save(results, arguments.out)
        if arguments.check:
            ids, scores = golden_results(
                image,
                hidden,
                k,
                config.hidden_bits,
                lambda done, total: progress("golden model", done, total),
            )
            wrong = mismatches(results, ids, scores)
            check = {"compared": results.ids.size, "mismatches": len(wrong)}
    figures = Figures(results.counters, config.bus_bytes, clock_hz)
    if arguments.json:
        document = _report(arguments, config, results, figures)
        print_json(document | {"check": check, "seconds": seconds})
    else:
        _print_table(results, figures)
        if arguments.out is not None:
            print(f"results in {arguments.out}")
        if check is not None:
            print(
                f"golden model: {check['compared']:,} places compared, "
                f"{check['mismatches']:,} mismatches"
            )
    if check is not None and check["mismatches"]:
        _show_mismatch(wrong[0], results, ids, scores)
        return 1
    return 0
