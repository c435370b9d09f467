"""Runs the accelerator on all reference states of SmolLM2 and compares it with the exact results.

python -m tests.bench.reference
"""

import sys
from dataclasses import dataclass

import numpy as np

from host.checks.verify import golden_results, mismatches
from host.console import stages
from host.driver import Head
from hw.config import HeadConfig
from sim.device import SimDevice
from tests.host import smollm2

K = 64
LARGEST_LOGIT_ERROR = 0.005


@dataclass(frozen=True)
class Check:
    """One line of the table; `passed` is None for a figure without a limit."""

    name: str
    value: str
    passed: bool | None = None


def checks(results, golden, states: dict[str, np.ndarray]) -> list[Check]:
    """Compare results with the golden model's (ids, scores) and the file's exact best tokens."""
    total = len(results.ids)
    wrong = len(mismatches(results, *golden))
    equal = results.ids == states["top_ids"][:, :K]
    first = int(equal[:, 0].sum())
    eight = int(equal[:, :8].all(axis=1).sum())
    error = float(np.abs(results.logits - states["top_logits"][:, :K]).max())
    return [
        Check(f"ids and scores unlike the golden model's, of {total * K}", f"{wrong}", wrong == 0),
        Check("states with the exact best token", f"{first} of {total}", first == total),
        Check("states with the exact 8 best in order", f"{eight} of {total}", eight == total),
        Check(
            f"largest error of the r-th logit (<= {LARGEST_LOGIT_ERROR})",
            f"{error:.5f}",
            error <= LARGEST_LOGIT_ERROR,
        ),
        Check(f"states with the exact {K} best in order", f"{equal.all(axis=1).sum()} of {total}"),
        Check(f"places of the {K} best with the exact token", f"{equal.mean():.2%}"),
    ]


def main() -> int:
    with stages() as progress:
        progress("packing the head", 0, 1)
        image = smollm2.image()
        states = smollm2.states()
        hidden = states["hidden"]
        config = HeadConfig(**image.config_fields)
        golden = golden_results(
            image,
            hidden,
            K,
            config.hidden_bits,
            lambda done, total: progress("golden model", done, total),
        )
        with SimDevice(config, progress=progress) as device:
            results = Head(device, image).run(
                hidden, K, lambda done, total: progress("simulating", done, total)
            )
    found = checks(results, golden, states)
    print(f"SmolLM2-135M-Instruct, {len(hidden)} states, K = {K}")
    verdicts = {True: "ok", False: "FAILED", None: ""}
    for check in found:
        print(f"  {check.name:<52} {check.value:>12}  {verdicts[check.passed]}".rstrip())
    cycles = results.counters["cycles"]
    print(f"  cycles per state: {cycles.min()} to {cycles.max()}, {image.layout.beats} bus beats")
    return int(any(check.passed is False for check in found))


if __name__ == "__main__":
    sys.exit(main())
