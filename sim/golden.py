"""The golden model: exact scores and their order in NumPy, from the arithmetic's definition alone.

    score[v] = sum over groups g ( s[v, g] * sum over j in g ( q[v, j] * hq[j] ) ) + bias
    rank[v] = score[v] + bound

Bias and bound, where there are any, are a row's term times the hidden vector's multiplier. Rows
that are not allowed take no part. Order everywhere: rank descending, then row id ascending; what
comes back is the score.
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

LARGEST = np.iinfo(np.int64).max

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
    weights: np.ndarray,
    scales: np.ndarray,
    hidden: np.ndarray,
    group: int = 0,
    bias: np.ndarray | None = None,
    bias_multipliers: np.ndarray | None = None,
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
    bias : integers [V], optional
        The stored bias of every row.
    bias_multipliers : integers [N], optional
        What it is multiplied by for every vector; given if `bias` is.

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
    65536 columns of int16 x int16, reaches 2^46.) Scales, sums over groups and terms are int64.
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
    if (bias is None) != (bias_multipliers is None):
        raise ValueError("a bias and its multipliers are given together")
    if bias is None:
        result = np.zeros((len(hidden), rows), np.int64)
    else:
        result = products(bias, bias_multipliers, rows, len(hidden))
    if groups * dot_bound * _magnitude(scales) + _magnitude(result) > LARGEST:
        raise ValueError("a score may not fit in int64")

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


def products(terms: np.ndarray, multipliers: np.ndarray, rows: int, vectors: int) -> np.ndarray:
    """A term of every row times its multiplier of every vector: int64 [vectors, rows].

    Raises
    ------
    TypeError, ValueError
        `terms` is not of integers [rows] or `multipliers` not of integers [vectors], or a product
        may not fit in int64.
    """
    terms = _check_integers("terms", terms, 1)
    multipliers = _check_integers("multipliers", multipliers, 1)
    if len(terms) != rows or len(multipliers) != vectors:
        raise ValueError(
            f"terms must be [{rows}] and multipliers [{vectors}], got [{len(terms)}] and "
            f"[{len(multipliers)}]"
        )
    if _magnitude(terms) * _magnitude(multipliers) > LARGEST:
        raise ValueError("a term times its multiplier may not fit in int64")
    return multipliers.astype(np.int64)[:, np.newaxis] * terms.astype(np.int64)


def _best(ranks: np.ndarray, k: int, allowed: np.ndarray | None) -> np.ndarray:
    """Columns of the k largest ranks [V] among those allowed, best first; fewer if there are."""
    columns = None if allowed is None else np.flatnonzero(allowed)
    # ~x falls as x rises and, unlike -x, cannot overflow; a stable sort of it keeps the lower id
    # first among equals. Only rows that reach the k-th rank need sorting.
    keys = ~ranks if columns is None else ~ranks[columns]
    count = min(k, len(keys))
    if not count:
        return np.zeros(0, np.intp)
    candidates = np.flatnonzero(keys <= np.partition(keys, count - 1)[count - 1])
    order = candidates[np.argsort(keys[candidates], kind="stable")][:count]
    return order if columns is None else columns[order]


def topk(
    row_scores: np.ndarray,
    k: int,
    ids: np.ndarray | None = None,
    *,
    allowed: np.ndarray | None = None,
    bounds: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The k best rows of every vector in the total order.

    Parameters
    ----------
    row_scores : int64 [N, V]
    k : int
        At least 1; fewer come back where V < k.
    ids : integers [N, V], optional
        Row ids of the columns, ascending among equal ranks. Default: 0..V-1.
    allowed : bool [N, V], optional
        Rows that take part. Default: all.
    bounds : int64 [N, V], optional
        Added to the scores for the order alone.

    Returns
    -------
    ids : int32 [N, min(k, V)], `FILLER_ID` where fewer rows are allowed
    scores : int64 [N, min(k, V)], without bounds; `FILLER_SCORE` there

    Raises
    ------
    TypeError, ValueError
        An array is of the wrong kind or shape, `k` is below 1, or a rank may not fit in int64.
    """
    if operator.index(k) < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    row_scores, bounds = _check_ranks(row_scores, bounds)
    allowed = _check_allowed(allowed, row_scores.shape)
    if ids is None:
        ids = np.broadcast_to(np.arange(row_scores.shape[1]), row_scores.shape)
    return _keep(ids, row_scores, bounds, k, allowed)[:2]


