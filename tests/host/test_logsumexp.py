"""The log-sum-exp of the accelerator's arithmetic against float64 over the same scores."""

import math

import numpy as np
import pytest

from host.jobs.hidden import quantise_hidden
from host.jobs.logsumexp import logsumexp, scale_arguments
from sim import golden
from sim.golden_logsumexp import accumulate
from tests.host import smollm2

LARGEST_ERROR = 1e-5
"""Nats; the worst of these cases is off by 3e-6."""
LARGEST_REFERENCE_ERROR = 0.005
"""Nats, between quantised and exact hidden states."""

RNG = np.random.default_rng(8)


def exact(logits):
    top = logits.max()
    return top + math.log(math.fsum(np.exp(logits - top)))


def summed(scores, weight_scale, hidden_scale, temperature=1.0):
    arguments = scale_arguments(weight_scale, hidden_scale, temperature)
    exponent, total = accumulate(scores, *arguments)
    return logsumexp([exponent], [total])[0]


def scores_of(logits, unit):
    return np.rint(np.asarray(logits, np.float64) / unit).astype(np.int64)


CASES = {
    "random": RNG.normal(0, 3, 5000),
    "flat": RNG.uniform(-0.01, 0.01, 50000),
    "wide": RNG.uniform(-200, 200, 3000),
    "all equal": np.full(49152, 7.3),
    "all zero": np.zeros(1000),
    "one dominant": np.append(RNG.normal(0, 1, 49151), 60.0),
    "one row": np.array([-3.21]),
    "plus 200": np.array([200.0, 199.5, -200.0]),
    "minus 200": np.array([-200.0, -200.25, -199.0]),
    "plus and minus 200": np.tile([200.0, -200.0], 500),
    "far below one": np.append(np.full(40000, -30.0), -12.0),
}


@pytest.mark.parametrize("temperature", [0.25, 1.0, 1.7])
@pytest.mark.parametrize("unit", [2.0**-38, 1e-7, 1e-3])
@pytest.mark.parametrize("name", CASES)
def test_sums_are_close_to_float64_over_the_same_scores(name, unit, temperature):
    scores = scores_of(CASES[name], unit)
    hidden_scale = 3.7e-4
    result = summed(scores, unit / hidden_scale, hidden_scale, temperature)
    assert abs(result - exact(scores * unit / temperature)) < LARGEST_ERROR


def test_sums_over_the_real_head_are_close_in_every_reference_state():
    image, states = smollm2.image(), smollm2.states()
    hidden, scales = quantise_hidden(states["hidden"].astype(np.float64), 16)
    parts = [
        golden.scores(*image.read_rows(start, stop), hidden, image.config.group)
        for start, stop in image.chunks()
    ]
    found, expected = np.zeros(len(hidden)), np.zeros(len(hidden))
    for state, scores in enumerate(np.concatenate(parts, axis=1)):
        found[state] = summed(scores, image.weight_scale, scales[state])
        expected[state] = exact(scores * image.weight_scale * scales[state])
    assert np.abs(found - expected).max() < LARGEST_ERROR
    assert np.abs(found - states["logsumexp"]).max() < LARGEST_REFERENCE_ERROR


def test_no_rows_give_minus_infinity():
    assert logsumexp([0, 3], [0, 2**20]).tolist() == [-math.inf, 3 * math.log(2)]


@pytest.mark.parametrize("unit", [2.0**-126, 1e-30, 1e-9, 0.3, 1.0, 1.5, 2.0, 3.999999])
def test_multiplier_and_shift_represent_the_unit(unit):
    scale = unit / math.log2(math.e)
    multiplier, shift = scale_arguments(scale * 1e3, 1e-3)
    assert 2**31 <= multiplier < 2**32
    assert 0 <= shift <= 127
    assert multiplier * 2.0 ** -(30 + shift) == pytest.approx(unit, rel=2**-31, abs=0)


def test_a_multiplier_that_rounds_up_to_the_next_power_stays_in_its_bits():
    scale = (1 - 2**-40) / math.log2(math.e)
    assert scale_arguments(scale, 1.0) == (2**31, 1)


def test_scales_whose_product_is_no_normal_number_are_still_represented():
    assert scale_arguments(2.0**-600, 2.0**-500, 2.0**-1020) == scale_arguments(2.0**-80, 1.0)


@pytest.mark.parametrize("scales", [(4.0, 1.0), (2.0**-60, 2.0**-68), (1.0, 1.0, 0.01)])
def test_units_beyond_the_arguments_are_refused(scales):
    with pytest.raises(ValueError, match=r"must be in 2\^-126\.\.2\^2 for the log-sum-exp, got "):
        scale_arguments(*scales)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_scales_that_are_not_positive_and_finite_are_refused(place, value):
    scales = [1e-3, 1e-3, 1.0]
    scales[place] = value
    name = ("weight_scale", "hidden_scale", "temperature")[place]
    with pytest.raises(ValueError, match=f"{name} must be positive and finite, got {value}"):
        scale_arguments(*scales)


@pytest.mark.parametrize("exponent", [2040, -2040, 4095, -4096])
def test_exponents_that_clamped_scores_may_have_are_out_of_range(exponent):
    with pytest.raises(ValueError, match=f"vector 1 is out of range.*got {exponent}"):
        logsumexp([0, exponent], [1, 2**20])


def test_logits_that_are_clamped_are_found_out():
    for logit in (1500.0, -1500.0):
        with pytest.raises(ValueError, match="out of range"):
            summed(scores_of([logit], 1e-6), 1e-3, 1e-3)
    for logit in (1400.0, -1400.0):
        assert summed(scores_of([logit], 1e-6), 1e-3, 1e-3) == pytest.approx(logit, abs=1e-5)
