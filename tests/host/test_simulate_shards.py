"""`unembed simulate` with the shards of a vocabulary, each on a device of its own."""

import json
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest

from host.commands import simulate
from host.masks import pack_mask
from host.options.hardware import config_for_image
from hw.status import Status
from tests.host.fake_device import FakeDevice

from .command_line import DIM, HIDDEN, ROWS, WEIGHTS, assert_one_line, without_progress

EDGES = [0, 17, 18, ROWS]
PACKED = ["--bus-bits", 64, "--group", 32, "--tile-rows", 16]


@pytest.fixture(autouse=True)
def devices(monkeypatch):
    """The devices that a run has opened, in plain Python."""
    opened = []

    class Device(FakeDevice):
        def __init__(self, config, memory, clock_hz, progress):
            super().__init__(config)
            self.closed = False
            opened.append(self)

        def close(self):
            self.closed = True

    monkeypatch.setattr(simulate, "SimDevice", Device)
    return opened


@pytest.fixture
def shards(run, files):
    """A model with a bias as one image, whole.safetensors, and as three."""
    bias = np.linspace(50, -50, ROWS)
    np.savez(files / "model.npz", weight=WEIGHTS.astype(np.float32), bias=bias)
    return pack_shards(run, files)


def pack_shards(run, files, *options):
    packed = ["pack", files / "model.npz", *PACKED, *options, "-o"]
    assert run(*packed, files / "whole.safetensors")[0] == 0
    paths = []
    for n, (first, stop) in enumerate(zip(EDGES, EDGES[1:], strict=False)):
        paths.append(files / f"part{n}.safetensors")
        assert run(*packed, paths[-1], "--rows", f"{first}:{stop}")[0] == 0
    return paths


def simulated(run, files, images, *arguments):
    options = ["--hidden", files / "states.npz", "--json", "-o", files / "out.npz"]
    code, out, _ = run("simulate", *images, *options, *arguments)
    assert code == 0
    with np.load(files / "out.npz") as saved:
        return json.loads(out), dict(saved)


def functions(files):
    """Options for everything that a run can be asked for."""
    allowed = np.random.default_rng(2).random((5, ROWS)) < 0.5
    allowed[3] = np.arange(ROWS) == 17  # the only row of the second shard
    np.save(files / "mask.npy", pack_mask(allowed))
    np.save(files / "ids.npy", np.array([0, 16, 17, 18, ROWS - 1]))
    return ["--mask", files / "mask.npy", "--ids", files / "ids.npy", "--all-logits"] + [
        "--logsumexp", "--temperature", 20, "--batch", 2, "-k", 6, "--check",
    ]  # fmt: skip


@pytest.mark.parametrize("bound", [False, True])
def test_shards_give_what_the_whole_image_gives(run, files, shards, devices, bound):
    if bound:
        shards = pack_shards(run, files, "--bound")
    options = functions(files)
    report, found = simulated(run, files, shards, *options)
    assert [len({repr(device.config) for device in devices}), len(devices)] == [1, 3]
    assert all(device.closed for device in devices)
    whole, expected = simulated(run, files, [files / "whole.safetensors"], *options)
    for name in ("ids", "scores", "logits", "all_logits", "id_scores", "id_logits", "job_of"):
        assert np.array_equal(found[name], expected[name]), name
    assert bound == ("bounds" in found)
    if bound:
        assert np.array_equal(found["bounds"], expected["bounds"])
    for name in ("logsumexp", "id_logprobs"):
        assert found[name] == pytest.approx(expected[name], abs=1e-5), name
    assert report["check"] == whole["check"]
    assert report["check"]["mismatches"] == 0
    assert report["check"]["id_scores"] == {"compared": 5, "mismatches": 0}
    assert [(shard["first_row"], shard["rows"]) for shard in report["shards"]] == [
        (0, 17),
        (17, 1),
        (18, 27),
    ]
    assert [shard["image"] for shard in report["shards"]] == list(map(str, shards))
    assert np.array(report["channel_counters"]["data_beats"]).shape == (3, 3)


def test_the_best_row_of_the_second_shard_has_the_id_of_the_whole_vocabulary(run, tmp_path):
    weights = np.full((1001, 32), -1.0)
    weights[501] = 1
    np.save(tmp_path / "model.npy", weights)
    np.savez(tmp_path / "states.npz", hidden=np.ones((1, 32)))
    images = []
    for rows in ("0:501", "501:"):
        images.append(tmp_path / f"{rows[0]}.safetensors")
        assert run("pack", tmp_path / "model.npy", "-o", images[-1], "--rows", rows)[0] == 0
    report, _ = simulated(run, tmp_path, images, "-k", 1, "--check")
    assert report["results"][0]["ids"] == [501]
    assert report["check"] == {"compared": 1, "mismatches": 0}


@pytest.mark.parametrize("kind", ["scores", "all_logits", "logsumexp"])
def test_a_shard_that_is_wrong_fails_the_check(run, files, shards, monkeypatch, kind):
    right = simulate.ShardedHead.merge

    def wrong(self, parts):
        if kind == "scores":
            parts[2].scores[:, 0] += 1
        else:
            getattr(parts[2], kind)[0] += 1e-3
        return right(self, parts)

    monkeypatch.setattr(simulate.ShardedHead, "merge", wrong)
    options = ["--all-logits", "--logsumexp", "--temperature", 20, "-k", ROWS, "--check"]
    code, out, err = run("simulate", *shards, "--hidden", files / "states.npz", *options)
    assert code == 1
    assert f"mismatch: {'state 0' if kind == 'scores' else kind}" in err


