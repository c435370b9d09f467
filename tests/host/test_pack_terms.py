"""Bias and bound from the model file to the golden model's results."""

import json

import numpy as np
import pytest

from host.checks.verify import golden_results
from host.errors import UserError
from host.image import Image, tiles
from host.jobs.parameters import prepare_vectors
from host.pack import PackOptions, pack
from sim import golden

from .model_files import q4_0, q8_0, random_matrix, write_gguf, write_model

W = random_matrix(150, 64)
BIAS = np.random.default_rng(2).standard_normal(150) * 3


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Several chunks even for tiny matrices."""
    monkeypatch.setattr(tiles.row_chunks, "__defaults__", (4096,))


def pack_arrays(folder, options=None, **arrays):
    np.savez(folder / "w.npz", **arrays)
    report = pack(folder / "w.npz", folder / "head.safetensors", options)
    image = Image(folder / "head.safetensors")
    image.verify()
    return report, image


def test_a_bias_decides_the_order_of_near_equal_logits(tmp_path):
    weight = np.array([[1.0], [0.9]])
    state = np.array([[1.0]])
    for bias, best in (([0, 0.2], 1), ([0, 0.05], 0)):
        _, image = pack_arrays(tmp_path, weight=weight, bias=np.array(bias))
        ids, _ = golden_results(image, state, 2, 16)
        assert ids.tolist() == [[best, 1 - best]]
    _, image = pack_arrays(tmp_path, PackOptions(bias=False), weight=weight, bias=np.array([0, 1]))
    assert golden_results(image, state, 1, 16)[0].item() == 0


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("bound", [False, True])
def test_the_bias_is_packed_where_the_model_has_one(tmp_path, channels, bound):
    options = PackOptions(channels=channels, bound=bound, tile_rows=16, width=32, bus_bits=256)
    report, image = pack_arrays(tmp_path, options, weight=W, bias=BIAS)
    assert image.config.bias
    assert image.source.bias == report.source.bias == "bias"
    assert image.bias_unit == np.abs(BIAS).max() / 32767
    assert np.abs(image.bias(0, 150) - BIAS).max() <= image.bias_unit / 2 * (1 + 1e-9)
    assert np.array_equal(image.bias(37, 101), image.bias(0, 150)[37:101])
    # What else is stored is the same as without.
    plain = PackOptions(bias=False)
    _, without = pack_arrays(tmp_path, plain, weight=W, bias=BIAS)
    assert without.source.bias is None
    assert not without.config.terms
    assert all(map(np.array_equal, image.read_rows(0, 150), without.read_rows(0, 150)))


def test_a_bias_that_is_asked_for_must_be_there(tmp_path):
    with pytest.raises(UserError, match=r"w\.npz: no bias to pack with --bias \(expected an array"):
        pack_arrays(tmp_path, PackOptions(bias=True), weight=W)
    assert not (tmp_path / "head.safetensors").exists()
    _, image = pack_arrays(tmp_path, PackOptions(bias=True), weight=W, bias=BIAS)
    assert image.config.bias


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bias_that_is_not_finite_leaves_no_image(tmp_path, value):
    bad = BIAS.copy()
    bad[133] = value
    with pytest.raises(ValueError, match=r"w\.npz: tensor bias: row 133 holds a value"):
        pack_arrays(tmp_path, weight=W, bias=bad)
    assert not (tmp_path / "head.safetensors").exists()
    pack_arrays(tmp_path, PackOptions(bias=False), weight=W, bias=bad)


def test_an_all_zero_bias_is_packed(tmp_path):
    report, image = pack_arrays(tmp_path, weight=W, bias=np.zeros(150))
    assert not image.bias(0, 150).any()
    assert report.bias == {"unit": image.bias_unit, "largest": 0.0}
    vectors = prepare_vectors(image, np.ones((1, 64)), 16)
    assert (vectors.losses, vectors.parameters["bias"]) == ([1], [0])


def test_a_tied_model_keeps_its_bias(tmp_path):
    tensors = {"transformer.w.weight": W, "lm_head.bias": BIAS.astype(np.float32)}
    folder = write_model(tmp_path / "m", tensors, {"n_embd": 64, "vocab_size": 150})
    report = pack(folder, tmp_path / "head.safetensors")
    image = Image(tmp_path / "head.safetensors")
    assert (image.source.tied, image.source.bias) == (True, "lm_head.bias")
    assert "bias     tensor lm_head.bias: largest" in str(report)
    assert np.abs(image.bias(0, 150) - BIAS).max() < 1e-3


def test_rows_that_are_left_out_do_not_set_the_unit_of_the_bias(tmp_path):
    bias = BIAS.astype(np.float32)
    bias[149] = 1e6
    tensors = {"output.weight": (W, None), "output.bias": (bias, None)}
    source = write_gguf(tmp_path / "m.gguf", tensors, tokens=["a"] * 140)
    pack(source, tmp_path / "head.safetensors")
    image = Image(tmp_path / "head.safetensors")
    assert image.rows == 140
    assert np.abs(image.bias(0, 140) - bias[:140]).max() < 1e-3


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_the_error_of_a_bias_stays_below_its_bound(tmp_path, scale):
    _, image = pack_arrays(tmp_path, weight=W, bias=BIAS * scale)
    states = random_matrix(40, 64, seed=3) * np.logspace(-3, 3, 40)[:, np.newaxis]
    vectors = prepare_vectors(image, states, 16)
    terms = image.read_terms(0, 150)[:, 0]
    added = golden.products(terms, vectors.parameters["bias"], 150, 40)
    units = image.weight_scale * vectors.scales[:, np.newaxis]
    errors = np.abs(added * units - BIAS * scale)
    largest = np.abs(BIAS * scale).max()
    bounds = largest / 65534 + units / 2 * np.abs(terms.astype(int)).max()
    assert (errors <= bounds * (1 + 1e-9)).all()
    # The score with the bias is what the golden model ranks by.
    ids, scores = golden_results(image, states, 1, 16)
    plain = golden.scores(*image.read_rows(0, 150), vectors.quantised, 32)
    assert np.array_equal(scores[:, 0], (plain + added).max(axis=1))
    assert np.array_equal(ids[:, 0], (plain + added).argmax(axis=1))


@pytest.mark.parametrize("weight_bits", [4, 8, 16])
@pytest.mark.parametrize("group", [32, 0])
def test_a_bound_holds_for_the_worst_state_of_every_row(tmp_path, weight_bits, group):
    options = PackOptions(weight_bits=weight_bits, group=group, bound=True)
    report, image = pack_arrays(tmp_path, options, weight=W)
    weights, scales = image.read_rows(0, 150)
    steps = np.repeat(scales, group or 64, axis=1) * image.weight_scale
    residuals = W.astype(float) - weights * steps
    norms = np.sqrt((residuals**2).sum(axis=1))
    bound = image.bound(0, 150)
    # A state along the residual is the worst there is: its error is the residual's length.
    assert (np.einsum("ij,ij->i", residuals, residuals / norms[:, np.newaxis]) <= bound).all()
    assert (bound <= norms * (1 + 1e-8) + image.bound_unit).all()
    assert report.bound == {"unit": image.bound_unit, "largest": bound.max()}
    assert "bound    of a row's distance from its source: largest" in str(report)


def test_exact_images_have_bounds_of_zero(tmp_path):
    blocks = q8_0(np.ones((9, 32)), np.ones((9, 1)))
    source = write_gguf(tmp_path / "m.gguf", {"output.weight": blocks})
    pack(source, tmp_path / "head.safetensors", PackOptions(bound=True))
    image = Image(tmp_path / "head.safetensors")
    assert image.config.bound
    assert not image.bound(0, 9).any()


def test_results_are_ordered_by_score_and_bound(tmp_path):
    options = PackOptions(weight_bits=4, group=0, scale_bits=8, bound=True, channels=2)
    _, image = pack_arrays(tmp_path, options, weight=W, bias=BIAS / 10)
    states = random_matrix(20, 64, seed=5).astype(float)
    vectors = prepare_vectors(image, states, 16)
    terms = image.read_terms(0, 150).astype(int)
    plain = golden.scores(*image.read_rows(0, 150), vectors.quantised, 0)
    scores = plain + terms[:, 0] * vectors.parameters["bias"][:, np.newaxis].astype(int)
    ranks = scores + terms[:, 1] * vectors.parameters["bound"][:, np.newaxis].astype(int)
    allowed = np.random.default_rng(0).random((20, 150)) < 0.5
    ids, found = golden_results(image, states, 12, 16, allowed=allowed)
    for n in range(20):
        order = sorted(np.flatnonzero(allowed[n]), key=lambda row: (-ranks[n, row], row))[:12]
        assert ids[n].tolist() == order
        assert found[n].tolist() == scores[n, order].tolist()
    # No row left out can be the best: its upper bound is below what the best is at least.
    units = (image.weight_scale * vectors.scales)[:, np.newaxis]
    exact = states @ W.T.astype(float) + BIAS / 10
    rounding = 1e-3 * np.abs(states).sum(axis=1, keepdims=True)
    assert (ranks * units + rounding >= exact).all()


def test_a_q4_0_block_with_a_negative_scale_is_positive_to_the_end(tmp_path):
    weights = np.array([[-8] * 32, [7] * 32])
    source = write_gguf(
        tmp_path / "m.gguf", {"output.weight": q4_0(weights, np.array([[-0.5], [0.25]]))}
    )
    report = pack(source, tmp_path / "head.safetensors")
    image = Image(tmp_path / "head.safetensors")
    assert report.quantisation.exact
    assert (image.config.weight_bits, image.config.scale_signed) == (4, True)
    assert (image.dequantise(0, 1) == 4.0).all()
    ids, scores = golden_results(image, np.ones(32), 2, 16)
    scale = 1 / 32767
    assert ids.tolist() == [[0, 1]]
    logits = scores * image.weight_scale * scale
    assert logits[0] == pytest.approx([4.0 * 32, 7 * 0.25 * 32], rel=1e-12)


def test_the_report_of_terms_is_json(tmp_path):
    report, _ = pack_arrays(tmp_path, PackOptions(bound=True), weight=W, bias=BIAS)
    plain = json.loads(json.dumps(report.as_dict()))
    assert plain["config"]["bias"] is plain["config"]["bound"] is True
    assert plain["bias"]["largest"] == pytest.approx(np.abs(BIAS).max())
    assert plain["file_bytes"] == (tmp_path / "head.safetensors").stat().st_size
