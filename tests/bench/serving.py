"""SmolLM2's head as a server uses it: a grammar's masks, a bias, log-probabilities, in batches.

Every result is compared with the golden model, and the best tokens with the exact logits in
float64. The head has no bias of its own; one as large as its logits is added.

python -m tests.bench.serving
"""

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from host.checks.check import check_results
from host.console import stages
from host.driver import Head
from host.image import Image
from host.jobs.parameters import prepare_vectors
from host.masks import allowed_rows
from host.results import Results
from hw.config import HeadConfig
from sim.device import SimDevice
from tests.host import grammar, smollm2

K = 16
BATCH = 4
LARGEST_LOGIT_ERROR = 0.01


class Exact(NamedTuple):
    """The logits of the allowed rows in float64, -inf for others, and how wide the bias is off."""

    logits: np.ndarray
    bias_error: np.ndarray


def exact_logits(image: Image, hidden: np.ndarray, mask: np.ndarray) -> Exact:
    """Logits [N, V] of the weights as the model file has them and the bias before quantisation."""
    logits = np.empty((len(hidden), image.rows))
    for start, stop in image.chunks():
        logits[:, start:stop] = hidden @ image.dequantise(start, stop).T.astype(np.float64)
    error = np.zeros(len(hidden))
    if image.config.bias:
        bias = smollm2.bias().astype(np.float64)
        logits += bias
        units = image.weight_scale * prepare_vectors(image, hidden, 16).scales
        largest = np.abs(image.read_terms(0, image.rows)[:, 0].astype(np.int64)).max()
        error = np.abs(bias).max() / 65534 + units / 2 * largest
    return Exact(np.where(allowed_rows(mask, image.rows), logits, -np.inf), error)


def simulate(image: Image, hidden: np.ndarray, mask: np.ndarray, progress: Callable) -> Results:
    config = HeadConfig(
        **image.config_fields, max_dim=image.dim, max_rows=image.rows, k=K, batch=BATCH,
        mask=True, logsumexp=True,
    )  # fmt: skip
    with SimDevice(config, progress=progress) as device:
        return Head(device, image).run(
            hidden, K, lambda done, total: progress("simulating", done, total), mask=mask,
            logsumexp=True,
        )  # fmt: skip


def report(name: str, image: Image, states: int, progress: Callable) -> bool:
    """Run and print the table of one image; whether all limits are kept."""
    hidden = smollm2.states()["hidden"][:states].astype(np.float64)
    masks = grammar.masks()
    mask = masks[np.arange(states) % len(masks)]
    results = simulate(image, hidden, mask, progress)
    comparison, differences = check_results(results, image, hidden, 16, mask)
    exact = exact_logits(image, hidden, mask)

    order = np.sort(exact.logits, axis=1)[:, ::-1][:, :K]
    counts = results.counts
    places = np.arange(K) < counts[:, np.newaxis]
    error = np.abs(results.logits[places] - order[places]).max()
    gaps = np.where(np.isfinite(order[:, 1]), order[:, 0] - np.nan_to_num(order[:, 1]), np.inf)
    decided = gaps > 2 * exact.bias_error
    first = results.ids[:, 0] == exact.logits.argmax(axis=1)
    scores = results.logsumexp
    top = order[:, :1]
    sums = np.log(np.exp(exact.logits - top).sum(axis=1)) + top[:, 0]
    lines = [
        ("places unlike the golden model's", comparison["mismatches"], 0),
        ("log-sum-exps unlike the golden model's", comparison["logsumexp"]["mismatches"], 0),
        ("states decided by the gap with another best token", int((decided & ~first).sum()), 0),
        ("largest error of the r-th logit", error, LARGEST_LOGIT_ERROR),
        ("largest error of a log-sum-exp of exact logits", np.abs(scores - sums).max(), 0.01),
    ]
    print(f"{name}: {states} states, batches of {BATCH}, {comparison['compared']} places")
    print(
        f"  allowed tokens {allowed_rows(mask, image.rows).sum(axis=1).min()} to "
        f"{allowed_rows(mask, image.rows).sum(axis=1).max()}, decided states {decided.sum()}, "
        f"stated bias error at most {exact.bias_error.max():.2g}"
    )
    passed = True
    for text, value, limit in lines:
        verdict = "ok" if value <= limit else "FAILED"
        passed &= value <= limit
        print(f"  {text:<52} {value:>10.6g}, at most {limit:g}  {verdict}", flush=True)
    cycles = results.counters["cycles"]
    print(f"  cycles per batch {cycles.min():,} to {cycles.max():,}")
    for difference in differences:
        print(f"  {difference}")
    return bool(passed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=128)
    arguments = parser.parse_args()
    with stages() as progress:
        passed = report("without bias", smollm2.image(), arguments.states, progress)
        passed &= report("with a bias", smollm2.biased_image(), arguments.states, progress)
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
