"""Comparison of what an accelerator returned with the golden model, over an image's rows."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from host.jobs.parameters import prepare_vectors
from host.results import Results
from sim import golden

if TYPE_CHECKING:
    from host.image import Image


def image_chunks(
    image: "Image", progress: Callable[[int, int], None] | None = None
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """The rows of an image in order: first row, weights [R, d], scales [R, G], terms [R, T]."""
    for start, stop in image.chunks():
        yield start, *image.read_rows(start, stop), image.read_terms(start, stop)
        if progress is not None:
            progress(stop, image.rows)


def golden_results(
    image: "Image",
    hidden: np.ndarray,
    k: int,
    hidden_bits: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    allowed: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What the golden model returns for an image: ids int32 [N, k] and scores int64 [N, k].

    Parameters
    ----------
    hidden : real [N, d]
    progress : callable (rows done, rows), optional
    allowed : bool [N, V], optional
        Rows that take part. Default: all.

    Raises
    ------
    UserError
        As `host.jobs.parameters.prepare_vectors`.
    """
    vectors = prepare_vectors(image, hidden, hidden_bits)
    config = image.config
    return golden.best_rows(
        image_chunks(image, progress),
        vectors.quantised,
        k,
        config.group,
        bias_multipliers=vectors.parameters["bias"] if config.bias else None,
        bound_multipliers=vectors.parameters["bound"] if config.bound else None,
        allowed=allowed,
    )


def mismatches(results: Results, ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Places where id or score differ from the golden model's, int [M, 2] of (state, rank)."""
    return np.argwhere((results.ids != ids) | (results.scores != scores))
