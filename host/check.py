"""All results of a run compared with the golden models."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from host.masks import allowed_rows
from host.results import Results
from host.verify import golden_results, mismatches
from host.verify_sums import golden_sums

if TYPE_CHECKING:
    from host.image import Image


def check_results(
    results: Results,
    image: "Image",
    hidden: np.ndarray,
    hidden_bits: int,
    mask: np.ndarray | None = None,
    temperature: float | np.ndarray = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[dict, list[str]]:
    """Compare ids and scores, and what else was asked for, bit for bit.

    Parameters
    ----------
    results : Results
    image : Image
    hidden : real [N, d]
    hidden_bits : int
    mask : int32 [N, ceil(V / 32)], optional
    temperature : float or float [N]
    progress : callable (rows done, rows), optional

    Returns
    -------
    comparison : dict
        How many places were `compared` and how many are `mismatches`; likewise, in dicts of their
        own, of `all_logits` and `logsumexp`.
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
    if results.all_logits is None and results.logsumexp is None:
        return comparison, differences
    right = golden_sums(image, hidden, hidden_bits, temperature, allowed, progress)
    for name, expected in zip(("all_logits", "logsumexp"), right, strict=True):
        found = getattr(results, name)
        if found is None:
            continue
        wrong = np.argwhere(found != expected)
        comparison[name] = {"compared": found.size, "mismatches": len(wrong)}
        if len(wrong):
            place = tuple(map(int, wrong[0]))
            where = f"state {place[0]}" + "".join(f", row {row}" for row in place[1:])
            differences.append(
                f"{name}, {where}: the accelerator has {found[place]}, the golden model "
                f"{expected[place]}"
            )
    return comparison, differences
