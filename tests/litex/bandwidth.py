"""What a job of the system's accelerator reads from the simulated DRAM."""

from pathlib import Path

import numpy as np

from host.device import Device
from host.driver import Head
from host.image import save_image
from hw.config import HeadConfig
from tests.litex.system import CLOCK_HZ

LEAST_BANDWIDTH = 550e6
"""Bytes per second that the accelerator has to read."""
PEAK_BANDWIDTH = 600e6
"""Bytes per second at the DRAM's pins."""
DIM = 256


def read_bandwidth(device: Device, config: HeadConfig, rows: int, folder: Path) -> float:
    """Bytes per second that a job reads while it streams.

    Parameters
    ----------
    device : Device
        The simulated system, opened.
    config : HeadConfig
        Of its accelerator.
    rows : int
        Of the head that is put there.
    folder : Path
        Where the image may be written.
    """
    rng = np.random.default_rng(7)
    weights = rng.integers(-128, 128, (rows, DIM))
    scales = rng.integers(1, 1 << 16, (rows, DIM // config.group))
    image = save_image(folder / "head.safetensors", config, weights, scales, 1e-6)
    counters = Head(device, image).run(rng.normal(size=(config.batch, DIM)), 8).counters
    beats = int(counters["data_beats"][0])
    cycles = beats + int(counters["wait_cycles"][0]) + int(counters["refused_cycles"][0])
    return beats * config.bus_bytes * CLOCK_HZ / cycles
