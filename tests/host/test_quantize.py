import numpy as np
import pytest

from host.image.quantize import (
    ExactScales,
    Quantiser,
    quantise_bias,
    quantise_bound,
    round_weights,
    why_not_exact,
)
from host.sources.head import IntegerForm
from hw.config import HeadConfig

FORMATS = [
    HeadConfig(weight_bits=weight, scale_bits=scale, scale_signed=signed, group=group)
    for weight in (4, 8, 16)
    for scale in (8, 16)
    for signed in (False, True)
    for group in (32, 128, 0)
]


def groups(*rows):
    """Rows as one group each."""
    return np.array(rows, np.float32)[:, np.newaxis]


def test_weights_are_clipped_to_a_symmetric_range():
    assert round_weights(np.array([127.6, -127.6]), 1.0, 8).tolist() == [127, -127]
    assert round_weights(np.array([9.0, -9.0]), 1.0, 4).tolist() == [7, -7]
    assert round_weights(np.array([32767.6, -32767.6]), 1.0, 16).tolist() == [32767, -32767]


def test_weights_are_rounded_to_nearest_and_ties_to_even():
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49, 0.51])
    assert round_weights(values, 1.0, 8).tolist() == [0, 2, 2, 0, -2, 0, 1]


@pytest.mark.parametrize("config", FORMATS, ids=str)
def test_the_stored_integers_follow_from_the_definition(config):
    rng = np.random.default_rng(5)
    values = (rng.standard_normal((70, 3, 96)) * rng.exponential(1, (70, 3, 1))).astype(np.float32)
    values[7] = 0
    quantiser = Quantiser(config, np.abs(values).max())
    weights, scales = quantiser.quantise(values)

    limit = 2 ** (config.weight_bits - 1) - 1
    largest_scale = 2 ** (config.scale_bits - config.scale_signed) - 1
    exact = values.astype(np.float64)
    wanted = np.abs(exact).max(-1) / limit
    assert quantiser.weight_scale == pytest.approx(wanted.max() / largest_scale, rel=1e-15)
    rounded = wanted / quantiser.weight_scale
    # The largest group's quotient is the largest scale but for the rounding of float64.
    rounded = np.minimum((np.ceil if limit == 32767 else np.rint)(rounded), largest_scale)
    assert np.array_equal(scales, np.where(wanted > 0, np.maximum(rounded, 1), 0))
    stored = np.maximum(scales, 1)[..., np.newaxis] * quantiser.weight_scale
    assert np.array_equal(weights, np.clip(np.rint(exact / stored), -limit, limit))

    errors = weights * stored - exact
    result = quantiser.summary()
    rms = np.sqrt((errors**2).sum() / (exact**2).sum())
    assert result.rms_relative_error == pytest.approx(rms, rel=1e-12)
    assert result.max_absolute_error == np.abs(errors).max()
    assert not result.exact


@pytest.mark.parametrize("config", FORMATS, ids=str)
def test_residuals_are_the_distance_of_a_row_from_what_is_stored(config):
    rng = np.random.default_rng(6)
    values = (rng.standard_normal((70, 3, 96)) * rng.exponential(1, (70, 3, 1))).astype(np.float32)
    values[7] = 0
    quantiser = Quantiser(config, np.abs(values).max())
    residuals = np.empty(70)
    weights, scales = quantiser.quantise(values, residuals)
    expected = Quantiser(config, np.abs(values).max()).quantise(values)
    assert all(map(np.array_equal, (weights, scales), expected))
    stored = weights * (scales * quantiser.weight_scale)[..., np.newaxis]
    exact = np.sqrt(((values.astype(float) - stored) ** 2).sum(axis=(1, 2)))
    assert (residuals >= exact).all()
    assert residuals == pytest.approx(exact, rel=1e-8)
    assert residuals[7] == 0


