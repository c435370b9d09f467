"""`unembed simulate`: given ids, their probabilities, and the model's own logits."""

import json

import numpy as np
import pytest

from host.checks import check
from host.commands import simulate
from host.masks import pack_mask
from tests.host.fake_device import FakeDevice

from .command_line import DIM, HIDDEN, ROWS, WEIGHTS, assert_one_line, without_progress
from .model_files import write_model

EXACT = HIDDEN.astype(np.float64) @ WEIGHTS.T
IDS = np.array([[7, 44, 7], [0, 1, 2], [3, 3, 3], [9, 8, 7], [44, 0, 20]])


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    class Device(FakeDevice):
        def __init__(self, config, memory, clock_hz, progress):
            super().__init__(config)

    monkeypatch.setattr(simulate, "SimDevice", Device)


@pytest.fixture
def simulated(run, files):
    """Run `unembed simulate` with --json and --check; the report and the arrays written."""

    def simulated(*arguments, image="head.safetensors"):
        options = ["--hidden", files / "states.npz", "--check", "--json", "-o", files / "out.npz"]
        code, out, _ = run("simulate", files / image, *options, *arguments)
        assert code == 0
        with np.load(files / "out.npz") as saved:
            return json.loads(out), dict(saved)

    return simulated


def packed_model(run, folder, **config):
    """An image of the matrix of other tests, of a model with such a configuration."""
    sizes = {"hidden_size": DIM, "vocab_size": ROWS}
    tensors = {"lm_head.weight": WEIGHTS.astype(np.float32)}
    write_model(folder / "model", tensors, sizes | config)
    image = folder / "model.safetensors"
    assert run("pack", folder / "model", "-o", image, "--bus-bits", 64)[0] == 0
    return image.name


def saved_ids(folder, ids):
    np.save(folder / "ids.npy", ids)
    return folder / "ids.npy"


# Given ids.


def test_given_ids_get_exact_scores_that_are_checked(simulated, files):
    report, saved = simulated("-k", ROWS, "--ids", saved_ids(files, IDS))
    assert report["check"]["id_scores"] == {"compared": 15, "mismatches": 0}
    # The scores of the accelerator, which returned all rows.
    for n, ids in enumerate(IDS):
        places = [saved["ids"][n].tolist().index(row) for row in ids]
        assert saved["id_scores"][n].tolist() == saved["scores"][n, places].tolist()
        assert saved["id_logits"][n].tolist() == saved["logits"][n, places].tolist()
        assert report["results"][n]["id_scores"] == saved["id_scores"][n].tolist()
        assert report["results"][n]["id_logits"] == saved["id_logits"][n].tolist()
    assert saved["id_scores"].dtype == np.int64
    assert "id_logprobs" not in saved and "perplexity" not in report


def test_ids_of_one_dimension_are_one_for_each_state_and_those_of_one_row_for_all(simulated, files):
    _, expected = simulated("--ids", saved_ids(files, np.tile(np.arange(5), (5, 1))))
    _, each = simulated("--ids", saved_ids(files, np.arange(5)))
    assert each["id_scores"].tolist() == np.diag(expected["id_scores"])[:, np.newaxis].tolist()
    _, same = simulated("--ids", saved_ids(files, np.arange(5)[np.newaxis]))
    assert same["id_scores"].tolist() == expected["id_scores"].tolist()
    _, few = simulated("--ids", saved_ids(files, np.arange(5)), "--limit", 2)
    assert few["id_scores"].tolist() == each["id_scores"][:2].tolist()


def test_log_probabilities_and_perplexity_are_those_of_the_whole_vocabulary(simulated, files):
    targets = EXACT.argmax(axis=1)
    targets[1] = 0
    options = ["-k", 2, "--logsumexp", "--temperature", 20, "--ids", saved_ids(files, targets)]
    report, saved = simulated(*options)
    scaled = EXACT / 20
    right = scaled[range(5), targets] - np.logaddexp.reduce(scaled, axis=1)
    assert saved["id_logprobs"][:, 0] == pytest.approx(right, abs=5e-3)
    assert report["perplexity"] == pytest.approx(np.exp(-right.mean()), rel=5e-3)
    assert report["perplexity"] == pytest.approx(np.exp(-saved["id_logprobs"].mean()), rel=1e-12)
    assert [state["id_logprobs"] for state in report["results"]] == saved["id_logprobs"].tolist()


