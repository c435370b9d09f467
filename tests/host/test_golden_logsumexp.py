"""The golden log-sum-exp against its definition in Python's unbounded integers."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from sim.golden_logsumexp import POWERS, accumulate

RNG = np.random.default_rng(33)


def plain(scores, multiplier, shift):
    """The definition, row by row, in exact arithmetic."""
    sums = {}
    for score in scores:
        t = floor(Fraction(int(score) * 2**24, 2**shift))
        t = min(max(t, -(2**34)), 2**34 - 1)
        z = floor(Fraction(t * multiplier, 2**34))
        e, f = z // 2**20, z % 2**20
        index, place = divmod(f, 4096)
        low, high = int(POWERS[index]), int(POWERS[index + 1])
        sums[e] = sums.get(e, 0) + low + (high - low) * place // 4096
    if not sums:
        return 0, 0
    top = max(sums)
    total = 0
    for j in range(63, -1, -1):
        total = total // 2 + sums.get(top - j, 0)
    return top, total


def test_the_table_is_the_nearest_integer_to_every_power():
    assert len(POWERS) == 257
    for index, power in enumerate(POWERS.tolist()):
        # x = 2^(20 + i/256) lies in power +- 1/2, that is (2 * power +- 1)^256 around 2^(21*256+i).
        assert (2 * power - 1) ** 256 < 2 ** (21 * 256 + index) < (2 * power + 1) ** 256


@pytest.mark.parametrize("shift", [0, 1, 5, 23, 24, 25, 40, 62, 63, 64, 87, 88, 100, 127])
@pytest.mark.parametrize("multiplier", [0, 1, 2**31, 3 * 2**30 + 12345, 2**32 - 1])
def test_sums_equal_the_definition_in_exact_arithmetic(multiplier, shift):
    bits = RNG.integers(1, 63, 60)
    scores = RNG.integers(-(2**bits), 2**bits)
    edges = [np.iinfo(np.int64).min, np.iinfo(np.int64).max, 0, -1, 1, 2**34, 2**34 - 1, -(2**34)]
    for part in (scores, np.array(edges), scores[scores < 0], scores[:1]):
        assert accumulate(part, multiplier, shift) == plain(part, multiplier, shift)


def test_only_powers_within_the_window_below_the_largest_count():
    # With these arguments a score of 1 is a power of two.
    arguments = (2**31, 1)
    assert accumulate(np.array([0]), *arguments) == (0, 2**20)
    assert accumulate(np.array([100, 37, 36]), *arguments) == accumulate(
        np.array([100, 37]), *arguments
    )
    many = np.full(2**20, 60)
    assert accumulate(np.append(many, 100), *arguments) == (100, 2**20 + 1)


def test_neither_order_nor_cuts_change_a_sum():
    scores = RNG.integers(-(2**30), 2**30, 500)
    expected = accumulate(scores, 2**31 + 99, 24)
    assert accumulate(RNG.permutation(scores), 2**31 + 99, 24) == expected


def test_forbidden_rows_do_not_count():
    scores = np.array([5, 900, -3, 7])
    allowed = np.array([True, False, True, True])
    assert accumulate(scores, 2**31, 4, allowed) == accumulate(scores[allowed], 2**31, 4)


def test_nothing_allowed_gives_zeros():
    assert accumulate(np.array([5, 6]), 2**31, 4, np.zeros(2, bool)) == (0, 0)
    assert accumulate(np.zeros(0, np.int64), 2**31, 4) == (0, 0)


def test_wrong_arguments_are_refused():
    scores = np.zeros(3, np.int64)
    with pytest.raises(TypeError, match="scores must be integers, got float64"):
        accumulate(scores.astype(float), 1, 0)
    with pytest.raises(ValueError, match="scores must have 1 dimension, got 2"):
        accumulate(scores[None], 1, 0)
    with pytest.raises(ValueError, match=r"multiplier must be in 0\.\.4294967295, got 4294967296"):
        accumulate(scores, 2**32, 0)
    with pytest.raises(ValueError, match=r"shift must be in 0\.\.127, got 128"):
        accumulate(scores, 1, 128)
    with pytest.raises(ValueError, match=r"allowed must be bool \[3\], got int64 \[3\]"):
        accumulate(scores, 1, 0, scores)
