"""Measures the in-process simulation of SmolLM2's head, and what of it the memory model costs.

    python -m tests.bench.speed

The same job runs in the same Verilated model twice: on the DRAM model, and on constant RVALID with
random RDATA. The two take turns and the best run of each counts, so that a busy machine slows both.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from host.console import stages
from host.image import Image
from host.jobs.hidden import quantise_hidden
from hw.config import HeadConfig
from hw.register_map import OFFSETS, Control
from hw.status import Status
from sim.device import SimDevice
from tests.host import smollm2

K = 64
IMAGE_ADDRESS, HIDDEN_ADDRESS, RESULT_ADDRESS = 0, 1 << 32, 1 << 33
DEADLINE_CYCLES = 4_000_000
GOAL_CYCLES_PER_SECOND = 1e6
GOAL_SHARE = 0.6


@dataclass(frozen=True)
class Speed:
    """Clock cycles per second of one run."""

    cycles: int
    processor: float
    """Per second of this process's CPU time."""
    wall: float


def load(device: SimDevice, image: Image, hidden: np.ndarray) -> None:
    """Put the job's data in memory and write its arguments."""
    quantised, _ = quantise_hidden(hidden[None], device.config.hidden_bits)
    device.map_memory(IMAGE_ADDRESS, image.channels[0])
    device.write_memory(HIDDEN_ADDRESS, quantised[0].astype(f"<i{device.config.hidden_bits // 8}"))
    values = {
        "GIE": 1, "IER": 1, "ROWS": image.rows, "DIM": image.dim, "K": K, "VECTORS": 1,
        "IMAGE_FORMAT": device.config.format_word,
    }  # fmt: skip
    for name, value in (
        ("HIDDEN_ADDR", HIDDEN_ADDRESS),
        ("RESULT_ADDR", RESULT_ADDRESS),
        ("IMAGE0_ADDR", IMAGE_ADDRESS),
        ("IMAGE0_BYTES", image.layout.bytes),
    ):
        values |= {f"{name}_LO": value & 0xFFFF_FFFF, f"{name}_HI": value >> 32}
    for name, value in values.items():
        device.write_register(OFFSETS[name], value)


def run(device: SimDevice) -> Speed:
    """Run the job once; its result is not looked at."""
    device.write_register(OFFSETS["CONTROL"], Control.START)
    cycles = device.cycles
    wall, processor = time.perf_counter(), time.process_time()
    device.wait_interrupt(DEADLINE_CYCLES)
    processor, wall = time.process_time() - processor, time.perf_counter() - wall
    cycles = device.cycles - cycles
    status = device.read_register(OFFSETS["STATUS"])
    if status != Status.OK:
        raise SystemExit(f"the job ended with status {Status(status).name}")
    device.write_register(OFFSETS["ISR"], 1)
    device.write_register(OFFSETS["CONTROL"], Control.CONTINUE)
    return Speed(cycles, cycles / processor, cycles / wall)


def measure(rounds: int, progress: Callable[[str, int, int], None]) -> dict[str, list[Speed]]:
    """Speeds with each of the two memories, in turns."""
    progress("packing the head", 0, 1)
    image = smollm2.image()
    hidden = smollm2.states()["hidden"][0]
    config = HeadConfig(**image.config_fields)
    with (
        SimDevice(config, progress=progress) as model,
        SimDevice(config, constant_memory=True, progress=progress) as constant,
    ):
        devices = {"memory model": model, "constant data": constant}
        speeds = {name: [] for name in devices}
        for device in devices.values():
            load(device, image, hidden)
        for turn in range(rounds):
            for name, device in devices.items():
                speeds[name].append(run(device))
            progress("measuring", turn + 1, rounds)
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="default %(default)s")
    with stages() as progress:
        speeds = measure(parser.parse_args().rounds, progress)
    print("in-process simulation of the head of SmolLM2, millions of cycles/s, best run")
    best = {}
    for name, found in speeds.items():
        best[name] = processor = max(speed.processor for speed in found)
        wall = max(speed.wall for speed in found)
        print(
            f"  {name:<14} {found[0].cycles:>8} cycles  {processor / 1e6:5.2f} of CPU time  "
            f"{wall / 1e6:5.2f} of wall time"
        )
    share = best["memory model"] / best["constant data"]
    print(
        f"  the memory model leaves {share:.0%} of the speed (goal {GOAL_SHARE:.0%}); "
        f"goal {GOAL_CYCLES_PER_SECOND / 1e6:.0f} on an idle core"
    )


if __name__ == "__main__":
    main()
