"""Comparison of what an accelerator returned with the golden model, over an image's rows."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from host.hidden import check_hidden, quantise_hidden
from host.results import Results
from sim import golden

if TYPE_CHECKING:
    from host.image import Image


def image_chunks(
    image: "Image", progress: Callable[[int, int], None] | None = None
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The rows of an image in order, as (first row, weights [R, d], scales [R, G])."""
    for start, stop in image.chunks():
        yield start, *image.read_rows(start, stop)
        if progress is not None:
            progress(stop, image.rows)


def golden_results(
    image: "Image",
    hidden: np.ndarray,
    k: int,
    hidden_bits: int,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What the golden model returns for an image: ids int32 [N, k] and scores int64 [N, k].

    Parameters
    ----------
    hidden : real [N, d]
    progress : callable (rows done, rows), optional

    Raises
    ------
    UserError
        As `host.hidden.check_hidden`.
    """
    quantised, _ = quantise_hidden(check_hidden(hidden, image.dim), hidden_bits)
    group = image.layout.config.group
    return golden.best_rows(image_chunks(image, progress), quantised, k, group)


def mismatches(results: Results, ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Places where id or score differ from the golden model's, int [M, 2] of (state, rank)."""
    return np.argwhere((results.ids != ids) | (results.scores != scores))
