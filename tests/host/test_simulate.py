"""`unembed simulate`: what it runs, writes and prints, and its one-line errors."""

import errno
import json
import os

import numpy as np
import pytest

from host.checks import check
from host.commands import simulate
from host.masks import pack_mask
from host.results import COUNTER_NAMES
from sim import golden
from tests.host.fake_device import FakeDevice

from .command_line import DIM, HIDDEN, ROWS, WEIGHTS, assert_one_line, without_progress


@pytest.fixture
def fake(monkeypatch):
    """Put the device in plain Python in the simulator's place, which takes long to build."""

    class Device(FakeDevice):
        def __init__(self, config, memory, clock_hz, progress):
            super().__init__(config)

    monkeypatch.setattr(simulate, "SimDevice", Device)


def test_simulate_on_the_simulated_hardware_equals_the_golden_model(run, files):
    # The default hardware, whose simulator other tests need as well.
    image = files / "default.safetensors"
    assert run("pack", files / "matrix.npz", "-o", image)[0] == 0
    code, out, _ = run(
        "simulate",
        image,
        "--hidden",
        files / "states.npz",
        "-k",
        50,
        "--limit",
        3,
        "--check",
        "-o",
        files / "out.npz",
        "--json",
        "--latency",
        7,
        "--clock-mhz",
        100,
    )
    assert code == 0
    report = json.loads(out)
    assert report["check"] == {"compared": 150, "mismatches": 0}
    assert report["latency_cycles"] == 7
    with np.load(files / "out.npz") as saved:
        names = {*COUNTER_NAMES, "start_cycles", "tail_cycles"}
        assert set(saved) == {"ids", "scores", "logits", "job_of"} | names
        assert {name: saved[name].dtype for name in ("ids", "scores", "logits")} == {
            "ids": np.int32,
            "scores": np.int64,
            "logits": np.float64,
        }
        assert all(saved[name].shape == (3,) for name in names)
        assert all(saved[name].dtype == np.int64 for name in names)
        assert saved["ids"].shape == (3, 50)
        assert np.array_equal(np.sort(saved["ids"][:, :ROWS]), [range(ROWS)] * 3)
        assert (saved["ids"][:, ROWS:] == -1).all()
        assert (saved["scores"][:, ROWS:] == np.iinfo(np.int64).min).all()
        assert np.isneginf(saved["logits"][:, ROWS:]).all()
        exact = HIDDEN[:3].astype(np.float64) @ WEIGHTS.T
        found = np.take_along_axis(exact, saved["ids"][:, :ROWS].astype(np.int64), 1)
        assert np.abs(found - saved["logits"][:, :ROWS]).max() < 0.1
        assert saved["ids"][0].tolist() == report["results"][0]["ids"] + [-1] * 5
        cycles = saved["cycles"].mean()
    assert report["figures"]["tokens_per_second"] == pytest.approx(100e6 / cycles)