def test_no_weight_of_16_bits_is_clipped():
    rng = np.random.default_rng(7)
    values = (rng.standard_normal((500, 1, 32)) * rng.exponential(1, (500, 1, 1))).astype(
        np.float32
    )
    quantiser = Quantiser(HeadConfig(weight_bits=16), np.abs(values).max())
    weights, scales = quantiser.quantise(values)
    assert weights.dtype == np.int16
    steps = scales[..., np.newaxis] * quantiser.weight_scale
    assert (np.abs(weights * steps - values) <= steps * 0.5000001).all()
    assert quantiser.summary().rms_relative_error < 4e-5


def test_a_bias_is_stored_to_the_nearest_of_65535_values():
    rng = np.random.default_rng(8)
    bias = rng.standard_normal(5000)
    bias[17] = -9
    term = quantise_bias(bias)
    assert term.values.dtype == np.int16
    assert term.unit == 9 / 32767
    assert np.array_equal(term.values, np.rint(bias * (32767 / 9)))
    assert term.values[17] == -32767
    assert np.abs(term.values * term.unit - bias).max() <= 9 / 65534 * (1 + 1e-12)


@pytest.mark.parametrize("quantise", [quantise_bias, quantise_bound])
@pytest.mark.parametrize("largest", [1e-320, 1e-300, 1 / 3, 1e300])
def test_terms_of_any_size_stay_in_range(quantise, largest):
    term = quantise(np.array([largest, 0.0, largest / 2]))
    assert 0 < term.unit < np.inf
    assert term.values.min() == 0
    assert term.values[0] == 32767 or largest < 1e-300


@pytest.mark.parametrize("quantise", [quantise_bias, quantise_bound])
def test_terms_that_are_all_zero_have_the_smallest_unit(quantise):
    term = quantise(np.zeros(3))
    assert (term.unit, term.values.tolist()) == (np.finfo(float).tiny, [0, 0, 0])


def test_a_bound_is_never_rounded_down():
    rng = np.random.default_rng(9)
    for _ in range(200):
        residuals = rng.exponential(1, 300) * rng.exponential(1)
        residuals[:5] = residuals.max() * np.array([1, 1 / 32767, 0.5, 3 / 32767, 0])
        term = quantise_bound(residuals)
        # Within the float64 rounding that the residuals' own margin covers.
        assert (term.values * term.unit >= residuals * (1 - 2**-50)).all()
        assert (term.values * term.unit <= residuals + term.unit * (1 + 1e-9)).all()
        assert term.values.max() == 32767


def test_the_largest_group_has_the_largest_scale():
    config = HeadConfig(scale_bits=8)
    _, scales = Quantiser(config, 4.0).quantise(groups([1.0, -4.0], [2.0, 0.5]))
    assert scales.tolist() == [[255], [128]]


def test_a_tiny_row_keeps_a_scale_above_zero():
    weights, scales = Quantiser(HeadConfig(scale_bits=8), 1.0).quantise(groups([1.0], [1e-6]))
    assert scales.tolist() == [[255], [1]]
    assert weights[1] == 0


def test_a_zero_row_is_zero_without_a_warning(recwarn):
    weights, scales = Quantiser(HeadConfig(), 3.0).quantise(groups([-3.0, -1.0], [0.0, 0.0]))
    assert not recwarn.list
    assert not weights[1].any()
    assert scales[1] == 0


def test_an_all_zero_tensor_has_a_weight_scale_of_one():
    quantiser = Quantiser(HeadConfig(), 0.0)
    weights, scales = quantiser.quantise(np.zeros((3, 2, 32), np.float32))
    assert quantiser.weight_scale == 1.0
    assert not weights.any()
    assert not scales.any()
    assert quantiser.summary().rms_relative_error == 0


def exact_scales(config, scales, weights=None):
    scales = np.asarray(scales, np.float16)
    if weights is None:
        weights = np.ones((*scales.shape, 32), np.int8)
    exact = ExactScales(config)
    exact.add(weights, scales)
    return exact, weights, scales


def test_float16_scales_become_integers_times_one_power_of_two():
    scales = [[3 * 2.0**-12, 0.0], [2.0**-10, 5 * 2.0**-11]]
    exact, weights, stored = exact_scales(HeadConfig(), scales)
    assert exact.problem() is None
    assert exact.weight_scale == 2.0**-12
    assert exact.convert(weights, stored)[1].tolist() == [[3, 0], [4, 10]]


