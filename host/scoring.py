"""Exact scores of given rows, computed on the host from the packed weights.

They equal the accelerator's bit for bit: the same integers, in int64.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from host.errors import UserError
from host.files.arrays import load_array
from host.jobs.parameters import Vectors, prepare_vectors
from hw.config import HIDDEN_BITS

if TYPE_CHECKING:
    from host.image import Image
    from host.shards import ShardedImage

CHUNK_WEIGHTS = 1 << 21
"""Products that are held at a time."""


@dataclass(frozen=True)
class RowScores:
    """Scores of M rows for each of N hidden states."""

    ids: np.ndarray
    """int64 [N, M]."""
    scores: np.ndarray
    """int64 [N, M], the bias included, a bound not."""
    logits: np.ndarray
    """float64 [N, M]; ``(score * weight_scale) * hidden_scale``."""


def check_ids(ids: np.ndarray, states: int, rows: int) -> np.ndarray:
    """Row ids as int64 [states, M]; one row of them is for all states.

    Raises
    ------
    UserError
        The ids are no integers, of another shape, or one is no row of the image; the message
        names it.
    """
    ids = np.asarray(ids)
    if not ids.size and ids.dtype == np.float64:
        ids = ids.astype(np.int64)  # NumPy's type of an empty list
    if ids.dtype.kind not in "iu":
        raise UserError("ids", "must be integers", found=ids.dtype)
    if ids.ndim == 1:
        ids = np.broadcast_to(ids, (states, len(ids)))
    if ids.ndim != 2 or len(ids) != states:
        raise UserError(
            "ids", "the shape does not fit", expected=f"[{states}, M] or [M]", found=list(ids.shape)
        )
    wrong = np.argwhere((ids < 0) | (ids >= rows))
    if len(wrong):
        state, place = wrong[0]
        raise UserError(
            "ids",
            f"place {place} of state {state} is no row of the image",
            expected=f"0..{rows - 1}",
            found=ids[state, place],
        )
    return ids.astype(np.int64)


def load_ids(path: Path, states: int, rows: int) -> np.ndarray:
    """Row ids in an .npy file, or array `ids` of an .npz file, as int64 [states, M].

    The file holds [states, M], [1, M] for the same ids with every state, or [states] for one id
    with each state: a single dimension is never one of M.

    Raises
    ------
    UserError
        The file cannot be read or holds no such ids; the message names it.
    """
    ids = load_array(path, "ids")
    fits = ids.shape == (states,) or (ids.ndim == 2 and len(ids) in (1, states))
    if not fits or not ids.size:
        same = "[1, M] for all states, " if states > 1 else ""
        raise UserError(
            path,
            "the shape of the ids does not fit the states",
            expected=f"[{states}, M] with M >= 1, {same}or [{states}], one for each",
            found=list(ids.shape),
        )
    if ids.ndim == 1:
        ids = ids[:, np.newaxis]
    try:
        return check_ids(np.broadcast_to(ids, (states, ids.shape[1])), states, rows)
    except UserError as error:
        raise UserError(path, str(error)) from None


def score_rows(
    weights: np.ndarray,
    scales: np.ndarray,
    hidden: np.ndarray,
    group: int = 0,
) -> np.ndarray:
    """Scores int64 [R, N] of stored rows, without terms.

    Parameters
    ----------
    weights : integers [R, d]
    scales : integers [R, G]
    hidden : integers [N, d]
        Quantised states.
    group : int
        Columns that share a scale; 0 for the whole row.
    """
    rows, dim = weights.shape
    columns = group or dim
    edges = np.arange(0, dim, columns)
    result = np.empty((rows, len(hidden)), np.int64)
    wide = weights.astype(np.int64)
    for state, vector in enumerate(hidden.astype(np.int64)):
        dots = np.add.reduceat(wide * vector, edges, axis=1)
        result[:, state] = (dots * scales).sum(axis=1)
    return result


def score_ids(
    image: "Image | ShardedImage", hidden: np.ndarray, ids: np.ndarray, hidden_bits: int = 16
) -> RowScores:
    """Score rows by their ids.

    Parameters
    ----------
    image : Image or ShardedImage
    hidden : real [N, d] or [d]
    ids : integers [N, M] or [M]
    hidden_bits : 8 or 16
        Of the accelerator whose scores are wanted.

    Raises
    ------
    UserError, TypeError
        `hidden` or `ids` is wrong.
    ValueError
        The hardware knows no such `hidden_bits`.
    """
    if hidden_bits not in HIDDEN_BITS:
        raise ValueError(f"hidden_bits must be one of {HIDDEN_BITS}, got {hidden_bits}")
    vectors = prepare_vectors(image, hidden, hidden_bits)
    ids = check_ids(ids, len(vectors), image.rows)
    scores = np.empty(ids.shape, np.int64)
    # Each row is read once, whatever the number of states that want it, in the order of ids.
    wanted, place = np.unique(ids, return_inverse=True)
    place = place.reshape(ids.shape)
    step = max(1, CHUNK_WEIGHTS // image.dim)
    for start in range(0, len(wanted), step):
        chunk = wanted[start : start + step]
        weights, scales, terms = _read(image, chunk)
        here = (place >= start) & (place < start + len(chunk))
        for state in np.flatnonzero(here.any(axis=1)):
            rows = place[state, here[state]] - start
            scores[state, here[state]] = _score_state(
                image, vectors, state, weights[rows], scales[rows], terms[rows]
            )
    logits = scores * image.weight_scale * vectors.scales[:, np.newaxis]
    return RowScores(ids, scores, logits)


def _read(
    image: "Image | ShardedImage", ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, scales and terms of rows with ascending ids, runs of neighbours at a time."""
    runs = np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1)
    parts = []
    for run in runs:
        start, stop = int(run[0]), int(run[-1]) + 1
        parts.append((*image.read_rows(start, stop), image.read_terms(start, stop)))
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def _score_state(
    image: "Image | ShardedImage",
    vectors: Vectors,
    state: int,
    weights: np.ndarray,
    scales: np.ndarray,
    terms: np.ndarray,
) -> np.ndarray:
    hidden = vectors.quantised[state : state + 1]
    scores = score_rows(weights, scales, hidden, image.config_fields["group"])[:, 0]
    if image.config_fields["bias"]:
        scores += terms[:, 0].astype(np.int64) * int(vectors.parameters["bias"][state])
    return scores
