"""Probabilities and tokens from logits, against what the definitions give by hand."""

import numpy as np
import pytest

from host.sampling import (
    LogitTransform,
    NotCoveredError,
    Sampling,
    greedy,
    log_probabilities,
    logsumexp,
    perplexity,
    softmax,
)

LOGITS = np.array([[2.0, 1.0, -1.0]])
PROBABILITIES = np.array([[0.705385, 0.259496, 0.035119]])


def test_softmax_of_large_logits_does_not_overflow():
    shares = softmax(np.array([[1000.0, 1000.0 - np.log(3), -np.inf], [-1e5, -np.inf, -np.inf]]))
    assert shares == pytest.approx(np.array([[0.75, 0.25, 0.0], [1.0, 0.0, 0.0]]))


@pytest.mark.parametrize("bad", [[-np.inf, -np.inf], [np.nan, 1.0], [np.inf, 1.0]])
def test_softmax_without_a_finite_maximum_is_refused(bad):
    with pytest.raises(ValueError, match="finite maximum"):
        softmax(np.array([bad]))


def test_greedy_takes_the_best():
    assert greedy(np.array([[5, 2], [7, 9]])).tolist() == [5, 7]


def test_the_worked_example():
    total = logsumexp(LOGITS)
    assert softmax(LOGITS) == pytest.approx(PROBABILITIES, abs=1e-6)
    logs = log_probabilities(LOGITS, total)
    assert -logs[0, 0] == pytest.approx(0.349012, abs=1e-6)
    assert np.exp(logs) == pytest.approx(PROBABILITIES, abs=1e-6)


def test_logsumexp_of_nothing_is_minus_infinity_and_of_large_logits_finite():
    values = logsumexp(np.array([[-np.inf, -np.inf], [1e4, 1e4]]))
    assert values.tolist() == [-np.inf, pytest.approx(1e4 + np.log(2))]


def test_perplexity_is_the_mean_surprise():
    assert perplexity(np.log([0.5, 0.125])) == pytest.approx(4.0)
    assert perplexity(np.array([-1.0, -np.inf])) == np.inf
    assert perplexity(np.array([-1e5])) == np.inf
    with pytest.raises(ValueError, match="at least one token"):
        perplexity(np.array([]))


# The model's own transform.


def test_softcap_bends_and_keeps_the_order():
    capped = LogitTransform(softcap=30.0).apply(np.array([124.0, 200.0]))
    assert capped == pytest.approx([29.9846, 29.9999], abs=5e-5)
    assert np.argmax(capped) == 1


def test_logit_scale_comes_before_the_softcap_and_fillers_stay():
    transform = LogitTransform(scale=0.5, softcap=10.0)
    expected = [10 * np.tanh(0.4), -np.inf]
    assert transform.apply(np.array([8.0, -np.inf])) == pytest.approx(expected)


def test_a_transform_says_what_it_does():
    assert LogitTransform().is_identity
    for transform, text in (
        (LogitTransform(scale=0.5), "times 0.5"),
        (LogitTransform(softcap=30.0), "times 1, then capped at 30"),
    ):
        assert not transform.is_identity
        assert str(transform) == text


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_would_turn_the_order_round_is_refused(scale):
    with pytest.raises(ValueError, match="logit scale must be finite and above 0"):
        LogitTransform(scale=scale)


def test_the_scale_is_part_of_the_temperature_and_a_softcap_cannot_be():
    assert LogitTransform(scale=0.25).temperature(0.5) == 2.0
    with pytest.raises(ValueError, match="--all-logits"):
        LogitTransform(softcap=30.0).temperature(1.0)


# The filters.


def test_without_filters_the_whole_vocabulary_is_needed():
    plain = Sampling()
    assert plain.probabilities(LOGITS, complete=True) == pytest.approx(PROBABILITIES, abs=1e-6)
    with pytest.raises(NotCoveredError, match="state 0: tokens past its 3 candidates"):
        plain.probabilities(LOGITS, logsumexp(LOGITS))


def test_a_list_that_ends_before_k_is_complete():
    logits = np.pad(LOGITS, ((0, 0), (0, 1)), constant_values=-np.inf)
    expected = np.pad(PROBABILITIES, ((0, 0), (0, 1)))
    assert Sampling().probabilities(logits) == pytest.approx(expected, abs=1e-6)