def _check_ranks(
    row_scores: np.ndarray, bounds: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and bounds, zeros by default, as int64; their sums fit too."""
    row_scores = _check_integers("row_scores", row_scores, 2).astype(np.int64, copy=False)
    if bounds is None:
        return row_scores, np.broadcast_to(np.int64(0), row_scores.shape)
    bounds = _check_integers("bounds", bounds, 2).astype(np.int64, copy=False)
    if bounds.shape != row_scores.shape:
        raise ValueError(f"bounds must be {list(row_scores.shape)}, got {list(bounds.shape)}")
    if _magnitude(row_scores) + _magnitude(bounds) > LARGEST:
        raise ValueError("a rank may not fit in int64")
    return row_scores, bounds


def _check_allowed(allowed: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    if allowed is None:
        return None
    allowed = np.asarray(allowed)
    if allowed.dtype != bool:
        raise TypeError(f"allowed must be bool, got {allowed.dtype}")
    if allowed.shape != shape:
        raise ValueError(f"allowed must be {list(shape)}, got {list(allowed.shape)}")
    return allowed


def _keep(
    ids: np.ndarray, row_scores: np.ndarray, bounds: np.ndarray, k: int, allowed: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, scores and bounds of the k best of each line [N, V], best first, then fillers."""
    vectors, rows = row_scores.shape
    shape = vectors, min(k, rows)
    best_ids = np.full(shape, FILLER_ID, np.int32)
    best_scores = np.full(shape, FILLER_SCORE, np.int64)
    best_bounds = np.zeros(shape, np.int64)
    for n in range(vectors):
        ranks = row_scores[n] + bounds[n]
        best = _best(ranks, k, None if allowed is None else allowed[n])
        best_ids[n, : len(best)] = ids[n, best]
        best_scores[n, : len(best)] = row_scores[n, best]
        best_bounds[n, : len(best)] = bounds[n, best]
    return best_ids, best_scores, best_bounds


def best_rows(
    chunks: Iterable[tuple[int, np.ndarray, np.ndarray, np.ndarray]],
    hidden: np.ndarray,
    k: int,
    group: int = 0,
    *,
    bias_multipliers: np.ndarray | None = None,
    bound_multipliers: np.ndarray | None = None,
    allowed: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The k best rows of every hidden vector over a matrix that comes in chunks of rows.

    Parameters
    ----------
    chunks : iterable of (first row, weights [R, d], scales [R, G], terms [R, T])
        Consecutive rows, ascending; only one chunk is held at a time. Terms are the bias, then
        the bound, each there if its multipliers are.
    hidden : integers [N, d], N >= 1
    k, group : int
        As in `topk` and `scores`.
    bias_multipliers, bound_multipliers : integers [N], optional
    allowed : bool [N, V], optional
        Rows that take part. Default: all.

    Returns
    -------
    ids : int32 [N, k], `FILLER_ID` where fewer than k rows exist or are allowed
    scores : int64 [N, k], without the bound; `FILLER_SCORE` there

    Raises
    ------
    TypeError, ValueError
        As `scores` and `topk`, or the number of terms is not that of the multipliers.
    """
    hidden = _check_integers("hidden", hidden, 2)
    if operator.index(k) < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    terms_given = (bias_multipliers is not None) + (bound_multipliers is not None)
    kept = _keep(*np.zeros((3, len(hidden), 0), np.int64), k, None)
    for first_row, weights, scales, terms in chunks:
        rows = len(weights)
        if terms.shape != (rows, terms_given):
            raise ValueError(f"terms must be [{rows}, {terms_given}], got {list(terms.shape)}")
        ids = np.arange(first_row, first_row + rows)
        parts = []
        for start in range(0, len(hidden), VECTOR_BLOCK):
            block = slice(start, start + VECTOR_BLOCK)
            vectors = hidden[block]
            bias, bounds = {}, None
            if bias_multipliers is not None:
                bias = {"bias": terms[:, 0], "bias_multipliers": bias_multipliers[block]}
            if bound_multipliers is not None:
                bounds = products(terms[:, -1], bound_multipliers[block], rows, len(vectors))
            found, bounds = _check_ranks(scores(weights, scales, vectors, group, **bias), bounds)
            part = None if allowed is None else allowed[block, first_row : first_row + rows]
            part = _check_allowed(part, found.shape)
            parts.append(_keep(np.broadcast_to(ids, found.shape), found, bounds, k, part))
        # The rows kept so far have lower ids, so that joined columns stay in id order among equals.
        joined = [
            np.concatenate([old, np.concatenate(new)], axis=1)
            for old, new in zip(kept, zip(*parts, strict=True), strict=True)
        ]
        kept = _keep(*joined, k, joined[0] != FILLER_ID)
    ids, best, _ = kept
    padding = ((0, 0), (0, k - ids.shape[1]))
    return (
        np.pad(ids, padding, constant_values=FILLER_ID),
        np.pad(best, padding, constant_values=FILLER_SCORE),
    )
