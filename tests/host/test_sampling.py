"""Shares and tokens from logits."""

import numpy as np
import pytest

from host.sampling import greedy, softmax


def test_softmax_of_large_logits_does_not_overflow():
    shares = softmax(np.array([[1000.0, 1000.0 - np.log(3), -np.inf], [-1e5, -np.inf, -np.inf]]))
    assert shares == pytest.approx(np.array([[0.75, 0.25, 0.0], [1.0, 0.0, 0.0]]))


@pytest.mark.parametrize("bad", [[-np.inf, -np.inf], [np.nan, 1.0], [np.inf, 1.0]])
def test_softmax_without_a_finite_maximum_is_refused(bad):
    with pytest.raises(ValueError, match="finite maximum"):
        softmax(np.array([bad]))


def test_greedy_takes_the_best():
    assert greedy(np.array([[5, 2], [7, 9]])).tolist() == [5, 7]
