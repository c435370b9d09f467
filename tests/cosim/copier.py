"""The copying DMA of copier.v, which stands in for the accelerator where the harness is tested."""

from pathlib import Path

import numpy as np

from hw.config import HeadConfig
from sim.device import SimDevice
from sim.memory import MemoryModel

CONTROL, SOURCE, TARGET, BEATS, BURST, STROBE, SIN = 0x00, 0x04, 0x0C, 0x14, 0x18, 0x1C, 0x20
SUM, ERROR_BEATS, ERROR_RESPONSES, UNMAPPED = 0x1C, 0x28, 0x2C, 0x100

SINS = ("withdraw", "change", "size", "early_wlast", "change_w", "refuse")

WRITTEN_BEATS = 64
"""Beats of a larger copy that are written: the last ones."""

SOURCE_ADDRESS = 0x7_0001_0000
TARGET_ADDRESS = 0x1_0000


def verilog(bus_bits: int) -> str:
    """The DMA with a memory port of `bus_bits`."""
    return f"`define DATA_BITS {bus_bits}\n" + Path(__file__).with_name("copier.v").read_text()


def config(bus_bits: int = 512) -> HeadConfig:
    return HeadConfig(bus_bits=bus_bits)


def make_device(memory: MemoryModel | None = None, bus_bits: int = 512, **options) -> SimDevice:
    return SimDevice(config(bus_bits), memory, verilog=verilog(bus_bits), **options)


def random_bytes(size: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def checksum(data: np.ndarray) -> int:
    return int(np.bitwise_xor.reduce(data.view(np.uint32)))


def start(
    device,
    beats: int,
    source: int = SOURCE_ADDRESS,
    target: int = TARGET_ADDRESS,
    burst: int = 16,
    strobe: int = 0xF,
    sins: tuple[str, ...] = (),
) -> None:
    """Start a copy on any device with the synchronous interface."""
    for offset, value in (
        (SOURCE, source & 0xFFFFFFFF),
        (SOURCE + 4, source >> 32),
        (TARGET, target & 0xFFFFFFFF),
        (TARGET + 4, target >> 32),
        (BEATS, beats),
        (BURST, burst),
        (STROBE, strobe),
        (SIN, sum(1 << SINS.index(sin) for sin in sins)),
        (CONTROL, 1),
    ):
        device.write_register(offset, value)


def copy(device, beats: int = 200, limit: int = 100_000, **options) -> np.ndarray:
    """Copy random data, check the DMA's checksum and that the bytes arrived; returns the data."""
    bus_bytes = device.config.bus_bytes
    data = random_bytes(beats * bus_bytes)
    device.write_memory(SOURCE_ADDRESS, data)
    start(device, beats, **options)
    device.wait_interrupt(limit)
    assert device.read_register(SUM) == checksum(data)
    written = min(beats, WRITTEN_BEATS) * bus_bytes
    np.testing.assert_array_equal(device.read_memory(TARGET_ADDRESS, written), data[-written:])
    return data