@pytest.mark.usefixtures("fake")
class TestSimulateOnAFakeDevice:
    """What surrounds the simulated hardware, which a device in plain Python replaces here."""

    def simulate(self, run, files, *arguments, hidden="states.npz"):
        return run("simulate", files / "head.safetensors", "--hidden", files / hidden, *arguments)

    def test_the_table_shows_states_and_rates(self, run, files):
        code, out, _ = self.simulate(run, files, "-k", 4, "--check")
        assert code == 0
        assert "best id" in out and "GB/s" in out
        assert "20 places compared, 0 mismatches" in out

    def test_limit_and_key_choose_the_states(self, run, files):
        _, out, _ = self.simulate(run, files, "--limit", 2, "--json")
        assert json.loads(out)["states"] == 2
        _, out, _ = self.simulate(run, files, "--key", "other", "--json")
        assert json.loads(out)["states"] == 1

    def test_a_wrong_golden_model_fails_the_check(self, run, files, monkeypatch):
        right = golden.best_rows
        monkeypatch.setattr(
            golden,
            "best_rows",
            lambda *given, **options: (
                right(*given, **options)[0] ^ 1,
                right(*given, **options)[1],
            ),
        )
        code, out, err = self.simulate(run, files, "-k", 4, "--check", "--json")
        assert code == 1
        assert json.loads(out)["check"] == {"compared": 20, "mismatches": 20}
        assert "state 0, rank 0: the accelerator has id" in err

    @pytest.mark.parametrize("flags", [[], ["--no-bias"], ["--bound"]])
    def test_channels_and_terms_of_the_image_are_those_of_the_hardware(self, run, files, flags):
        bias = np.linspace(-200, 200, ROWS)
        np.savez(files / "biased.npz", weight=WEIGHTS.astype(np.float32), bias=bias)
        options = ["--bus-bits", 64, "--tile-rows", 16, "--channels", 2, *flags]
        image = files / "biased.safetensors"
        assert run("pack", files / "biased.npz", "-o", image, *options)[0] == 0
        arguments = ["--hidden", files / "states.npz", "-k", 4, "--batch", 3]
        code, out, _ = run("simulate", image, *arguments, "--check", "--json")
        assert code == 0
        report = json.loads(out)
        expected = {"channels": 2, "bias": flags != ["--no-bias"], "bound": flags == ["--bound"]}
        assert {name: report["config"][name] for name in expected} == expected
        assert report["check"] == {"compared": 20, "mismatches": 0}
        exact = HIDDEN.astype(np.float64) @ WEIGHTS.T + bias * expected["bias"]
        for n, state in enumerate(report["results"]):
            assert np.abs(exact[n, state["ids"]] - state["logits"]).max() < 0.1
            assert len(state.get("bounds", [])) == 4 * expected["bound"]
        assert np.array(report["channel_counters"]["data_beats"]).shape == (2, 2)

    def mask(self, files, allowed):
        np.save(files / "mask.npy", pack_mask(allowed))
        return files / "mask.npy"

    def test_functions_are_built_run_saved_and_checked(self, run, files):
        allowed = np.arange(ROWS) % 3 == np.arange(5)[:, np.newaxis] % 3
        allowed[3] = False
        options = ["-k", 4, "--batch", 2, "--mask", self.mask(files, allowed), "--all-logits"]
        options += ["--logsumexp", "--temperature", 10, "--check", "-o", files / "out.npz"]
        code, out, _ = self.simulate(run, files, *options, "--json")
        assert code == 0
        report = json.loads(out)
        config = {"batch": 2, "mask": True, "all_logits": True, "logsumexp": True}
        assert report["config"] | config == report["config"]
        assert report["check"] == {
            "compared": 20,
            "mismatches": 0,
            "all_logits": {"compared": 5 * ROWS, "mismatches": 0},
            "logsumexp": {"compared": 5, "mismatches": 0},
        }
        exact = HIDDEN.astype(np.float64) @ WEIGHTS.T
        with np.load(files / "out.npz") as saved:
            assert np.array_equal(np.isneginf(saved["all_logits"]), ~allowed)
            assert np.abs(saved["all_logits"][allowed] - exact[allowed]).max() < 0.1
            for n, found in enumerate(saved["logsumexp"]):
                right = np.logaddexp.reduce(exact[n, allowed[n]] / 10, initial=-np.inf)
                assert found == right or abs(found - right) < 0.1
            assert saved["logsumexp"][3] == -np.inf
            assert saved["job_of"].tolist() == [0, 0, 1, 1, 2]
            assert saved["ids"][3].tolist() == [-1] * 4
            for n, state in enumerate(report["results"]):
                assert state["job"] == saved["job_of"][n]
                known = [None if value == -np.inf else value for value in saved["all_logits"][n]]
                assert state["all_logits"] == known
        assert report["results"][3]["logsumexp"] is None
        assert report["results"][3]["ids"] == []

    def test_the_table_shows_a_jobs_counters_once_and_the_share_that_is_written(self, run, files):
        allowed = np.ones((5, ROWS), bool)
        allowed[1] = False
        options = ["-k", 4, "--batch", 2, "--mask", self.mask(files, allowed), "--all-logits"]
        options += ["--logsumexp", "--temperature", 10]
        code, out, _ = self.simulate(run, files, *options, "--check")
        assert code == 0
        lines = out.splitlines()
        assert "log-sum-exp" in lines[0]
        assert "%" in lines[1] and "%" not in lines[2] and "%" in lines[3]
        assert lines[2].split() == ["1", "none", "-inf", "-inf"]
        assert "% as many written" in out
        assert f"{5 * ROWS:,} of all_logits compared, 0 mismatches" in out
        assert "5 of logsumexp compared, 0 mismatches" in out

    def test_without_all_logits_nothing_is_said_of_writing(self, run, files):
        _, out, _ = self.simulate(run, files, "-k", 4)
        assert "written" not in out

    def test_the_mask_of_a_limited_run_is_that_of_the_whole_file(self, run, files):
        allowed = np.zeros((5, ROWS), bool)
        allowed[:2, [7, 9]] = True
        options = ["--mask", self.mask(files, allowed), "--limit", 2, "--json", "-k", 4]
        _, out, _ = self.simulate(run, files, *options)
        ids = [state["ids"] for state in json.loads(out)["results"]]
        assert [sorted(some) for some in ids] == [[7, 9]] * 2

    @pytest.mark.parametrize("kind", ["all_logits", "logsumexp"])
    def test_a_wrong_golden_model_of_a_function_fails_the_check(
        self, run, files, monkeypatch, kind
    ):
        right = check.golden_sums

        def wrong(*arguments):
            sums = right(*arguments)
            sums[kind == "logsumexp"][..., -1] += 1e-9
            return sums

        monkeypatch.setattr(check, "golden_sums", wrong)
        options = ["-k", 4, "--all-logits", "--logsumexp", "--temperature", 10, "--check", "--json"]
        code, out, err = self.simulate(run, files, *options)
        assert code == 1
        assert json.loads(out)["check"][kind]["mismatches"] == (5 if kind == "all_logits" else 1)
        assert json.loads(out)["check"]["mismatches"] == 0
        assert f"mismatch: {kind}, state" in err

    @pytest.mark.parametrize(
        ("mask", "parts"),
        [
            (np.zeros((5, 2), np.int64), ["must be of words of 32 bits", "int32", "int64"]),
            (np.zeros((5, 2), np.uint32), ["expected int32, as of mask.view(numpy.int32)"]),
            (np.zeros((5, ROWS), bool), ["expected int32", "found bool"]),
            (np.zeros((5, 3), np.int32), ["expected [5, 2]", "found [5, 3]"]),
            (np.zeros((4, 2), np.int32), ["expected [5, 2]", "found [4, 2]"]),
            (np.zeros(2, np.int32), ["expected [5, 2]", "found [2]"]),
        ],
    )
    def test_a_mask_that_does_not_fit_names_its_file(self, run, files, mask, parts):
        np.save(files / "mask.npy", mask)
        code, _, err = self.simulate(run, files, "--mask", files / "mask.npy")
        assert code == 1
        assert_one_line(err, files / "mask.npy", *parts)

    def test_a_missing_mask_is_an_error(self, run, files):
        code, _, err = self.simulate(run, files, "--mask", files / "none.npy")
        assert code == 1
        assert_one_line(err, "none.npy", "No such file")

    @pytest.mark.parametrize("field", ["mask", "all_logits", "logsumexp"])
    def test_a_file_that_leaves_out_a_function_in_use_is_a_usage_error(self, run, files, field):
        (files / "a.toml").write_text(f"[hardware]\n{field} = false\n")
        option = "--" + field.replace("_", "-")
        value = [self.mask(files, np.ones((5, ROWS), bool))] if field == "mask" else []
        code, _, err = self.simulate(run, files, "--config", files / "a.toml", option, *value)
        assert code == 2
        assert_one_line(err, f"a.toml: {field}", f"is False, but {option} needs it")

    def test_more_results_than_the_default_hardware_build_larger_hardware(self, run, files):
        _, out, _ = self.simulate(run, files, "-k", 100, "--json")
        assert json.loads(out)["config"]["k"] == 100

    def test_smaller_hardware_gives_fewer_results(self, run, files):
        _, out, _ = self.simulate(run, files, "--max-k", 5, "--json")
        assert json.loads(out)["k"] == 5

    @pytest.mark.parametrize(
        ("arguments", "parts"),
        [
            (["--bus-bits", 128], ["--bus-bits: bus_bits is 128", "packed with bus_bits 64"]),
            (["--group", 32], ["--group: group is 32", "packed with group row"]),
            (["--scale-signed"], ["--scale-signed", "True", "False"]),
            (["--max-dim", 20], ["--max-dim: is 20", "40 columns"]),
            (["--max-rows", 44], ["--max-rows: is 44", "45 rows"]),
            (["-k", 8, "--max-k", 4], ["--max-k: is 4", "8 results"]),
            (["-k", 0], ["-k: must be in 1..256", "found 0"]),
            (["-k", 257], ["-k: must be in 1..256"]),
            (["--limit", 0], ["--limit: must be at least 1"]),
            (["--latency", 0], ["--latency"]),
            (["--clock-mhz", -1], ["--clock-mhz"]),
            (["--max-burst", 0], ["--max-burst: max_burst must be in 1..256, got 0"]),
            (["--fold", 3], ["--fold"]),
            (["--channels", 2], ["--channels: channels is 2", "packed with channels 1"]),
            (["--bias"], ["--bias: bias is True", "packed with bias False"]),
            (["--bound"], ["--bound: bound is True", "packed with bound False"]),
            (["--batch", 17], ["--batch: batch must be in 1..16, got 17"]),
            (["--batch", 2, "--rankers", 4], ["--rankers: rankers must be a power of two in 1..2"]),
            (["--temperature", 1], ["--temperature: is of use only with --logsumexp"]),
            (["--logsumexp", "--temperature", 0], ["--temperature: must be finite and above 0"]),
            (["--logsumexp", "--temperature", "nan"], ["--temperature", "found nan"]),
        ],
    )
    def test_an_option_that_cannot_be_is_a_usage_error(self, run, files, arguments, parts):
        code, out, err = self.simulate(run, files, *arguments)
        assert (code, out) == (2, "")
        assert_one_line(err, *parts)

    def test_states_that_do_not_fit_name_their_file(self, run, files):
        np.save(files / "wide.npy", np.zeros((2, DIM + 1)))
        code, _, err = self.simulate(run, files, hidden="wide.npy")
        assert code == 1
        assert_one_line(err, files / "wide.npy", f"[N, {DIM}]", f"[2, {DIM + 1}]")

    def test_a_state_that_is_not_finite_names_its_row(self, run, files):
        bad = HIDDEN.copy()
        bad[4, 0] = np.inf
        np.save(files / "bad.npy", bad)
        code, _, err = self.simulate(run, files, hidden="bad.npy")
        assert code == 1
        assert_one_line(err, files / "bad.npy", "row 4")

    def test_no_states_are_an_error(self, run, files):
        np.save(files / "none.npy", np.zeros((0, DIM)))
        code, _, err = self.simulate(run, files, hidden="none.npy")
        assert code == 1
        assert_one_line(err, "none.npy", "no states")

    def test_a_missing_file_is_an_error(self, run, files):
        code, _, err = self.simulate(run, files, hidden="missing.npy")
        assert code == 1
        assert_one_line(err, "missing.npy", "No such file")

    def test_states_too_large_for_the_row_terms_are_told_in_one_line(self, run, files):
        image = files / "bound.safetensors"
        assert run("pack", files / "matrix.npz", "-o", image, "--bound")[0] == 0
        np.save(files / "large.npy", np.full((2, DIM), 1e308))
        code, _, err = run("simulate", image, "--hidden", files / "large.npy")
        assert code == 1
        assert_one_line(err, "large.npy: hidden: row 0 is too large for the row terms of", image)

    def test_an_output_that_cannot_be_written_is_an_error(self, run, files):
        code, _, err = self.simulate(run, files, "-o", files / "no" / "out.npz")
        assert code == 1
        assert_one_line(err, "out.npz")

    def test_an_output_that_is_a_folder_is_refused_before_the_simulation(self, run, files):
        code, _, err = self.simulate(run, files, "-o", files)
        assert code == 1
        assert_one_line(err, files, "is a folder")

    @pytest.mark.parametrize("name", ["head.safetensors", "states.npz", "mask.npy", "ids.npy"])
    def test_no_input_is_overwritten(self, run, files, name):
        mask = self.mask(files, np.ones((5, ROWS), bool))
        np.save(files / "ids.npy", np.arange(5))
        before = (files / name).read_bytes()
        options = ["-o", files / name, "--mask", mask, "--ids", files / "ids.npy"]
        code, _, err = self.simulate(run, files, *options)
        assert code == 1
        assert_one_line(err, name, "would overwrite")
        assert (files / name).read_bytes() == before

    def test_a_failed_write_names_the_output_and_leaves_nothing(self, run, files, monkeypatch):
        def full(*arguments, **options):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "temporary")

        monkeypatch.setattr(np, "savez", full)
        code, _, err = self.simulate(run, files, "-o", files / "full.npz")
        assert code == 1
        assert_one_line(without_progress(err), files / "full.npz", "No space left")
        assert not list(files.glob("*full*"))

    def test_a_file_of_another_kind_is_no_hidden_states(self, run, files):
        (files / "text.npy").write_text("0.5 0.25\n")
        code, _, err = self.simulate(run, files, hidden="text.npy")
        assert code == 1
        assert_one_line(err, "text.npy: is no .npy or .npz file\n")

    def test_hidden_states_of_8_bits_are_warned_about_in_one_line(self, run, files):
        code, _, err = self.simulate(run, files, "--hidden-bits", 8)
        assert code == 0
        warning = without_progress(err)
        assert warning.startswith("unembed: warning: hidden_bits is 8")
        assert warning.count("\n") == 1

    def test_a_parameter_file_sets_the_hardware_and_options_override_it(self, run, files):
        (files / "a.toml").write_text('[hardware]\nfold = 2\nk = 9\ngroup = "row"\n')
        _, out, _ = self.simulate(run, files, "--config", files / "a.toml", "--fold", 4, "--json")
        config = json.loads(out)["config"]
        assert (config["fold"], config["k"], config["group"]) == (4, 9, 0)

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("[hardware]\nlanes = 3\n", ["no parameter 'lanes'", "bus_bits"]),
            ("[hardwear]\nfold = 2\n", ["unknown table or key 'hardwear'"]),
            ("[hardware]\nfold = 3\n", ["fold must be one of 1, 2, 4, 8, got 3"]),
            ('[hardware]\nfold = "2"\n', ["fold must be an integer"]),
            ("[hardware]\nbus_bits = 128\n", ["a.toml: bus_bits", "is 128", "bus_bits 64"]),
            ("[hardware\n", ["is no TOML file"]),
        ],
    )
    def test_a_wrong_parameter_file_is_a_usage_error(self, run, files, text, parts):
        (files / "a.toml").write_text(text)
        code, _, err = self.simulate(run, files, "--config", files / "a.toml")
        assert code == 2
        assert_one_line(err, "a.toml", *parts)

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ('{"lanes": 3}', ["no parameter 'lanes'", "bus_bits"]),
            ('{"fold": 3}', ["fold must be one of 1, 2, 4, 8, got 3"]),
            ('{"bus_bits": 128}', ["a.json: bus_bits", "is 128", "bus_bits 64"]),
            ("[2]", ["is no JSON object"]),
            ("fold = 2", ["is no JSON file"]),
            (b"\xff", ["is no JSON file"]),
        ],
    )
    def test_a_wrong_json_parameter_file_is_a_usage_error(self, run, files, text, parts):
        (files / "a.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        code, _, err = self.simulate(run, files, "--config", files / "a.json")
        assert code == 2
        assert_one_line(err, "a.json", *parts)
