"""`unembed simulate`: hidden states through the simulated accelerator."""

import argparse
import math
import os
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from host.arrays import load_array
from host.check import check_results
from host.console import print_json, say, stages
from host.driver import Head
from host.errors import UserError
from host.figures import Figures
from host.hidden import check_hidden
from host.image import Image
from host.masks import load_mask
from host.options import (
    RUN_FUNCTIONS,
    Purpose,
    UsageError,
    add_hardware_options,
    add_simulation_options,
    check_simulation_options,
    config_for_image,
)
from host.report import document, print_check, print_results
from host.results import Results
from hw.config import MAX_K
from sim.device import SimDevice
from sim.memory import MemoryModel

NAME = "simulate"
HELP = "run hidden states through the simulated accelerator"

DEFAULT_K = 64


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
        "-o",
        "--out",
        type=Path,
        metavar="FILE.npz",
        help="write ids, scores, logits, counters and what else was asked for",
    )
    parser.add_argument("--json", action="store_true", help="results as JSON")
    functions = parser.add_argument_group("optional functions", "The hardware is built with them.")
    functions.add_argument(
        "--mask",
        type=Path,
        metavar="FILE",
        help=".npy, int32 [N, ceil(V/32)]: bit v %% 32 of word v // 32 is 1 where row v is allowed",
    )
    functions.add_argument(
        "--all-logits", action="store_true", help="return the logits of all rows as well"
    )
    functions.add_argument(
        "--logsumexp",
        action="store_true",
        help="return log(sum(exp(logit / temperature))) over all allowed rows as well",
    )
    functions.add_argument(
        "--temperature", type=float, metavar="T", help="for --logsumexp (default 1)"
    )
    add_hardware_options(parser, Purpose.RUN)
    add_simulation_options(parser)


def _functions(arguments: argparse.Namespace) -> list[str]:
    """Optional functions that the run uses, of `host.options.RUN_FUNCTIONS`."""
    return [field for field in RUN_FUNCTIONS if getattr(arguments, field)]


def _check_arguments(arguments: argparse.Namespace) -> None:
    check_simulation_options(arguments)
    if arguments.k is not None and not 1 <= arguments.k <= MAX_K:
        raise UsageError("-k", f"must be in 1..{MAX_K}", found=arguments.k)
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError("--limit", "must be at least 1", found=arguments.limit)
    if arguments.temperature is not None:
        if not arguments.logsumexp:
            raise UsageError("--temperature", "is of use only with --logsumexp")
        if not 0 < arguments.temperature < math.inf:
            raise UsageError(
                "--temperature", "must be finite and above 0", found=f"{arguments.temperature:g}"
            )
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
    for path, what in (
        (arguments.image, "image"),
        (arguments.hidden, "hidden states"),
        (arguments.mask, "mask"),
    ):
        if path is not None and out.exists() and path.exists() and out.samefile(path):
            raise UserError(out, f"would overwrite the {what}")


def _hidden(arguments: argparse.Namespace, dim: int) -> tuple[np.ndarray, int]:
    """The states to run, and how many the file holds."""
    hidden = load_array(arguments.hidden, arguments.key)
    if hidden.ndim == 2 and not len(hidden):
        raise UserError(arguments.hidden, "holds no states")
    states = len(hidden) if hidden.ndim == 2 else 1
    try:
        return check_hidden(hidden[: arguments.limit] if hidden.ndim == 2 else hidden, dim), states
    except (TypeError, UserError) as error:
        raise UserError(arguments.hidden, str(error)) from None


def _save(results: Results, path: Path) -> None:
    try:
        results.save(path)
    except OSError as error:
        # The error's own file name is the temporary one.
        raise UserError(path, f"cannot be written: {error.strerror}") from None


def run(arguments: argparse.Namespace) -> int:
    _check_arguments(arguments)
    image = Image(arguments.image)
    hidden, states = _hidden(arguments, image.dim)
    mask = None
    if arguments.mask is not None:
        mask = load_mask(arguments.mask, states, image.rows)[: len(hidden)]
    config = config_for_image(arguments, image, arguments.k, _functions(arguments))
    k = arguments.k if arguments.k is not None else min(DEFAULT_K, config.k)
    memory = MemoryModel(latency_cycles=arguments.latency)
    clock_hz = arguments.clock_mhz * 1e6
    check, differences = None, []
    image.verify()  # before a simulator is built for it
    with stages() as progress:
        with SimDevice(config, memory, clock_hz, progress=progress) as device:
            head = Head(device, image)
            progress("simulating", 0, len(hidden))
            start = time.perf_counter()
            results = head.run(
                hidden,
                k,
                lambda done, total: progress("simulating", done, total),
                mask=mask,
                all_logits=arguments.all_logits,
                logsumexp=arguments.logsumexp,
                temperature=arguments.temperature or 1.0,
            )
            seconds = time.perf_counter() - start
        if arguments.out is not None:
            _save(results, arguments.out)
        if arguments.check:
            check, differences = check_results(
                results,
                image,
                hidden,
                config.hidden_bits,
                mask,
                arguments.temperature or 1.0,
                lambda done, total: progress("golden model", done, total),
            )
    figures = Figures(results, config.bus_bytes, clock_hz)
    if arguments.json:
        system = {
            "image": str(arguments.image),
            "config": asdict(config),
            "latency_cycles": arguments.latency,
        }
        print_json(system | document(results, figures) | {"check": check, "seconds": seconds})
    else:
        print_results(results, figures)
        if arguments.out is not None:
            print(f"results in {arguments.out}")
        if check is not None:
            print_check(check)
    for line in differences:
        say("mismatch", line)
    return int(bool(differences))
