"""Examples worked by hand, from a matrix in a file to probabilities, on the simulated hardware."""

import dataclasses
import json

import numpy as np
import pytest

from host.sampling import NotCoveredError, Sampling, log_probabilities, softmax
from hw.config import HeadConfig

from .model_files import write_model

# The hardware of other tests, whose simulator is there.
from .test_functions_simulated import QUEUED

# A hidden value is off by at most half a step, 2 / 32767 / 2 = 3.1e-5, and a scale by 2^-17 of
# itself. In probabilities, which add up to 1, errors of logits shrink.
TOLERANCE = 6e-5


@pytest.fixture
def simulated(run, tmp_path):
    """Pack models for that hardware and simulate one state on it; report and arrays."""
    (tmp_path / "hardware.json").write_text(json.dumps(dataclasses.asdict(QUEUED)))
    hardware = ["--config", tmp_path / "hardware.json"]

    def simulated(models, state, *arguments):
        images = []
        for n, (model, *options) in enumerate(models):
            images.append(tmp_path / f"image{n}.safetensors")
            assert run("pack", model, *options, "-o", images[-1], *hardware)[0] == 0
        np.save(tmp_path / "hidden.npy", np.array([state], np.float32))
        options = ["--hidden", tmp_path / "hidden.npy", "--json", "-o", tmp_path / "out.npz"]
        code, out, _ = run("simulate", *images, *options, "--check", *hardware, *arguments)
        assert code == 0
        report = json.loads(out)
        shards = report.get("shards", [report])
        assert all(HeadConfig(**shard["config"]) == QUEUED for shard in shards)
        with np.load(tmp_path / "out.npz") as saved:
            return report, dict(saved)

    return simulated


@pytest.fixture
def example(tmp_path):
    """The rows (1, 0), (0, 1) and (-1, 0), with the bias that this hardware asks for."""
    weight = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    np.savez(tmp_path / "example.npz", weight=weight, bias=np.zeros(3))
    np.save(tmp_path / "ids.npy", np.array([1]))
    return tmp_path / "example.npz"


@pytest.mark.parametrize("ranges", [[":"], [":1", "1:"]], ids=["whole", "sharded"])
def test_the_worked_example_gives_its_probabilities(simulated, example, tmp_path, ranges):
    models = [(example, "--rows", rows) for rows in ranges]
    options = ["-k", 3, "--logsumexp", "--all-logits", "--ids", tmp_path / "ids.npy"]
    report, saved = simulated(models, [1, 2], *options)
    assert report["check"]["mismatches"] == 0
    assert report["check"]["id_scores"] == {"compared": 1, "mismatches": 0}
    assert report["check"]["logsumexp"] == {"compared": 1, "mismatches": 0}
    assert saved["ids"].tolist() == [[1, 0, 2]]
    assert saved["all_logits"] == pytest.approx(np.array([[1, 2, -1]]), abs=TOLERANCE)
    expected = np.array([[0.705385, 0.259496, 0.035119]])
    logs = log_probabilities(saved["logits"], saved["logsumexp"])
    assert np.exp(logs) == pytest.approx(expected, abs=TOLERANCE)
    assert softmax(saved["logits"]) == pytest.approx(expected, abs=TOLERANCE)
    assert -saved["id_logprobs"].item() == pytest.approx(0.349012, abs=TOLERANCE)
    assert report["perplexity"] == pytest.approx(np.exp(0.349012), abs=TOLERANCE)
    shares = Sampling().probabilities(saved["logits"], complete=True)
    assert shares == pytest.approx(expected, abs=TOLERANCE)


def test_two_results_and_the_log_sum_exp_are_enough_for_top_p(simulated, example):
    _, saved = simulated([(example,)], [1, 2], "-k", 2, "--logsumexp")
    found = Sampling(top_p=0.9).probabilities(saved["logits"], saved["logsumexp"])
    both = np.array([[0.705385, 0.259496]]) / (0.705385 + 0.259496)
    assert found == pytest.approx(both, abs=TOLERANCE)
    with pytest.raises(NotCoveredError, match="state 0"):
        Sampling(top_p=0.99).probabilities(saved["logits"], saved["logsumexp"])


def test_a_bias_decides_between_near_equal_rows(simulated, tmp_path):
    np.savez(tmp_path / "m.npz", weight=np.array([[1.0], [0.9]]), bias=np.array([0, 0.2]))
    report, _ = simulated([(tmp_path / "m.npz",)], [1], "-k", 2)
    assert report["results"][0]["ids"] == [1, 0]
    assert report["results"][0]["logits"] == pytest.approx([1.1, 1.0], abs=5e-3)


def test_a_softcap_comes_after_the_ranking(simulated, tmp_path):
    config = {"hidden_size": 1, "vocab_size": 2, "final_logit_softcapping": 30.0}
    tensors = {"lm_head.weight": np.array([[124], [200]], np.float32)}
    tensors["lm_head.bias"] = np.zeros(2, np.float32)
    write_model(tmp_path / "model", tensors, config)
    report, _ = simulated([(tmp_path / "model",)], [1], "-k", 2)
    assert report["results"][0]["ids"] == [1, 0]
    assert report["results"][0]["model_logits"] == pytest.approx([29.9999, 29.9846], abs=1e-4)