def test_the_table_shows_given_ids_and_the_perplexity(run, files):
    options = ["--hidden", files / "states.npz", "-k", 2, "--ids", saved_ids(files, np.arange(5))]
    _, out, _ = run("simulate", files / "head.safetensors", *options, "--check")
    assert "given id" in out and "its logit" in out and "perplexity" not in out
    assert "5 of id_scores compared, 0 mismatches" in out
    options += ["--logsumexp", "--temperature", 20]
    _, out, _ = run("simulate", files / "head.safetensors", *options)
    assert "logprob" in out
    assert "perplexity of the given ids: " in out and " at temperature 20\n" in out


def test_several_ids_a_state_have_no_perplexity(simulated, files):
    report, saved = simulated("--logsumexp", "--ids", saved_ids(files, IDS), "--temperature", 20)
    assert saved["id_logprobs"].shape == (5, 3)
    assert "perplexity" not in report


def test_an_id_that_the_mask_forbids_is_impossible_and_keeps_its_score(simulated, files):
    allowed = np.ones((5, ROWS), bool)
    allowed[2, 3] = False
    allowed[4] = False
    np.save(files / "mask.npy", pack_mask(allowed))
    ids = saved_ids(files, IDS[:, 0])
    options = ["--mask", files / "mask.npy", "--ids", ids, "--logsumexp", "--temperature", 20]
    report, saved = simulated(*options)
    assert report["check"]["id_scores"]["mismatches"] == 0
    forbidden = [False, False, True, False, True]
    for name in ("id_logits", "id_logprobs"):
        assert np.isneginf(saved[name][:, 0]).tolist() == forbidden
        assert [state[name] == [None] for state in report["results"]] == forbidden
    assert report["perplexity"] is None
    _, whole = simulated("--ids", ids)
    assert saved["id_scores"].tolist() == whole["id_scores"].tolist()


def test_a_wrong_golden_model_of_given_ids_fails_the_check(run, files, monkeypatch):
    right = check.golden_id_scores
    monkeypatch.setattr(check, "golden_id_scores", lambda *given: right(*given) + 1)
    options = ["--hidden", files / "states.npz", "--ids", saved_ids(files, IDS), "--check"]
    code, out, err = run("simulate", files / "head.safetensors", *options)
    assert code == 1
    assert "15 of id_scores compared, 15 mismatches" in out
    assert "mismatch: id_scores, state 0, place 0: the host has" in err


@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        (
            np.arange(4),
            ["does not fit", "with M >= 1, [1, M] for all states, or [5]", "found [4]"],
        ),
        (np.zeros((2, 3), int), ["found [2, 3]"]),
        (np.zeros((5, 1, 1), int), ["found [5, 1, 1]"]),
        (np.zeros((5, 0), int), ["found [5, 0]"]),
        (np.array(7), ["found []"]),
        (np.zeros(5), ["must be integers", "float64"]),
        (np.zeros(5, bool), ["must be integers", "bool"]),
        (np.array([0, 1, ROWS, 3, 4]), ["place 0 of state 2", "0..44", "found 45"]),
        (np.array([[0, -100]]), ["place 1 of state 0", "found -100"]),
    ],
)
def test_ids_that_do_not_fit_name_their_file(run, files, ids, parts):
    options = ["--hidden", files / "states.npz", "--ids", saved_ids(files, ids)]
    code, out, err = run("simulate", files / "head.safetensors", *options)
    assert (code, out) == (1, "")
    assert_one_line(err, files / "ids.npy", *parts)


def test_a_missing_file_of_ids_is_an_error(run, files):
    options = ["--hidden", files / "states.npz", "--ids", files / "none.npy"]
    code, _, err = run("simulate", files / "head.safetensors", *options)
    assert code == 1
    assert_one_line(err, "none.npy", "No such file")


def test_a_temperature_out_of_range_is_told_before_anything_is_built(run, files, monkeypatch):
    monkeypatch.setattr(simulate, "SimDevice", None)
    options = ["--hidden", files / "states.npz", "--logsumexp", "--temperature", 1e-300]
    code, out, err = run("simulate", files / "head.safetensors", *options)
    assert (code, out) == (1, "")
    assert_one_line(err, "logsumexp: of state 0", "temperature")


# What the model does to its logits.


def test_a_model_without_scale_and_cap_has_no_logits_of_its_own(simulated):
    report, saved = simulated("--all-logits")
    assert not [name for name in (*saved, *report["results"][0]) if name.startswith("model")]
    assert (report["logit_scale"], report["softcap"]) == (1, None)


