"""`unembed simulate`: hidden states through the simulated accelerator."""

import argparse
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from host.arrays import load_array
from host.check import check_results
from host.console import StageProgress, print_json, stages
from host.driver import Head
from host.errors import UsageError, UserError
from host.figures import Figures
from host.first_job import FirstJob, add_first_job_options, check_first_job_options, outputs
from host.hidden import check_hidden
from host.image import Image
from host.masks import allowed_rows, load_mask
from host.memory_options import (
    add_simulation_options,
    check_simulation_options,
    clock_hz,
    describe,
    memory_model,
)
from host.memory_rates import memory_rates
from host.messages import say
from host.model_results import ModelResults
from host.options import (
    RUN_FUNCTIONS,
    Purpose,
    add_hardware_options,
    config_for_image,
)
from host.output import check_output
from host.parameters import prepare_vectors
from host.read_buffer import ReadBuffer, read_buffer
from host.report import document, print_check, print_results
from host.results import Results
from host.scoring import RowScores, load_ids, score_ids
from host.shards import ShardedHead, ShardedImage
from hw.config import MAX_K, HeadConfig
from hw.layout import ImageLayout
from sim.device import SimDevice

NAME = "simulate"
HELP = "run hidden states through the simulated accelerator"

DEFAULT_K = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "images",
        type=Path,
        nargs="+",
        metavar="IMAGE",
        help="image from unembed pack; or all shards of a vocabulary in their order, each for a "
        "simulated device of its own, whose results are merged",
    )
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
        help="write ids, scores, logits, counters and what else was asked for; logits are those of "
        "the projection, and if the model scales or caps its own, model_logits are these",
    )
    parser.add_argument("--json", action="store_true", help="results as JSON")
    parser.add_argument(
        "--ids",
        type=Path,
        metavar="FILE",
        help=".npy, integers [N, M], [1, M] for all states or [N], one for each: rows whose exact "
        "scores are wanted, which the host computes; with --logsumexp their log-probabilities as "
        "well, and with one id per state, the token that follows it, the perplexity",
    )
    functions = parser.add_argument_group("optional functions", "The hardware is built with them.")
    functions.add_argument(
        "--mask",
        type=Path,
        metavar="FILE",
        help=".npy, int32 [N, ceil(V/32)]: bit v %% 32 of word v // 32 is 1 where row v is allowed",
    )
    functions.add_argument(
        "--all-logits",
        action="store_true",
        help="return the logits of all rows as well, those of the projection",
    )
    functions.add_argument(
        "--logsumexp",
        action="store_true",
        help="return log(sum(exp(logit / temperature))) over all allowed rows as well, with the "
        "logits of the model",
    )
    functions.add_argument(
        "--temperature", type=float, metavar="T", help="for --logsumexp (default 1)"
    )
    add_first_job_options(parser)
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
    check_first_job_options(arguments)
    _check_outputs(arguments)


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Raise UserError for an output that cannot be written, before the simulation runs."""
    paths = outputs(arguments)
    if arguments.out is not None:
        check_output(arguments.out)
        if arguments.out in paths:
            raise UsageError("-o", f"is the file of another option: {arguments.out}")
        paths.append(arguments.out)
    inputs = [(path, "image") for path in arguments.images]
    inputs += [
        (arguments.hidden, "hidden states"),
        (arguments.mask, "mask"),
        (arguments.ids, "ids"),
    ]
    for out in paths:
        for path, what in inputs:
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


def _check_transform(arguments: argparse.Namespace, image: Image | ShardedImage) -> None:
    if arguments.logsumexp and image.transform.softcap is not None:
        raise UsageError(
            "--logsumexp",
            f"adds up logits before a softcap, and {image.path} has one of "
            f"{image.transform.softcap:g}: use --all-logits and add up model_all_logits",
        )


def _warn_of_missing_rows(images: Sequence[Image]) -> None:
    """Say so if the images are not the whole vocabulary."""
    first, source = images[0].first_row, images[0].source
    stop = first + sum(image.rows for image in images)
    vocabulary = min(source.rows, source.vocabulary or source.rows)
    if not first and stop >= vocabulary:
        return
    total = f" of {vocabulary}" if stop <= vocabulary else ""
    counted = f"; ids, --ids and --mask count from row {first}" if first else ""
    where = images[0].path if len(images) == 1 else f"{images[0].path} to {images[-1].path}"
    say("warning", f"{where}: rows {first} to {stop - 1}{total} of the vocabulary{counted}")


def _open_heads(
    stack: ExitStack,
    images: Sequence[Image],
    configs: Sequence[HeadConfig],
    arguments: argparse.Namespace,
    first_job: FirstJob,
    progress: StageProgress,
) -> Head | ShardedHead:
    """Every image on a simulated device of its own, which the stack closes."""
    memory = memory_model(arguments)
    heads = []
    for image, config in zip(images, configs, strict=True):
        if first_job.wanted:
            device = first_job.open_device(config, memory, clock_hz(arguments), progress)
        else:
            device = SimDevice(config, memory, clock_hz(arguments), progress=progress)
            stack.enter_context(device)
        if len(images) > 1:
            device.name = f"simulation of {image.path}"
        heads.append(Head(device, image))
    return ShardedHead(heads) if len(heads) > 1 else heads[0]


def _given_rows(
    image: Image | ShardedImage,
    hidden: np.ndarray,
    ids: np.ndarray,
    hidden_bits: int,
    mask: np.ndarray | None,
) -> RowScores:
    """Scores of given ids; the logits of rows that the mask forbids are -inf."""
    found = score_ids(image, hidden, ids, hidden_bits)
    if mask is None:
        return found
    allowed = np.take_along_axis(allowed_rows(mask, image.rows), ids, axis=1)
    return replace(found, logits=np.where(allowed, found.logits, -np.inf))


def _figures(
    results: Results,
    images: Sequence[Image],
    configs: Sequence[HeadConfig],
    arguments: argparse.Namespace,
) -> Figures:
    layouts = [
        ImageLayout(config, image.rows, image.dim)
        for image, config in zip(images, configs, strict=True)
    ]
    clock = clock_hz(arguments)
    rates = memory_rates(memory_model(arguments), configs, clock)
    return Figures(results, configs[0].bus_bytes, float(clock), layouts, rates)


def _title(figures: Figures, arguments: argparse.Namespace) -> str:
    """What a picture of the first job is of."""
    cycles, beats = (int(figures.counters[name][0]) for name in ("cycles", "data_beats"))
    rate = beats * figures.bus_bytes / cycles * figures.clock_hz / 1e9
    microseconds = 1e6 * cycles / figures.clock_hz
    return (
        f"{arguments.images[0].name}: {cycles:,} cycles, {microseconds:,.1f} µs at "
        f"{figures.clock_hz / 1e6:g} MHz; {rate:.2f} of "
        f"{figures.peak_gigabytes_per_second:.2f} GB/s, memory {arguments.memory}"
    )


def _system(
    arguments: argparse.Namespace,
    images: Sequence[Image],
    configs: Sequence[HeadConfig],
    buffer: ReadBuffer,
) -> dict:
    """What was simulated, for JSON."""
    described = [
        {"image": str(image.path), "config": asdict(config)}
        for image, config in zip(images, configs, strict=True)
    ]
    if len(images) == 1:
        (system,) = described
    else:
        for image, shard in zip(images, described, strict=True):
            shard |= {"first_row": image.first_row, "rows": image.rows}
        system = {"shards": described}
    memory = memory_model(arguments)
    if memory.dram is None:
        system["latency_cycles"] = memory.latency_cycles
    system["memory"] = describe(memory, configs[0].channels)
    return system | {"read_buffer": buffer.as_dict()}


def run(arguments: argparse.Namespace) -> int:
    _check_arguments(arguments)
    images = [Image(path) for path in arguments.images]
    image = ShardedImage(images) if len(images) > 1 else images[0]
    _check_transform(arguments, image)
    hidden, states = _hidden(arguments, image.dim)
    mask = ids = None
    if arguments.mask is not None:
        mask = load_mask(arguments.mask, states, image.rows)[: len(hidden)]
    if arguments.ids is not None:
        ids = load_ids(arguments.ids, states, image.rows)[: len(hidden)]
    functions, largest = _functions(arguments), max(shard.rows for shard in images)
    configs = [
        config_for_image(arguments, shard, arguments.k, functions, largest) for shard in images
    ]
    k = arguments.k if arguments.k is not None else min(DEFAULT_K, configs[0].k)
    hidden_bits = configs[0].hidden_bits
    temperature = arguments.temperature or 1.0
    inner = image.transform.temperature(temperature) if arguments.logsumexp else 1.0
    # What cannot be run is told before simulators are built.
    try:
        prepare_vectors(image, hidden, hidden_bits)
    except UserError as error:
        raise UserError(arguments.hidden, str(error)) from None
    if arguments.logsumexp:
        prepare_vectors(image, hidden, hidden_bits, inner)
    for shard in images:
        shard.verify()
    _warn_of_missing_rows(images)
    buffer = read_buffer(arguments, configs[0])  # of all shards alike
    buffer.warn()
    check, differences = None, []
    with stages() as progress:
        with ExitStack() as stack:
            first_job = FirstJob(arguments, stack)
            head = _open_heads(stack, images, configs, arguments, first_job, progress)
            progress("simulating", 0, len(hidden))
            start = time.perf_counter()
            results = head.run(
                hidden,
                k,
                lambda done, total: progress("simulating", done, total),
                mask=mask,
                all_logits=arguments.all_logits,
                logsumexp=arguments.logsumexp,
                temperature=inner,
            )
            seconds = time.perf_counter() - start
            figures = _figures(results, images, configs, arguments)
            first_job.save(results, figures.layouts, _title(figures, arguments))
        given = None if ids is None else _given_rows(image, hidden, ids, hidden_bits, mask)
        results = ModelResults(
            **vars(results), transform=image.transform, temperature=temperature, given=given
        )
        if arguments.out is not None:
            results.save(arguments.out, figures.arrays())
        if arguments.check:
            check, differences = check_results(
                results,
                image,
                hidden,
                hidden_bits,
                mask,
                inner,
                lambda done, total: progress("golden model", done, total),
                given,
            )
    if arguments.json:
        system = _system(arguments, images, configs, buffer)
        if first_job.wanted:
            system["first_job_ports"] = first_job.totals()
        print_json(system | document(results, figures) | {"check": check, "seconds": seconds})
    else:
        print_results(results, figures)
        if buffer.worth_a_line:
            print(buffer.line())
        if arguments.out is not None:
            print(f"results in {arguments.out}")
        if outputs(arguments):
            print(f"first job in {', '.join(map(str, outputs(arguments)))}")
        if check is not None:
            print_check(check)
    for line in differences:
        say("mismatch", line)
    return int(bool(differences))
