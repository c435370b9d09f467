"""Scores of given rows against the golden model."""

import numpy as np
import pytest

from host.errors import UserError
from host.image import save_image
from host.jobs.parameters import prepare_vectors
from host.scoring import score_ids
from hw.config import WHOLE_ROW, HeadConfig
from sim import golden

RNG = np.random.default_rng(5)
ROWS, DIM = 90, 70


def image_of(folder, **parameters):
    """A random image with the terms that `parameters` ask for, and its stored integers."""
    config = HeadConfig(bus_bits=64, max_dim=DIM, max_rows=ROWS, **parameters)
    half = 1 << config.weight_bits - 1
    weights = RNG.integers(-half, half, (ROWS, DIM))
    scales = RNG.integers(1, 1 << 16, (ROWS, config.groups(DIM)))
    terms = RNG.integers(-(1 << 15), 1 << 15, (ROWS, config.terms))
    path = folder / "head.safetensors"
    image = save_image(
        path, config, weights, scales, 2.0**-24, terms=terms, bias_unit=1e-3, bound_unit=2e-6
    )
    return image, weights, scales, terms


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"weight_bits": 4, "group": WHOLE_ROW, "channels": 4, "tile_rows": 16},
        {"weight_bits": 16, "bias": True, "bound": True, "channels": 2},
        {"bound": True},
    ],
)
def test_scores_of_ids_are_those_of_the_golden_model(tmp_path, parameters):
    image, weights, scales, terms = image_of(tmp_path, **parameters)
    hidden = RNG.normal(size=(3, DIM))
    ids = np.array([[0, 89, 5, 5], [17, 16, 15, 64], [3, 4, 5, 6]])
    found = score_ids(image, hidden, ids)
    vectors = prepare_vectors(image, hidden, 16)
    bias = {}
    if parameters.get("bias"):
        bias = {"bias": terms[:, 0], "bias_multipliers": vectors.parameters["bias"]}
    group = image.layout.config.group
    expected = golden.scores(weights, scales, vectors.quantised, group, **bias)
    assert (found.scores == np.take_along_axis(expected, ids, axis=1)).all()
    logits = found.scores * image.weight_scale * vectors.scales[:, None]
    assert (found.logits == logits).all()


def test_one_list_of_ids_is_for_all_states_and_may_be_empty(tmp_path):
    image, *_ = image_of(tmp_path)
    hidden = RNG.normal(size=(2, DIM))
    assert score_ids(image, hidden, [7, 8]).ids.tolist() == [[7, 8], [7, 8]]
    assert score_ids(image, hidden, np.zeros((2, 0), int)).scores.shape == (2, 0)
    assert score_ids(image, hidden, []).scores.shape == (2, 0)


def test_hidden_bits_of_no_hardware_are_refused(tmp_path):
    image, *_ = image_of(tmp_path)
    with pytest.raises(ValueError, match=r"hidden_bits must be one of \(8, 16\), got 12"):
        score_ids(image, RNG.normal(size=(2, DIM)), [1], hidden_bits=12)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[1.5]], "ids: must be integers"),
        ([[1], [2], [3]], r"expected \[2, M\] or \[M\], found \[3, 1\]"),
        ([[1, 2], [3, 90]], r"place 1 of state 1 is no row of the image.*0\.\.89.*90"),
        ([-1], r"place 0 of state 0 is no row"),
    ],
)
def test_wrong_ids_are_named(tmp_path, ids, message):
    image, *_ = image_of(tmp_path)
    with pytest.raises(UserError, match=message):
        score_ids(image, RNG.normal(size=(2, DIM)), np.array(ids))
