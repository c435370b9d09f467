"""`unembed run`: hidden states through the accelerator on a board."""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack

from host.console import stages
from host.device import Device
from host.devices.open import add_device_options, device_specs, open_device
from host.driver import Head
from host.errors import UsageError
from host.head_run import Request, finish, load_request, run_head, system_document
from host.jobs.capabilities import Capabilities, identify
from host.jobs.registers import Registers
from host.options.run import add_run_options, check_run_options
from host.reports.figures import Figures
from host.shards import ShardedHead

NAME = "run"
HELP = "run hidden states through the accelerator on a board"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_options(
        parser,
        image="each for a device of its own, whose results are merged",
        k="the hardware's largest",
        functions="The hardware must have been built with them.",
    )
    add_device_options(parser)


def _check_hardware(request: Request, hardware: Sequence[Capabilities]) -> None:
    """Refuse what the hardware cannot do before images are uploaded, which may take minutes."""
    k = request.arguments.k
    for image, capabilities in zip(request.images, hardware, strict=True):
        capabilities.check_image(image)
        for field in request.functions:
            capabilities.require(field, "--" + field.replace("_", "-"))
        most = capabilities.config.k
        if k is not None and k > most:
            raise UsageError("-k", f"must be in 1..{most} on {capabilities.name}", found=k)


def _upload(device: Device) -> dict[str, int]:
    """What loading an image has taken, for JSON."""
    return {
        "bytes": sum(upload.bytes for upload in device.uploads),
        "written": sum(upload.written for upload in device.uploads),
    }


def _upload_line(image: str, upload: dict[str, int]) -> str:
    if not upload["written"]:
        return f"{image} found in memory, verified"
    of = "" if upload["written"] == upload["bytes"] else f" of {upload['bytes']:,}"
    return f"{image} uploaded, {upload['written']:,}{of} bytes written, verified"


def _system(request: Request, devices: Sequence[Device], heads: Sequence[Head]) -> dict:
    """What ran, for JSON."""
    described = [
        {
            "image": str(image.path),
            "device": device.name,
            "config": head.capabilities.known,
            "upload": _upload(device),
        }
        for image, device, head in zip(request.images, devices, heads, strict=True)
    ]
    return system_document(request.images, described)


def run(arguments: argparse.Namespace) -> int:
    check_run_options(arguments)
    specs = device_specs(arguments, len(arguments.images))
    request = load_request(arguments)
    with stages() as progress:
        with ExitStack() as stack:
            devices = [stack.enter_context(open_device(spec, progress)) for spec in specs]
            hardware = [identify(Registers(device)) for device in devices]
            _check_hardware(request, hardware)
            request.check(hardware[0].config.hidden_bits)
            heads = [
                Head(device, image) for device, image in zip(devices, request.images, strict=True)
            ]
            head = ShardedHead(heads) if len(heads) > 1 else heads[0]
            k = request.k(head.max_k)
            results, seconds = run_head(request, head, k, "running", progress)
            layouts = [one.layout for one in heads]
            clock = min(float(device.clock_hz) for device in devices)
            figures = Figures(results, layouts[0].config.bus_bytes, clock, layouts)
            system = _system(request, devices, heads)
        finished = finish(request, results, figures, seconds, head.hidden_bits, progress)
    lines = [
        _upload_line("image" if len(devices) == 1 else str(image.path), _upload(device))
        for image, device in zip(request.images, devices, strict=True)
    ]
    if arguments.out is not None:
        lines.append(f"results in {arguments.out}")
    return finished.report(arguments, system, lines)
