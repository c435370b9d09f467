"""`unembed simulate`: hidden states through the simulated accelerator."""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict

from host.console import StageProgress, stages
from host.driver import Head
from host.head_run import Request, finish, load_request, run_head, system_document
from host.image import Image
from host.options.hardware import Purpose, add_hardware_options, config_for_image
from host.options.memory import (
    add_simulation_options,
    check_simulation_options,
    clock_hz,
    describe,
    memory_model,
)
from host.options.run import add_run_options, check_run_options
from host.reports.figures import Figures
from host.reports.first_job import FirstJob, add_first_job_options, check_first_job_options, outputs
from host.reports.memory_rates import memory_rates
from host.reports.read_buffer import ReadBuffer, read_buffer
from host.results import Results
from host.shards import ShardedHead
from hw.config import HeadConfig
from hw.layout import ImageLayout
from sim.device import SimDevice

NAME = "simulate"
HELP = "run hidden states through the simulated accelerator"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(
        parser,
        image="each for a simulated device of its own, whose results are merged",
        k="--max-k",
        functions="The hardware is built with them.",
    )
    add_first_job_options(parser)
    add_hardware_options(parser, Purpose.RUN)
    add_simulation_options(parser)


def _configs(request: Request) -> list[HeadConfig]:
    """The hardware of each image."""
    largest = max(shard.rows for shard in request.images)
    return [
        config_for_image(request.arguments, shard, request.arguments.k, request.functions, largest)
        for shard in request.images
    ]


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
    system = system_document(images, described)
    memory = memory_model(arguments)
    if memory.dram is None:
        system["latency_cycles"] = memory.latency_cycles
    system["memory"] = describe(memory, configs[0].channels)
    return system | {"read_buffer": buffer.as_dict()}


def run(arguments: argparse.Namespace) -> int:
    check_simulation_options(arguments)
    check_first_job_options(arguments)
    check_run_options(arguments, outputs(arguments))
    request = load_request(arguments)
    images, configs = request.images, _configs(request)
    hidden_bits = configs[0].hidden_bits
    # What cannot be run is told before simulators are built.
    request.check(hidden_bits)
    buffer = read_buffer(arguments, configs[0])  # of all shards alike
    buffer.warn()
    with stages() as progress:
        with ExitStack() as stack:
            first_job = FirstJob(arguments, stack)
            head = _open_heads(stack, images, configs, arguments, first_job, progress)
            k = request.k(configs[0].k)
            results, seconds = run_head(request, head, k, "simulating", progress)
            figures = _figures(results, images, configs, arguments)
            first_job.save(results, figures.layouts, _title(figures, arguments))
        finished = finish(request, results, figures, seconds, hidden_bits, progress)
    system = _system(arguments, images, configs, buffer)
    if first_job.wanted:
        system["first_job_ports"] = first_job.totals()
    lines = [buffer.line()] if buffer.worth_a_line else []
    if arguments.out is not None:
        lines.append(f"results in {arguments.out}")
    if outputs(arguments):
        lines.append(f"first job in {', '.join(map(str, outputs(arguments)))}")
    return finished.report(arguments, system, lines)
