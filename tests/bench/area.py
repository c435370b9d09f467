"""Fits the estimate of LUTs to synthesised configurations, and compares it with others.

Synthesised and packed are all, placed none; what was done before is in the cache. DSP blocks and
block RAMs, which are counted in the design, are compared as well.

python -m tests.bench.area [--write]
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from host.console import stages
from host.explore import area
from host.explore.area import AreaTask, lut4
from host.explore.area_features import features
from host.explore.store import version
from host.synth.synthesis import synthesise
from host.synth.target import Target
from hw.config import HeadConfig

BASE = {"bus_bits": 128, "max_dim": 576, "max_rows": 49152}
FITTED = (
    {},
    {"bus_bits": 64},
    {"bus_bits": 256},
    {"bus_bits": 512},
    {"fold": 2},
    {"fold": 4},
    {"fold": 8, "bus_bits": 256},
    {"fold": 4, "bus_bits": 512},
    {"k": 8},
    {"k": 16},
    {"k": 256},
    {"batch": 2},
    {"batch": 4},
    {"batch": 8, "fold": 4, "k": 16},
    {"weight_bits": 4},
    {"weight_bits": 16},
    {"hidden_bits": 8},
    {"group": 0},
    {"group": 128, "scale_bits": 8},
    {"tile_rows": 512},
    {"channels": 2},
    {"channels": 4, "bus_bits": 64, "k": 16},
    {"mask": True, "batch": 2},
    {"bias": True},
    {"bound": True},
    {"logsumexp": True},
    {"all_logits": True},
    {"job_queue": True},
    {"dsp_pairs": True, "weight_bits": 4, "hidden_bits": 8, "width": 16},
)
"""What the constants are fitted to, as changes of `BASE`."""
CHECKED = (
    {"bus_bits": 256, "k": 32},
    {"bus_bits": 256, "fold": 2, "k": 16},
    {"bus_bits": 256, "weight_bits": 4, "batch": 2},
    {"bus_bits": 512, "fold": 2, "k": 128},
    {"bus_bits": 64, "batch": 3, "max_dim": 960},
    {"bus_bits": 512, "weight_bits": 4, "fold": 4},
    {"fold": 2, "batch": 4, "k": 32, "tile_rows": 256},
    {"max_dim": 2048, "max_rows": 128256, "group": 64},
    {"channels": 2, "batch": 2, "fold": 2, "k": 20},
)
"""What it is compared with; the constants do not come from these."""
LARGEST_MEDIAN = 0.10


@dataclass(frozen=True)
class Measured:
    """A configuration as packed for an ECP5."""

    config: HeadConfig
    lut4: dict[str, int]
    """By block."""
    dsp: int
    ram: int


def measure(config: HeadConfig) -> Measured:
    """Synthesise and pack a configuration."""
    found = synthesise(config, Target(area.FAMILY), seeds=())
    blocks = {name: block.lut4 for name, block in found.blocks.items()}
    return Measured(config, blocks, found.dsp, found.ram)


def fit(points: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Constants, none below zero, that make relative errors small, by block and feature."""
    constants = {}
    for block in dict.fromkeys(name for point in points for name in point.lut4):
        here = [point for point in points if block in point.lut4]
        found = [features(point.config).get(block, {}) for point in here]
        names = list(found[0])
        if not names:
            raise SystemExit(f"no features of the block {block}")
        # A block that is small beside its head need not be exact.
        weights = np.array([1 / sum(point.lut4.values()) for point in here])
        values = np.array([point.lut4[block] for point in here]) * weights
        matrix = np.array([[each[name] for name in names] for each in found]) * weights[:, None]
        constants[block] = dict(zip(names, _least_squares(matrix, values), strict=True))
        constants[block] = {name: value for name, value in constants[block].items() if value}
    return constants


def _least_squares(matrix: np.ndarray, values: np.ndarray) -> list[float]:
    """Without negative factors: the most negative one is left out until there is none."""
    used = [index for index in range(matrix.shape[1]) if matrix[:, index].any()]
    while used:
        factors = np.linalg.lstsq(matrix[:, used], values)[0]
        if factors.min() >= 0:
            break
        used.pop(int(factors.argmin()))
    result = [0.0] * matrix.shape[1]
    for index, factor in zip(used, factors if used else [], strict=True):
        result[index] = float(f"{factor:.4g}")
    return result


def compare(name: str, points: Sequence[Measured]) -> bool:
    """Print the errors of the estimate; whether it is as good as it has to be."""
    errors, exact = [], True
    print(f"{name}:")
    for point in points:
        total = sum(point.lut4.values())
        errors.append(lut4(point.config) / total - 1)
        counted = AreaTask(point.config).run(version())
        exact &= (counted.dsp, counted.ram) == (point.dsp, point.ram)
        changed = ", ".join(
            f"{field} {value}"
            for field, value in vars(point.config).items()
            if value != getattr(HeadConfig(**BASE), field)
        )
        dsp, ram = counted.dsp - point.dsp, counted.ram - point.ram
        print(
            f"  {total:>7,} LUT4 {errors[-1]:>+7.1%}   DSP {point.dsp} ({dsp:+})"
            f"   RAM {point.ram:g} ({ram:+g})   {changed}"
        )
    median = statistics.median(map(abs, errors))
    passed = median <= LARGEST_MEDIAN and exact
    print(
        f"  median error of LUT4 {median:.1%} (<= {LARGEST_MEDIAN:.0%}), largest "
        f"{max(map(abs, errors)):.1%}; DSP and RAM {'exact' if exact else 'differ'}  "
        f"{'ok' if passed else 'FAILED'}"
    )
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the fitted constants")
    arguments = parser.parse_args()
    changes = [*(FITTED if arguments.write else ()), *CHECKED]
    points = []
    with stages() as progress, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for point in pool.map(lambda change: measure(HeadConfig(**BASE | change)), changes):
            points.append(point)
            progress("synthesising configurations", len(points), len(changes))
    if arguments.write:
        fitted = points[: len(FITTED)]
        path = Path(area.__file__).with_name(area.CONSTANTS)
        path.write_text(json.dumps({"blocks": fit(fitted)}, indent=2) + "\n")
        area.constants.cache_clear()
        compare(f"{len(fitted)} configurations that the constants are fitted to", fitted)
    return int(not compare(f"{len(CHECKED)} others", points[-len(CHECKED) :]))


if __name__ == "__main__":
    sys.exit(main())
