"""The golden model: exact scores and their order in NumPy, from the arithmetic's definition alone.

    score[v] = sum over groups g ( s[v, g] * sum over j in g ( q[v, j] * hq[j] ) )

Order everywhere: score descending, then row id ascending.
"""

import operator
from collections.abc import Iterable

import numpy as np

FILLER_ID = -1
"""Id in places of a result for which no row exists."""

FILLER_SCORE = np.iinfo(np.int64).min
"""Score in places of a result for which no row exists."""

EXACT_FLOAT64 = 2**53
"""Sums of integers in float64 are exact, in any order, while no partial sum can exceed this."""

CHUNK_BYTES = 32 * 2**20
"""Working memory per chunk of rows."""

VECTOR_BLOCK = 256
"""Hidden vectors scored at once by `best_rows`."""


def _magnitude(values: np.ndarray) -> int:
    """Largest magnitude in an integer array; 0 if it is empty."""
    return max(-int(values.min()), int(values.max())) if values.size else 0


def _check_integers(name: str, values: np.ndarray, ndim: int) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {values.dtype}")
    if values.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimensions, got {values.ndim}")
    return values


def scores(
    weights: np.ndarray, scales: np.ndarray, hidden: np.ndarray, group: int = 0
) -> np.ndarray:
    """Exact scores of every row for every hidden vector.

    Parameters
    ----------
    weights : integers [V, d]
        The stored weights q.
    scales : integers [V, G]
        The stored scales s, one per group of columns.
    hidden : integers [N, d]
        The quantised hidden vectors hq.
    group : int
        Consecutive columns that share a scale; 0 for the whole row. The last group may be shorter.

    Returns
    -------
    int64 [N, V]

    Raises
    ------
    TypeError
        An array is not of integers.
    ValueError
        Shapes do not match, or the values are so large that int64 could overflow.

    Notes
    -----
    The dot product over one group runs through float64 BLAS, which is exact while
    columns * max|q| * max|hq| <= 2^53: every product and partial sum is then an integer that
    float64 represents, whatever the order of summation. (The largest group of the accelerator,
    65536 columns of int8 x int16, reaches 2^38.) Scales and sums over groups are int64.
    """
    weights = _check_integers("weights", weights, 2)
    scales = _check_integers("scales", scales, 2)
    hidden = _check_integers("hidden", hidden, 2)
    rows, dim = weights.shape
    columns = group or max(dim, 1)
    groups = -(-dim // columns)
    if hidden.shape[1] != dim:
        raise ValueError(f"hidden must have the {dim} columns of weights, got {hidden.shape[1]}")
    if scales.shape != (rows, groups):
        raise ValueError(f"scales must be [{rows}, {groups}], got {list(scales.shape)}")
    dot_bound = columns * _magnitude(weights) * _magnitude(hidden)
    if dot_bound > EXACT_FLOAT64:
        raise ValueError(f"a group's dot product may reach {dot_bound}, beyond exact float64")
    if groups * dot_bound * _magnitude(scales) > np.iinfo(np.int64).max:
        raise ValueError("a score may not fit in int64")

    result = np.zeros((len(hidden), rows), np.int64)
    row_bytes = 8 * (2 * columns + 2 * len(hidden))
    step = max(1, CHUNK_BYTES // row_bytes)
    for g in range(groups):
        span = slice(g * columns, (g + 1) * columns)
        vectors = hidden[:, span].astype(np.float64)
        for start in range(0, rows, step):
            chunk = slice(start, start + step)
            dots = (vectors @ weights[chunk, span].astype(np.float64).T).astype(np.int64)
            result[:, chunk] += dots * scales[chunk, g].astype(np.int64)
    return result


def topk(row_scores: np.ndarray, k: int, ids: np.ndarray | None = None):
    """The k best rows of every vector in the total order.

    Parameters
    ----------
    row_scores : int64 [N, V]
    k : int
        At least 1; fewer come back where V < k.
    ids : integers [N, V], optional
        Row ids of the columns, ascending among equal scores. Default: 0..V-1.

    Returns
    -------
    ids : int32 [N, min(k, V)]
    scores : int64 [N, min(k, V)]
    """
    row_scores = _check_integers("row_scores", row_scores, 2)
    if operator.index(k) < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    vectors, rows = row_scores.shape
    count = min(k, rows)
    best_ids = np.empty((vectors, count), np.int32)
    best_scores = np.empty((vectors, count), np.int64)
    for n, line in enumerate(row_scores):
        # ~x falls as x rises and, unlike -x, cannot overflow; a stable sort of it keeps the lower
        # id first among equals. Only rows that reach the k-th score need sorting.
        keys = ~line.astype(np.int64)
        if count:
            candidates = np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])
        else:
            candidates = np.zeros(0, np.intp)
        order = candidates[np.argsort(keys[candidates], kind="stable")][:count]
        best_ids[n] = order if ids is None else ids[n, order]
        best_scores[n] = line[order]
    return best_ids, best_scores


def best_rows(
    chunks: Iterable[tuple[int, np.ndarray, np.ndarray]],
    hidden: np.ndarray,
    k: int,
    group: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """The k best rows of every hidden vector over a matrix that comes in chunks of rows.

    Parameters
    ----------
    chunks : iterable of (first row, weights [R, d], scales [R, G])
        Consecutive rows, ascending; only one chunk is held at a time.
    hidden : integers [N, d], N >= 1
    k, group : int
        As in `topk` and `scores`.

    Returns
    -------
    ids : int32 [N, k], `FILLER_ID` where fewer than k rows exist
    scores : int64 [N, k], `FILLER_SCORE` there
    """
    hidden = _check_integers("hidden", hidden, 2)
    ids = np.empty((len(hidden), 0), np.int32)
    best = np.empty((len(hidden), 0), np.int64)
    for first_row, weights, scales in chunks:
        blocks = [
            topk(scores(weights, scales, hidden[start : start + VECTOR_BLOCK], group), k)
            for start in range(0, len(hidden), VECTOR_BLOCK)
        ]
        chunk_ids, chunk_scores = (np.concatenate(part) for part in zip(*blocks, strict=True))
        # The rows kept so far have lower ids, so that joined columns stay in id order among equals.
        ids = np.concatenate([ids, chunk_ids + np.int32(first_row)], axis=1)
        best = np.concatenate([best, chunk_scores], axis=1)
        ids, best = topk(best, k, ids)
    padding = ((0, 0), (0, k - ids.shape[1]))
    return (
        np.pad(ids, padding, constant_values=FILLER_ID),
        np.pad(best, padding, constant_values=FILLER_SCORE),
    )
