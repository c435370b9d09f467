"""The real SmolLM2 head on reference states with their exact best tokens and logits."""

import hashlib
import json

import numpy as np
import pytest

from host.demo import model_file
from host.driver import Head
from host.hidden import quantise_hidden
from host.verify import golden_results, mismatches
from hw.config import HeadConfig
from sim.device import SimDevice
from tests.host import smollm2

K = 64
SUBSET = slice(5, None, 32)
LARGEST_LOGIT_ERROR = 0.005


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
