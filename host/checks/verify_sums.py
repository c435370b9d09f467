"""The golden model's logits of all rows and log-sum-exps, to compare an accelerator's with."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from host.checks.verify import image_chunks
from host.jobs.gathering import logits_of
from host.jobs.logsumexp import logsumexp
from host.jobs.parameters import Vectors, prepare_vectors
from sim import golden
from sim.golden_logsumexp import accumulate

if TYPE_CHECKING:
    from host.image import Image

STATES = 128
"""States whose scores are held at a time."""


def golden_scores(
    image: "Image", vectors: Vectors, progress: Callable[[int, int], None] | None = None
) -> np.ndarray:
    """Scores of all rows, int64 [N, V]; a bias is part of them, a bound is not."""
    parts = []
    for _, weights, scales, terms in image_chunks(image, progress):
        bias = {}
        if image.config.bias:
            bias = {"bias": terms[:, 0], "bias_multipliers": vectors.parameters["bias"]}
        group = image.config.group
        parts.append(golden.scores(weights, scales, vectors.quantised, group, **bias))
    return np.concatenate(parts, axis=1)


def golden_sums(
    image: "Image",
    hidden: np.ndarray,
    hidden_bits: int,
    temperature: float | np.ndarray = 1.0,
    allowed: np.ndarray | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Logits of all rows and log-sum-exps: float64 [N, V] and [N].

    Parameters
    ----------
    hidden : real [N, d]
    hidden_bits : int
    temperature : float or float [N]
    allowed : bool [N, V], optional
        The logits of other rows are -inf.
    progress : callable (rows done, rows), optional

    Raises
    ------
    UserError
        As `host.jobs.parameters.prepare_vectors`.
    """
    temperatures = np.broadcast_to(temperature, (len(hidden),))
    all_logits = np.empty((len(hidden), image.rows))
    results = np.zeros((2, len(hidden)), np.int64)
    for start in range(0, len(hidden), STATES):
        part = slice(start, start + STATES)
        vectors = prepare_vectors(image, hidden[part], hidden_bits, temperatures[part])
        scores = golden_scores(image, vectors, progress)
        all_logits[part] = logits_of(scores, image.weight_scale, vectors.scales)
        for n, parameters in enumerate(vectors.parameters, start):
            scale = int(parameters["multiplier"]), int(parameters["shift"])
            some = None if allowed is None else allowed[n]
            results[:, n] = accumulate(scores[n - start], *scale, some)
    if allowed is not None:
        all_logits[~allowed] = -np.inf
    return all_logits, logsumexp(results[0], results[1].astype(np.uint64))
