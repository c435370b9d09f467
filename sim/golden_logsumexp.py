"""The golden model of the log-sum-exp, from the definition of its arithmetic alone.

A score, the vector's multiplier M (32 bits) and its shift a (0..127) give, all roundings downwards:

    t = score * 2^24 / 2^a, clamped to -2^34 .. 2^34 - 1
    z = t * M / 2^34                        the score's base-2 logarithm, in units of 2^-20
    e = z / 2^20,  f = z mod 2^20           its integer and its fraction
    T = A[i] + (A[i + 1] - A[i]) * (f mod 4096) / 4096    with i = f / 4096
                                            2^f in units of 2^-20, from a table A of 257 entries,
                                            A[i] = 2^(20 + i / 256) rounded to the nearest

Every power of two has an exact accumulator, which sums the T of its rows: the result depends on no
order. With E the largest power that a row had, the sum S begins as 0 and, for j from 63 down to 0,
becomes S / 2 + accumulator[E - j]. Then ``E - 20 + log2(S)`` is the base-2 logarithm of the sum.
Without a row E and S are 0.
"""

import operator

import numpy as np

SHIFT_MAX = 127
"""Largest shift."""
WINDOW = 64
"""Powers of two that take part in the sum, from the largest one down."""

LOGARITHM_LOW = -(2**12)
LOGARITHM_COUNT = 2**13
"""Integers that a score's base-2 logarithm may have, from `LOGARITHM_LOW` on."""

POWERS = np.rint(np.exp2(20 + np.arange(257) / 256)).astype(np.int64)


def logarithms(scores: np.ndarray, multiplier: int, shift: int) -> np.ndarray:
    """Base-2 logarithms of the scores' exponentials, int64, in units of 2^-20."""
    low, high = -(2**34), 2**34 - 1
    if shift >= 24:
        scaled = scores >> min(shift - 24, 63)
    else:
        # What is clamped before the shift would be clamped behind it as well.
        scaled = np.clip(scores, low, high + 1) << (24 - shift)
    scaled = np.clip(scaled, low, high)
    # In two steps, since the product needs up to 67 bits.
    upper, lower = scaled >> 17, scaled & (2**17 - 1)
    return (upper * multiplier + (lower * multiplier >> 17)) >> 17


def accumulate(
    scores: np.ndarray, multiplier: int, shift: int, allowed: np.ndarray | None = None
) -> tuple[int, int]:
    """Exponent E and sum S of one vector.

    Parameters
    ----------
    scores : integers [V]
    multiplier : 0..2^32 - 1
    shift : 0..127
    allowed : bool [V], optional
        Rows that take part. Default: all.

    Raises
    ------
    TypeError
        The scores are not integers.
    ValueError
        A parameter is out of its range, or a shape does not fit.
    """
    scores = np.asarray(scores)
    if scores.dtype.kind not in "iu":
        raise TypeError(f"scores must be integers, got {scores.dtype}")
    if scores.ndim != 1:
        raise ValueError(f"scores must have 1 dimension, got {scores.ndim}")
    multiplier, shift = operator.index(multiplier), operator.index(shift)
    if not 0 <= multiplier < 2**32:
        raise ValueError(f"multiplier must be in 0..{2**32 - 1}, got {multiplier}")
    if not 0 <= shift <= SHIFT_MAX:
        raise ValueError(f"shift must be in 0..{SHIFT_MAX}, got {shift}")
    scores = scores.astype(np.int64)
    if allowed is not None:
        allowed = np.asarray(allowed)
        if allowed.dtype != bool or allowed.shape != scores.shape:
            raise ValueError(
                f"allowed must be bool [{len(scores)}], got {allowed.dtype} {list(allowed.shape)}"
            )
        scores = scores[allowed]
    if not len(scores):
        return 0, 0

    logarithm = logarithms(scores, multiplier, shift)
    integer, fraction = logarithm >> 20, logarithm & (2**20 - 1)
    index, place = fraction >> 12, fraction & 4095
    terms = POWERS[index] + ((POWERS[index + 1] - POWERS[index]) * place >> 12)
    sums = np.zeros(LOGARITHM_COUNT, np.int64)
    np.add.at(sums, integer - LOGARITHM_LOW, terms)

    exponent = int(integer.max())
    total = 0
    for power in range(exponent - WINDOW + 1, exponent + 1):
        total >>= 1
        if power >= LOGARITHM_LOW:
            total += int(sums[power - LOGARITHM_LOW])
    return exponent, total