def test_temperature_divides_and_zero_takes_the_best():
    expected = softmax(LOGITS / 0.5)
    assert Sampling(temperature=0.5).probabilities(LOGITS, complete=True) == pytest.approx(expected)
    assert Sampling(temperature=0.0).probabilities(LOGITS).tolist() == [[1.0, 0.0, 0.0]]


def test_top_k_keeps_the_best():
    expected = np.pad(softmax(LOGITS[:, :2]), ((0, 0), (0, 1)))
    assert Sampling(top_k=2).probabilities(LOGITS) == pytest.approx(expected)
    with pytest.raises(NotCoveredError, match="top_k 4 needs as many candidates, got 3"):
        Sampling(top_k=4).probabilities(LOGITS)


@pytest.mark.parametrize(
    ("top_p", "count"), [(0.1, 1), (0.7, 1), (0.71, 2), (0.964, 2), (0.966, 3)]
)
def test_top_p_keeps_the_fewest_that_reach_it(top_p, count):
    kept = Sampling(top_p=top_p).probabilities(LOGITS, complete=True)
    assert (kept > 0).sum() == count
    assert kept.sum() == pytest.approx(1)


def test_top_p_over_the_vocabulary_uses_its_total():
    # The candidates hold half of the vocabulary's probability.
    total = logsumexp(LOGITS) + np.log(2)
    kept = Sampling(top_p=0.4).probabilities(LOGITS, total)
    assert (kept > 0).tolist() == [[True, True, False]]
    with pytest.raises(NotCoveredError, match="have more candidates or all logits"):
        Sampling(top_p=0.6).probabilities(LOGITS, total)
    with pytest.raises(ValueError, match="needs its log-sum-exp"):
        Sampling(top_p=0.4).probabilities(LOGITS)


def test_a_total_of_another_temperature_is_noticed():
    with pytest.raises(ValueError, match="add up to more than 1"):
        Sampling(top_p=0.9).probabilities(LOGITS, logsumexp(LOGITS) - 1)


def test_top_p_after_top_k_counts_among_the_kept():
    kept = Sampling(top_k=2, top_p=0.75).probabilities(LOGITS)
    assert (kept > 0).tolist() == [[True, True, False]]
    kept = Sampling(top_k=2, top_p=0.73).probabilities(LOGITS)
    assert (kept > 0).tolist() == [[True, False, False]]


def test_min_p_is_a_share_of_the_best():
    kept = Sampling(min_p=0.3).probabilities(LOGITS)
    assert (kept > 0).tolist() == [[True, True, False]]
    with pytest.raises(NotCoveredError):
        Sampling(min_p=0.01).probabilities(LOGITS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -1.0}, "temperature must be finite and at least 0, got -1.0"),
        ({"top_k": -1}, "top_k must be at least 0, got -1"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, got 0.0"),
        ({"min_p": 1.5}, r"min_p must be in 0..1, got 1.5"),
    ],
)
def test_wrong_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**arguments)


@pytest.mark.parametrize("logits", [[1.0, 2.0], [np.nan, 1.0], [-np.inf, -np.inf], []])
def test_candidates_must_be_sorted_and_exist(logits):
    with pytest.raises(ValueError, match="sorted best first"):
        Sampling(top_k=1).probabilities(np.array([logits]))


def test_draws_follow_the_probabilities():
    states = 20000
    ids = np.tile([7, 3, 9], (states, 1))
    drawn = Sampling().sample(
        ids, np.tile(LOGITS, (states, 1)), np.random.default_rng(1), complete=True
    )
    shares = [(drawn == token).mean() for token in (7, 3, 9)]
    assert shares == pytest.approx(PROBABILITIES[0], abs=0.01)


def test_a_draw_never_takes_what_was_filtered_out():
    ids = np.tile([4, 5, 6], (1000, 1))
    logits = np.tile(LOGITS, (1000, 1))
    drawn = Sampling(top_k=2, temperature=100.0).sample(ids, logits, np.random.default_rng(2))
    assert set(drawn.tolist()) == {4, 5}
