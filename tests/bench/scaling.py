"""Cycles of SmolLM2's head by memory channels, batch and queued jobs, on ideal memory.

Cycles are exact: the same on every machine.

python -m tests.bench.scaling
"""

import argparse
import sys

from host.console import stages
from host.demo import model_file, packed_model
from host.driver import Head
from host.image import Image
from host.pack import PackOptions
from hw.config import CHANNELS, HeadConfig
from sim.device import SimDevice
from tests.host import smollm2

K = 64
BATCH = 8
QUEUED_JOBS = 8
LARGEST_GROWTH = 1.01
OVERHEAD_CYCLES = 600


def cycles(image: Image, states: int, progress, **parameters) -> tuple[int, int]:
    """Cycles of the last job and of all jobs together, from the first start to the last end."""
    hidden = smollm2.states()["hidden"][:states]
    config = HeadConfig(**image.config_fields, max_dim=image.dim, max_rows=image.rows, **parameters)
    with SimDevice(config, progress=progress) as device:
        head = Head(device, image)
        begin = device.cycles
        results = head.run(hidden, K, lambda done, total: progress("simulating", done, total))
        return int(results.counters["cycles"][-1]), device.cycles - begin


def report(name: str, found: int, limit: float) -> bool:
    verdict = "ok" if found <= limit else "FAILED"
    print(f"  {name:<24} {found:>10,} cycles, at most {limit:>12,.0f}  {verdict}", flush=True)
    return found <= limit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, nargs="*", default=CHANNELS[1:])
    arguments = parser.parse_args()
    passed = True
    with stages() as progress:
        image = smollm2.image()
        one, _ = cycles(image, 1, progress)
        print(f"SmolLM2-135M-Instruct, K = {K}, {image.layout.config.bus_bits}-bit channels")
        print(f"  {'1 channel, 1 vector':<24} {one:>10,} cycles", flush=True)
        for channels in arguments.channels:
            split = Image(packed_model(model_file(), progress, PackOptions(channels=channels)))
            found, _ = cycles(split, 1, progress)
            limit = one * LARGEST_GROWTH / channels + OVERHEAD_CYCLES
            passed &= report(f"{channels} channels", found, limit)
        found, _ = cycles(image, BATCH, progress, batch=BATCH)
        passed &= report(f"{BATCH} vectors", found, one * LARGEST_GROWTH)
        _, found = cycles(image, QUEUED_JOBS, progress, job_queue=True)
        config = HeadConfig(**image.config_fields)
        hidden_beats = image.layout.padded_dim * config.hidden_bits // config.bus_bits
        beats = image.layout.beats + hidden_beats
        limit = QUEUED_JOBS * beats * 1.002 + QUEUED_JOBS * 100 + 500
        passed &= report(f"{QUEUED_JOBS} queued jobs", found, limit)
        print(f"  a queued job takes {found / QUEUED_JOBS - beats:,.1f} cycles besides its beats")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
