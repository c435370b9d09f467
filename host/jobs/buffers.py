"""Where in the accelerator's memory the image and the buffers of jobs lie."""

from dataclasses import dataclass
from pathlib import Path

from host.device import Device
from host.errors import UserError
from host.jobs.hidden import hidden_bytes, parameter_bytes
from host.jobs.result_block import result_bytes
from hw.config import HeadConfig, ceil_div
from hw.layout import ImageLayout

PAGE = 4096


@dataclass(frozen=True)
class JobBuffers:
    """Addresses of the buffers of one job."""

    hidden: int
    result: int
    masks: tuple[int, ...]
    """By channel; none without the function."""
    logits: tuple[int, ...]
    """Likewise."""


@dataclass(frozen=True)
class Placement:
    """Addresses of everything; each range lies on pages of its own."""

    images: tuple[int, ...]
    """By channel."""
    jobs: tuple[JobBuffers, ...]
    """One set of buffers for every job that may be under way."""


class _Pages:
    """Hands out pages one behind the other."""

    def __init__(self, address: int):
        self.next = address

    def take(self, size: int) -> int:
        address = self.next
        self.next += ceil_div(size, PAGE) * PAGE
        return address


def state_bytes(config: HeadConfig, layout: ImageLayout) -> int:
    """Size of a hidden state in memory, without its parameters."""
    return hidden_bytes(layout.padded_dim, config.hidden_bits, config.bus_bytes)


def place(config: HeadConfig, layout: ImageLayout, device: Device, image: Path) -> Placement:
    """Place an image, and behind it buffers for jobs of the hardware's largest size.

    Parameters
    ----------
    config : HeadConfig
        The hardware.
    layout : ImageLayout
        Of the image, for this hardware.
    device : Device
    image : Path
        Named in errors.

    Raises
    ------
    UserError
        The device has too little memory.
    """
    channels = range(config.channels)
    vector_bytes = state_bytes(config, layout)
    if config.has_parameters:
        vector_bytes += parameter_bytes(config.bus_bytes)
    pages = _Pages(device.memory_base)
    images = tuple(pages.take(layout.channel_bytes(channel)) for channel in channels)
    jobs = []
    for _ in range(1 + config.job_queue):
        hidden = pages.take(config.batch * vector_bytes)
        result = pages.take(result_bytes(config, config.k, config.batch))
        masks = logits = ()
        if config.mask:
            beats = [layout.mask_beats(channel, config.batch) for channel in channels]
            masks = tuple(pages.take(count * config.bus_bytes) for count in beats)
        if config.all_logits:
            sizes = [layout.logits_bytes(channel, config.batch) for channel in channels]
            logits = tuple(pages.take(size) for size in sizes)
        jobs.append(JobBuffers(hidden, result, masks, logits))
    needed = pages.next - device.memory_base
    if needed > device.memory_bytes:
        raise UserError(
            image, f"needs {needed} bytes of memory, {device.name} has {device.memory_bytes}"
        )
    return Placement(images, tuple(jobs))
