"""All results of a run compared with the golden models."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from host.checks.verify import golden_results, image_chunks, mismatches
from host.checks.verify_sums import STATES, golden_scores, golden_sums
from host.jobs.gathering import logits_of
from host.jobs.parameters import prepare_vectors
from host.masks import allowed_rows
from host.results import Results
from host.scoring import RowScores
from host.shards import ShardedImage
from sim import golden

if TYPE_CHECKING:
    from host.image import Image


def check_results(
    results: Results,
    image: "Image | ShardedImage",
    hidden: np.ndarray,
    hidden_bits: int,
    mask: np.ndarray | None = None,
    temperature: float | np.ndarray = 1.0,
    progress: Callable[[int, int], None] | None = None,
    given: RowScores | None = None,
) -> tuple[dict, list[str]]:
    """Compare ids and scores, and what else was asked for, bit for bit.

    Parameters
    ----------
    results : Results
    image : Image or ShardedImage
    hidden : real [N, d]
    hidden_bits : int
    mask : int32 [N, ceil(V / 32)], optional
    temperature : float or float [N]
        As given to `Head.run`.
    progress : callable (rows done, rows), optional
    given : RowScores, optional
        Scores of given ids, to be compared as well.

    Returns
    -------
    comparison : dict
        How many places were `compared` and how many are `mismatches`; likewise, in dicts of their
        own, of `all_logits`, `logsumexp` and `id_scores`.
    differences : list of str
        The first difference of each kind.
    """
    allowed = None if mask is None else allowed_rows(mask, image.rows)
    places = results.ids.shape[1]
    ids, scores = golden_results(image, hidden, places, hidden_bits, progress, allowed=allowed)
    wrong = mismatches(results, ids, scores)
    comparison = {"compared": results.ids.size, "mismatches": len(wrong)}
    differences = []
    if len(wrong):
        state, rank = map(int, wrong[0])
        differences.append(
            f"state {state}, rank {rank}: the accelerator has id {results.ids[state, rank]} with "
            f"score {results.scores[state, rank]}, the golden model id {ids[state, rank]} with "
            f"score {scores[state, rank]}"
        )
    # By name: what was found, what is right, what the last index counts and who found it.
    rest = {}
    logits = None
    if results.logsumexp is not None:
        logits, sums = _golden_sums(image, hidden, hidden_bits, temperature, allowed, progress)
    if results.all_logits is not None:
        if logits is None:
            logits = _golden_logits(image, hidden, hidden_bits, allowed, progress)
        rest["all_logits"] = results.all_logits, logits, "row", "accelerator"
    if results.logsumexp is not None:
        rest["logsumexp"] = results.logsumexp, sums, "row", "accelerator"
    if given is not None:
        expected = golden_id_scores(image, hidden, given.ids, hidden_bits, progress)
        rest["id_scores"] = given.scores, expected, "place", "host"
    for name, (found, expected, column, finder) in rest.items():
        wrong = np.argwhere(found != expected)
        comparison[name] = {"compared": found.size, "mismatches": len(wrong)}
        if len(wrong):
            place = tuple(map(int, wrong[0]))
            where = f"state {place[0]}" + "".join(f", {column} {index}" for index in place[1:])
            differences.append(
                f"{name}, {where}: the {finder} has {found[place]}, the golden model "
                f"{expected[place]}"
            )
    return comparison, differences


def _golden_sums(image, hidden, hidden_bits, temperature, allowed, progress):
    """As `golden_sums`; sums of shards are merged as `ShardedHead` does, which rounds."""
    if not isinstance(image, ShardedImage):
        return golden_sums(image, hidden, hidden_bits, temperature, allowed, progress)
    parts = []
    for shard, first in zip(image.shards, image.first_rows, strict=True):
        own = None if allowed is None else allowed[:, first : first + shard.rows]
        parts.append(golden_sums(shard, hidden, hidden_bits, temperature, own, progress))
    logits, sums = zip(*parts, strict=True)
    return np.concatenate(logits, axis=1), np.logaddexp.reduce(sums, axis=0)


def _golden_logits(image, hidden, hidden_bits, allowed, progress):
    """As those of `golden_sums`, of any size: sums have a range."""
    logits = np.empty((len(hidden), image.rows))
    for start in range(0, len(hidden), STATES):
        part = slice(start, start + STATES)
        vectors = prepare_vectors(image, hidden[part], hidden_bits)
        scores = golden_scores(image, vectors, progress)
        logits[part] = logits_of(scores, image.weight_scale, vectors.scales)
    return logits if allowed is None else np.where(allowed, logits, -np.inf)


def golden_id_scores(
    image: "Image | ShardedImage",
    hidden: np.ndarray,
    ids: np.ndarray,
    hidden_bits: int,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """The golden model's scores of ids int64 [N, M], int64 [N, M]."""
    vectors = prepare_vectors(image, hidden, hidden_bits)
    multipliers = vectors.parameters["bias"]
    scores = np.empty(ids.shape, np.int64)
    for first, weights, scales, terms in image_chunks(image, progress):
        for start in range(0, len(ids), STATES):
            states = slice(start, start + STATES)
            own = ids[states] - first
            here = (own >= 0) & (own < len(weights))
            if not here.any():
                continue
            rows, place = np.unique(own[here], return_inverse=True)
            bias = {}
            if image.config.bias:
                bias = {"bias": terms[rows, 0], "bias_multipliers": multipliers[states]}
            found = golden.scores(
                weights[rows], scales[rows], vectors.quantised[states], image.config.group, **bias
            )
            scores[states][here] = found[np.nonzero(here)[0], place]
    return scores
