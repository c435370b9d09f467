"""Multipliers of hidden states, against the definitions in exact arithmetic."""

import warnings
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from host.errors import UserError
from host.jobs.logsumexp import scale_arguments
from host.jobs.parameters import check_temperature, prepare_vectors

LARGEST = 2**32 - 1
RNG = np.random.default_rng(6)
HIDDEN = RNG.normal(size=(6, 40)) * np.logspace(-3, 3, 6)[:, np.newaxis]


def image(bias=None, bound=None, weight_scale=1e-5):
    """What of an image the parameters depend on; `bias` and `bound` are units."""
    return SimpleNamespace(
        path=Path("head.safetensors"),
        dim=40,
        config_fields={"bias": bias is not None, "bound": bound is not None},
        weight_scale=weight_scale,
        bias_unit=bias,
        bound_unit=bound,
    )


def unit_of(image, vectors, state):
    return Fraction(image.weight_scale) * Fraction(vectors.scales[state])


def test_without_terms_all_parameters_are_zero():
    vectors = prepare_vectors(image(), HIDDEN, 16)
    assert not vectors.parameters.view("<u4").any()
    assert (vectors.losses == 1).all()
    assert np.abs(vectors.quantised).max(axis=1).tolist() == [32767] * 6


def test_the_bias_multiplier_is_the_nearest_number_of_score_units():
    some = image(bias=3e-4)
    vectors = prepare_vectors(some, HIDDEN, 16)
    for state in range(6):
        exact = Fraction(3e-4) / unit_of(some, vectors, state)
        assert abs(int(vectors.parameters["bias"][state]) - exact) <= Fraction(1, 2) + exact / 2**50


def test_the_bound_multiplier_is_never_below_the_promise():
    some = image(bound=2e-6)
    vectors = prepare_vectors(some, HIDDEN, 16)
    for state in range(6):
        square = sum(Fraction(value) ** 2 for value in HIDDEN[state])
        multiplier = int(vectors.parameters["bound"][state])
        unit = Fraction(2e-6) / unit_of(some, vectors, state)
        assert multiplier**2 >= unit**2 * square
        assert (multiplier - 1) ** 2 < unit**2 * square * (1 + Fraction(1, 2**40))


@pytest.mark.parametrize("terms", [{"bias": 1.0}, {"bound": 1.0}, {"bias": 1.0, "bound": 1e-3}])
def test_a_multiplier_that_does_not_fit_raises_the_hidden_scale(terms):
    some = image(weight_scale=1e-7, **terms)
    hidden = np.array([[1e-4] * 40, [1e5] * 40])
    vectors = prepare_vectors(some, hidden, 16)
    plain = prepare_vectors(image(), hidden, 16)
    largest = max(int(vectors.parameters[name][0]) for name in terms)
    if "bias" in terms:
        assert LARGEST * 0.999 < largest <= LARGEST
        assert vectors.losses[0] > 1 and vectors.losses[1] == 1
    assert (vectors.scales == plain.scales * vectors.losses).all()
    for state in range(2):
        rounded = np.rint(hidden[state] / vectors.scales[state])
        assert vectors.quantised[state].tolist() == rounded.tolist()


@pytest.mark.parametrize("unit", 10.0 ** np.arange(-12, 12, 0.5))
def test_no_multiplier_wraps(unit):
    for bias, bound in ((unit, None), (None, unit), (unit, unit)):
        some = image(bias, bound, weight_scale=1e-9)
        vectors = prepare_vectors(some, HIDDEN, 16)
        for state in range(6):
            score = unit_of(some, vectors, state)
            if bias:
                found = int(vectors.parameters["bias"][state])
                assert abs(found * score - Fraction(unit)) <= score * (
                    Fraction(1, 2) + found / 2**45
                )
            if bound:
                square = sum(Fraction(value) ** 2 for value in HIDDEN[state])
                assert (
                    int(vectors.parameters["bound"][state]) * score / Fraction(unit)
                ) ** 2 >= square


def test_a_zero_state_loses_nothing():
    vectors = prepare_vectors(image(bias=1e9, bound=1.0), np.zeros((1, 40)), 16)
    assert vectors.losses.tolist() == [1]
    assert not vectors.quantised.any()
    assert vectors.parameters["bound"].tolist() == [0]
    assert 0 < vectors.parameters["bias"][0] <= LARGEST


def test_a_state_too_large_for_its_bound_names_its_row():
    hidden = np.array([[1.0] * 40, [1e307] * 40])
    message = (
        r"hidden: row 1 is too large for the row terms of head\S+ \(expected a Euclidean norm "
        r"below 1\.8e\+304, found a largest magnitude of 1e\+307\)"
    )
    with warnings.catch_warnings(), pytest.raises(UserError, match=message):
        warnings.simplefilter("error")
        prepare_vectors(image(weight_scale=1e-4, bound=1.0), hidden, 16)


def test_the_log_sum_exp_gets_its_unit_with_the_temperature_of_each_state():
    temperatures = np.linspace(0.5, 2, 6)
    some = image(bias=1e-3)
    vectors = prepare_vectors(some, HIDDEN, 16, temperatures)
    for state in range(6):
        expected = scale_arguments(some.weight_scale, vectors.scales[state], temperatures[state])
        found = vectors.parameters[state]
        assert (found["multiplier"], found["shift"]) == expected


def test_a_unit_out_of_range_names_its_state():
    hidden = HIDDEN.copy()
    hidden[4] *= 1e12
    with pytest.raises(UserError, match="logsumexp: of state 4: weight_scale"):
        prepare_vectors(image(), hidden, 16, 1.0)


@pytest.mark.parametrize("temperature", [0, -1, np.nan, np.inf, [1.0, 0.0], "hot", None])
def test_a_temperature_that_is_no_positive_number_is_refused(temperature):
    with pytest.raises(UserError, match="^temperature: must be"):
        check_temperature(temperature, 2)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1)])
def test_temperatures_of_another_number_of_states_are_refused(shape):
    with pytest.raises(UserError, match=r"one for each state \(expected \[2\], found \["):
        check_temperature(np.ones(shape), 2)