@pytest.mark.parametrize(
    ("order", "culprit", "parts"),
    [
        ((1, 0, 2), 1, ["is not the next shard: first row", "expected 0, found 17"]),
        ((0, 2), 2, ["expected 17, found 18"]),
        ((0, 0), 0, ["expected 17, found 0"]),
    ],
)
def test_shards_out_of_order_are_refused_before_anything_is_built(
    run, files, shards, devices, order, culprit, parts
):
    images = [shards[n] for n in order]
    code, out, err = run("simulate", *images, "--hidden", files / "states.npz")
    assert (code, out, devices) == (1, "", [])
    assert_one_line(err, shards[culprit], *parts)


def test_missing_shards_at_the_end_are_warned_about(run, files, shards):
    code, _, err = run("simulate", *shards[:2], "--hidden", files / "states.npz")
    assert code == 0
    assert f"{shards[0]} to {shards[1]}: rows 0 to 17 of 45 of the vocabulary\n" in err


def test_images_of_other_tensors_and_formats_are_no_shards(run, files, shards):
    for model, options, part in (
        ("model.npz", ["--group", 64], "group (expected 32, found 64)"),
        ("model.npz", ["--no-bias"], "no shard of the same tensor"),
        ("other.npz", [], "SHA-256 of the tensor"),
    ):
        # The same scale and units, but another matrix.
        np.savez(
            files / "other.npz",
            weight=WEIGHTS[:, ::-1].astype(np.float32),
            bias=np.linspace(50, -50, ROWS),
        )
        other = files / "other.safetensors"
        packed = ["pack", files / model, *PACKED, *options, "--rows", "17:", "-o", other]
        assert run(*packed)[0] == 0
        code, _, err = run("simulate", shards[0], other, "--hidden", files / "states.npz")
        assert code == 1
        assert_one_line(err, other, shards[0], part)


def test_a_mask_and_ids_are_of_the_whole_vocabulary(run, files, shards):
    for name, values, parts in (
        ("mask", np.zeros((5, 1), np.int32), ["expected [5, 2]", "found [5, 1]"]),
        ("ids", np.full(5, ROWS), ["expected 0..44", "found 45"]),
    ):
        np.save(files / "x.npy", values)
        options = ["--hidden", files / "states.npz", f"--{name}", files / "x.npy"]
        code, _, err = run("simulate", *shards, *options)
        assert code == 1
        assert_one_line(err, files / "x.npy", *parts)


def test_a_shard_that_contradicts_an_option_is_named(run, files, shards):
    code, _, err = run("simulate", *shards, "--hidden", files / "states.npz", "--max-rows", 20)
    assert code == 2
    assert_one_line(err, f"--max-rows: is 20, but {shards[2]} has 27 rows")


def test_a_damaged_shard_is_named_before_anything_is_built(run, files, shards, devices):
    data = bytearray(shards[1].read_bytes())
    data[-1] ^= 1
    shards[1].write_bytes(data)
    code, _, err = run("simulate", *shards, "--hidden", files / "states.npz")
    assert (code, devices) == (1, [])
    assert_one_line(without_progress(err), shards[1], "the image is damaged")


def test_a_job_that_fails_names_its_shard(run, files, shards, devices, monkeypatch):
    class Failing(simulate.SimDevice):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.status = Status.READ if len(devices) == 2 else Status.OK

    monkeypatch.setattr(simulate, "SimDevice", Failing)
    code, out, err = run("simulate", *shards, "--hidden", files / "states.npz")
    assert (code, out) == (1, "")
    line = without_progress(err)
    assert_one_line(line, f"simulation of {shards[1]}: job 1, of state 0, ended with status READ")
    assert all(device.closed for device in devices)


def test_states_of_another_width_are_told_once(run, files, shards):
    np.save(files / "wide.npy", np.zeros((2, DIM + 1)))
    code, _, err = run("simulate", *shards, "--hidden", files / "wide.npy")
    assert code == 1
    assert_one_line(err, files / "wide.npy", f"[N, {DIM}]")


def test_8_bit_states_are_warned_about_once(run, files, shards):
    code, _, err = run("simulate", *shards, "--hidden", files / "states.npz", "--hidden-bits", 8)
    assert code == 0
    assert without_progress(err).count("hidden_bits is 8") == 1


def test_no_shard_is_overwritten(run, files, shards):
    code, _, err = run("simulate", *shards, "--hidden", files / "states.npz", "-o", shards[1])
    assert code == 1
    assert_one_line(err, shards[1], "would overwrite the image")


def test_the_hidden_states_of_all_shards_are_those_of_the_file(run, files, shards):
    report, saved = simulated(run, files, shards, "-k", 1, "--limit", 3)
    exact = HIDDEN[:3].astype(np.float64) @ WEIGHTS.T + np.linspace(50, -50, ROWS)
    assert saved["ids"][:, 0].tolist() == exact.argmax(axis=1).tolist()
    assert saved["logits"][:, 0] == pytest.approx(exact.max(axis=1), abs=0.1)


def test_hardware_is_as_large_as_the_largest_shard_needs_it():
    image = SimpleNamespace(path="part", rows=70_000, dim=64, config_fields={})
    system = {"memory": "ideal", "latency": None, "clock_mhz": None}
    arguments = Namespace(config=None, hardware_max_rows=None, **system)
    assert config_for_image(arguments, image, 1).max_rows == 1 << 17
    assert config_for_image(arguments, image, 1, rows=300_000).max_rows == 1 << 19
    arguments.hardware_max_rows = 80_000
    assert config_for_image(arguments, image, 1, rows=300_000).max_rows == 80_000