def test_the_softcap_comes_after_the_ranking(run, tmp_path):
    weights = np.zeros((2, 32), np.float32)
    weights[:, 0] = 124, 200
    config = {"hidden_size": 32, "vocab_size": 2, "final_logit_softcapping": 30.0}
    write_model(tmp_path / "model", {"lm_head.weight": weights}, config)
    image = tmp_path / "head.safetensors"
    assert run("pack", tmp_path / "model", "-o", image)[0] == 0
    np.save(tmp_path / "h.npy", np.eye(1, 32))
    options = ["--hidden", tmp_path / "h.npy", "-k", 2, "--all-logits", "-o", tmp_path / "o.npz"]
    code, out, _ = run("simulate", image, *options, "--json")
    assert code == 0
    report = json.loads(out)["results"][0]
    assert report["ids"] == [1, 0]
    assert report["logits"] == pytest.approx([200, 124], rel=1e-4)
    assert report["model_logits"] == pytest.approx([29.9999, 29.9846], abs=1e-4)
    assert report["model_all_logits"] == pytest.approx([29.9846, 29.9999], abs=1e-4)
    with np.load(tmp_path / "o.npz") as saved:
        assert saved["logits"].tolist() == [report["logits"]]
        for name in ("model_logits", "model_all_logits"):
            assert saved[name].tolist() == [report[name]]
    code, out, _ = run("simulate", image, *options)
    assert "model logit" in out and "30.0000" not in out and "29.9999" in out
    assert "model logits: those of the projection times 1, then capped at 30\n" in out


def test_a_softcap_and_a_log_sum_exp_exclude_each_other(run, files):
    image = packed_model(run, files, final_logit_softcapping=30.0)
    options = ["--hidden", files / "states.npz", "--logsumexp"]
    code, out, err = run("simulate", files / image, *options)
    assert (code, out) == (2, "")
    assert_one_line(err, "--logsumexp", files / image, "softcap", "of 30", "--all-logits")


def test_the_models_scale_is_part_of_log_sum_exp_and_log_probabilities(run, simulated, files):
    image = packed_model(run, files, model_type="granite", logits_scaling=20.0)
    ids = saved_ids(files, IDS)
    options = ["-k", 3, "--logsumexp", "--temperature", 2, "--ids", ids, "--all-logits"]
    report, saved = simulated(*options, image=image)
    assert report["check"]["logsumexp"] == {"compared": 5, "mismatches": 0}
    assert report["logit_scale"] == pytest.approx(0.05)
    for name in ("logits", "all_logits", "id_logits"):
        assert saved[f"model_{name}"] == pytest.approx(saved[name] / 20)
        found = [state[f"model_{name}"] for state in report["results"]]
        assert found == saved[f"model_{name}"].tolist()
    totals = np.logaddexp.reduce(EXACT / 20 / 2, axis=1)
    assert saved["logsumexp"] == pytest.approx(totals, abs=5e-3)
    right = np.take_along_axis(EXACT / 20 / 2, IDS, axis=1) - totals[:, np.newaxis]
    assert saved["id_logprobs"] == pytest.approx(right, abs=5e-3)


def test_what_a_mask_forbids_is_nothing_for_the_model_either(run, simulated, files):
    image = packed_model(run, files, model_type="cohere", logit_scale=0.25)
    np.save(files / "mask.npy", pack_mask(np.arange(ROWS) % 2 == np.zeros((5, 1))))
    report, saved = simulated("--mask", files / "mask.npy", "--all-logits", image=image)
    assert np.isneginf(saved["model_all_logits"][:, 1::2]).all()
    assert np.isfinite(saved["model_all_logits"][:, ::2]).all()
    assert report["results"][0]["model_all_logits"][:2] == [saved["model_all_logits"][0, 0], None]


# Rows of a vocabulary.


def test_an_image_of_some_rows_says_so(run, files):
    image = files / "some.safetensors"
    for rows, part in (
        (":20", "rows 0 to 19 of 45 of the vocabulary\n"),
        ("5:20", "rows 5 to 19 of 45 of the vocabulary; ids, --ids and --mask count from row 5\n"),
    ):
        assert run("pack", files / "matrix.npz", "-o", image, "--rows", rows)[0] == 0
        code, _, err = run("simulate", image, "--hidden", files / "states.npz", "--json")
        assert code == 0
        assert without_progress(err) == f"unembed: warning: {image}: {part}"
