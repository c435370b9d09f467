"""The real SmolLM2 head on reference states with their exact best tokens and logits."""

import hashlib
import json

import numpy as np
import pytest

from host.checks.verify import golden_results, mismatches
from host.demo import model_file
from host.driver import Head
from host.jobs.hidden import quantise_hidden
from host.jobs.parameters import prepare_vectors
from host.pack import PackOptions, pack
from hw.config import HeadConfig
from sim.device import SimDevice
from tests.host import smollm2
from tests.host.model_files import write_bf16

K = 64
SUBSET = slice(5, None, 32)
LARGEST_LOGIT_ERROR = 0.005
LARGEST_BIASED_LOGIT_ERROR = 0.01


def logits(scores, hidden):
    _, scales = quantise_hidden(hidden.astype(np.float64), 16)
    return scores * smollm2.image().weight_scale * scales[:, None]


@pytest.fixture(scope="module")
def golden():
    return golden_results(smollm2.image(), smollm2.states()["hidden"], K, 16)


def test_the_data_are_of_the_installed_model():
    provenance = json.loads((smollm2.DATA / "provenance.json").read_text())
    with open(model_file(), "rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == provenance["gguf_sha256"]
    assert smollm2.image().source.tensor_sha256 == provenance["tensor_raw_sha256"]
    states = (smollm2.DATA / provenance["states"]["file"]).read_bytes()
    assert hashlib.sha256(states).hexdigest() == provenance["states"]["sha256"]


def test_the_head_is_packed_without_loss():
    image = smollm2.image()
    assert image.quantisation.exact
    assert (image.rows, image.dim, image.layout.beats) == (49152, 576, 470_016)


def test_the_eight_best_tokens_and_their_order_are_exact_in_every_state(golden):
    ids, _ = golden
    assert (ids[:, :8] == smollm2.states()["top_ids"][:, :8]).all()


def test_every_returned_logit_is_within_5_thousandths_of_the_exact_one(golden):
    _, scores = golden
    states = smollm2.states()
    errors = np.abs(logits(scores, states["hidden"]) - states["top_logits"])
    assert errors.max() < LARGEST_LOGIT_ERROR


@pytest.fixture(scope="module")
def biased():
    """Golden ids and logits of the head with an added bias, and float64's of all rows."""
    image, hidden = smollm2.biased_image(), smollm2.states()["hidden"]
    ids, scores = golden_results(image, hidden, K, 16)
    vectors = prepare_vectors(image, hidden, 16)
    assert (vectors.losses == 1).all()
    units = image.weight_scale * vectors.scales[:, None]
    parts = [
        hidden.astype(np.float64) @ smollm2.image().dequantise(start, stop).astype(np.float64).T
        for start, stop in image.chunks()
    ]
    return ids, scores * units, np.concatenate(parts, axis=1) + smollm2.bias(), units


def test_weights_of_16_bits_keep_a_bf16_head_fifty_times_as_precisely(tmp_path):
    image = smollm2.image()
    values = image.dequantise(0, image.rows).view(np.uint32)
    # To the nearest bfloat16, ties to even; the rest of the word is cut off on writing.
    rounded = (values + (values >> 16 & 1) + np.uint32(0x7FFF)).view(np.float32)
    model = write_bf16(tmp_path / "m.safetensors", "lm_head.weight", rounded)
    errors = {}
    for bits in (8, 16):
        report = pack(model, tmp_path / "head.safetensors", PackOptions(weight_bits=bits))
        errors[bits] = report.quantisation.rms_relative_error
    assert errors[8] == pytest.approx(1.41e-3, rel=0.01)
    assert errors[16] == pytest.approx(2.71e-5, rel=0.01)


def test_a_bias_leaves_the_weights_exact():
    image = smollm2.biased_image()
    assert image.quantisation.exact
    assert (image.source.tensor, image.source.bias) == ("token_embd.weight", "output.bias")
    assert (np.abs(image.bias(0, image.rows) - smollm2.bias()) <= image.bias_unit / 2).all()


def test_with_a_bias_the_best_token_is_exact_wherever_the_gap_exceeds_the_bias_error(biased):
    ids, _, exact, units = biased
    largest = np.abs(smollm2.bias()).max()
    error = largest / 65534 + units[:, 0] / 2 * 32767
    assert error.max() < 0.001
    best = np.sort(exact, axis=1)[:, -2:]
    clear = best[:, 1] - best[:, 0] > 2 * error
    assert clear.sum() >= 120
    assert (ids[:, 0] == exact.argmax(axis=1))[clear].all()


def test_with_a_bias_every_returned_logit_is_within_a_hundredth_of_the_exact_one(biased):
    ids, logits, exact, _ = biased
    errors = np.abs(logits - np.sort(exact, axis=1)[:, ::-1][:, :K])
    assert errors.max() < LARGEST_BIASED_LOGIT_ERROR
    assert (np.abs(logits - np.take_along_axis(exact, ids, axis=1)) < 0.01).all()
    # The bias matters: without it other tokens are best.
    assert (ids[:, 0] != smollm2.states()["top_ids"][:, 0]).sum() > 30


def test_the_accelerator_returns_the_golden_top_64():
    image = smollm2.image()
    hidden = smollm2.states()["hidden"][SUBSET]
    with SimDevice(HeadConfig(**image.config_fields)) as device:
        results = Head(device, image).run(hidden, K)
    assert not len(mismatches(results, *golden_results(image, hidden, K, 16)))
    assert (results.logits == logits(results.scores, hidden)).all()
    assert (results.ids[:, :8] == smollm2.states()["top_ids"][SUBSET, :8]).all()
    # At 40 cycles of latency the memory never waits: 2 in 1000 beats, and 500 cycles of start.
    assert results.counters["cycles"].max() <= 1.002 * image.layout.beats + 500