def test_subnormal_float16_scales_are_exact():
    exact, weights, stored = exact_scales(HeadConfig(), [[2.0**-24, 1023 * 2.0**-24]])
    assert exact.weight_scale == 2.0**-24
    assert exact.convert(weights, stored)[1].tolist() == [[1, 1023]]


@pytest.mark.parametrize(
    ("bits", "signed", "ratio", "fits"),
    [
        (16, False, 2.0**15, True),
        (16, False, 2.0**16, False),
        (16, False, -(2.0**15), True),
        (16, False, -(2.0**16), False),
        (16, True, 2.0**14, True),
        (16, True, 2.0**15, False),
        (16, True, -(2.0**15), True),
        (16, True, -(2.0**16), False),
        (8, False, 2.0**7, True),
        (8, False, 2.0**8, False),
    ],
)
def test_scales_that_span_too_many_bits_are_reported(bits, signed, ratio, fits):
    config = HeadConfig(scale_bits=bits, scale_signed=signed)
    exact, _, _ = exact_scales(config, [[2.0**-10, ratio * 2.0**-10]])
    assert (exact.problem() is None) == fits
    if not fits:
        assert exact.problem() == f"scales need {bits + 1} bits, {bits} are stored"
        assert exact.max_magnitude == abs(ratio) * 2.0**-10


def test_a_group_with_a_negative_scale_is_negated_for_unsigned_scales():
    weights = np.array([[[5, -127], [1, 2]]], np.int8)
    exact, weights, scales = exact_scales(HeadConfig(), [[-0.5, 0.25]], weights)
    assert exact.problem() is None
    converted, stored = exact.convert(weights, scales)
    assert converted.tolist() == [[[-5, 127], [1, 2]]]
    assert stored.tolist() == [[2, 1]]


def test_the_lowest_weight_is_negated_where_weights_are_wider_than_the_source():
    weights = np.array([[[5, -128], [1, 2]]], np.int8)
    exact, weights, scales = exact_scales(HeadConfig(weight_bits=16), [[-0.5, 0.25]], weights)
    assert exact.problem() is None
    converted, stored = exact.convert(weights, scales)
    assert converted.tolist() == [[[-5, 128], [1, 2]]]
    assert stored.tolist() == [[2, 1]]


def test_a_group_that_cannot_be_negated_is_reported():
    weights = np.array([[[5, -128]]], np.int8)
    assert "cannot be negated" in exact_scales(HeadConfig(), [[-0.5]], weights)[0].problem()
    assert exact_scales(HeadConfig(scale_signed=True), [[-0.5]], weights)[0].problem() is None
    assert exact_scales(HeadConfig(), [[0.5]], weights)[0].problem() is None


@pytest.mark.parametrize(
    ("form", "config", "reason"),
    [
        (IntegerForm(8, 32, False), HeadConfig(), None),
        (IntegerForm(8, 32, False), HeadConfig(weight_bits=16), None),
        (IntegerForm(16, 0, False), HeadConfig(weight_bits=16), None),
        (IntegerForm(16, 0, False), HeadConfig(), "weights of 16 bits do not fit 8"),
        (IntegerForm(4, 32, True), HeadConfig(), None),
        (IntegerForm(8, 0, False), HeadConfig(group=64), None),
        (IntegerForm(8, 0, False), HeadConfig(group=0), None),
        (IntegerForm(8, 32, False), HeadConfig(weight_bits=4), "weights of 8 bits do not fit 4"),
        (IntegerForm(8, 32, False), HeadConfig(group=64), "groups of 32 do not make groups of 64"),
        (IntegerForm(8, 32, False), HeadConfig(group=0), "groups of 32 do not make whole rows"),
    ],
)
def test_formats_that_cannot_take_a_source_over_are_named(form, config, reason):
    assert why_not_exact(form, config) == reason
