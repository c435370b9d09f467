"""Boards: facts with sources, what fits on them, and what is refused with the reason."""

import json
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from host.boards.board import BOARDS, FOLDER, GENERIC, board, folder
from host.boards.fit import (
    DIM_STEP,
    board_config,
    check_fit,
    format_fit,
    head_misfit,
    logic_misfit,
)
from host.boards.heads import FORMATS, HEADS
from host.errors import UsageError
from hw.config import HeadConfig
from hw.resources import Resources, count

from .command_line import assert_one_line, without_progress

REAL = tuple(name for name in BOARDS if name != GENERIC)
INT8, INT4 = FORMATS


def test_every_folder_of_constraints_is_a_board():
    folders = (entry for entry in files(FOLDER).iterdir() if entry.is_dir())
    names = {entry.name for entry in folders if not entry.name.startswith("_")}
    assert names == set(BOARDS)


def test_a_wheel_has_every_file_of_constraints_and_every_module():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = project["package-data"][FOLDER]
    installed = {path for pattern in patterns for path in (root / FOLDER).glob(pattern)}
    held = (root / FOLDER / name for name in BOARDS)
    assert installed == {path for board in held for path in board.rglob("*") if path.is_file()}
    folders = {path.parent for top in ("hw", "sim", "host") for path in (root / top).rglob("*.py")}
    modules = {".".join(folder.relative_to(root).parts) for folder in folders}
    assert set(project["packages"]) == modules | {FOLDER}


@pytest.mark.parametrize("name", REAL)
def test_every_fact_names_its_source_and_every_source_is_used(name):
    document = tomllib.loads((folder(name) / "board.toml").read_text())
    facts = [fact for table in ("fpga", "memory", "clock") for fact in document[table].values()]
    assert all(set(fact) == {"value", "source"} for fact in facts)
    assert {fact["source"] for fact in facts} == set(document["sources"])
    assert len(board(name).facts) == len(facts)


@pytest.mark.parametrize("name", REAL)
def test_the_peak_bandwidth_is_that_of_the_kind_of_memory(name):
    transfers = {
        "kv260": 2400e6 * 8,  # DDR4-2400, 64 bits
        "ecpix5": 2 * 2 * board(name).clock.mhz * 1e6 * 2,  # twice the clock, both edges, 16 bits
        "ulx3s": 2 * board(name).clock.mhz * 1e6 * 2,  # twice the clock, 16 bits
    }
    assert board(name).memory.peak_bytes_per_s == transfers[name]


@pytest.mark.parametrize("name", REAL)
def test_the_parameters_of_a_board_fit_it(name):
    check_fit(board(name), HeadConfig(**board(name).defaults))


def test_nothing_is_refused_for_no_board():
    check_fit(board(GENERIC), HeadConfig(channels=8, batch=16))


REFUSED = {
    "bus": ("kv260", ["--bus-bits", 512], ["(--bus-bits) (expected 64 or 128 bits, found 512)"]),
    "channels": ("ecpix5", ["--channels", 2], ["(--channels) (expected at most 1, found 2)"]),
    "head": (
        "ecpix5",
        ["--max-rows", 128256, "--max-dim", 4096],
        ["a head of 128,256 x 4,096", "at most 536,870,912 bytes", "558,170,112 bytes of image"],
    ),
    "head_of_the_memory_left": (
        "kv260",
        ["--max-rows", 2**20, "--max-dim", 4096],
        ["at most 3,221,225,472 bytes"],
    ),
    "logits": (
        "ulx3s",
        ["--all-logits", "--batch", 16],
        ["too little memory for a head of 49,152 x 576"],
    ),
    "lanes": (
        "ulx3s",
        ["--weight-bits", 4, "--fold", 1, "--batch", 16],
        ["too few DSP blocks", "at most 156", "256 dot, 32 scale)"],
    ),
    "block_ram": (
        "kv260",
        ["--outstanding-bytes", 2**20, "--channels", 1],
        ["too few block RAMs", "at most 144"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_with_the_reason(run, tmp_path, case):
    name, options, parts = REFUSED[case]
    code, out, err = run("generate", "--board", name, "-o", tmp_path / "rtl", *options)
    assert (code, out) == (2, "")
    assert_one_line(without_progress(err), f"--board {name}: has ", *parts)
    assert not (tmp_path / "rtl").exists()


def test_the_ports_are_looked_at_before_anything_is_elaborated(monkeypatch):
    monkeypatch.setattr("host.boards.fit.count", None)
    with pytest.raises(UsageError, match="memory ports of another width"):
        check_fit(board("ulx3s"), HeadConfig(bus_bits=512))


def test_the_dsp_blocks_that_are_there_may_all_be_used():
    full = {"dot": 150, "scale": 6, "terms": 0, "logsumexp": 0}
    assert logic_misfit(board("ulx3s"), Resources(full, ())) is None
    misfit = logic_misfit(board("ulx3s"), Resources(full | {"terms": 1}, ()))
    assert misfit.found == "157: 150 dot, 6 scale, 1 terms"


def test_an_option_and_a_file_override_the_parameters_of_a_board(run, tmp_path, monkeypatch):
    monkeypatch.setattr("host.commands.generate.generated_files", lambda *_: {})
    file = tmp_path / "head.toml"
    file.write_text("[hardware]\nfold = 1\nbatch = 3\n")
    options = ["generate", "--board", "ulx3s", "-o", tmp_path / "rtl", "--json"]
    _, out, _ = run(*options)
    given = json.loads(out)["config"]
    assert {name: given[name] for name in board("ulx3s").defaults} == board("ulx3s").defaults
    _, out, _ = run(*options, "--config", file, "--batch", 2)
    config = json.loads(out)["config"]
    assert (config["fold"], config["batch"], config["max_dim"]) == (1, 2, 576)


def test_a_parameter_of_the_board_is_named_where_it_contradicts_an_option(run, tmp_path):
    code, _, err = run("generate", "--board", "ulx3s", "-o", tmp_path, "--rankers", 8)
    assert code == 2
    assert_one_line(err, "--rankers: rankers must be a power of two in 1..4, got 8")


def test_an_unknown_board_is_an_error(run, tmp_path):
    for command in (("generate", "-o", tmp_path, "--board"), ("boards",)):
        code, _, err = run(*command, "icebreaker")
        assert code == 2
        assert_one_line(err, "invalid choice: 'icebreaker'", "kv260")


def test_the_largest_head_fits_and_the_next_one_does_not():
    one = board("ulx3s")
    fit = format_fit(one, INT8)
    config = board_config(one, INT8, fit.rows, fit.dim)
    assert head_misfit(one, config, fit.rows, fit.dim) is None
    assert logic_misfit(one, count(config)) is None
    wider = fit.dim + DIM_STEP
    assert head_misfit(one, board_config(one, INT8, fit.rows, wider), fit.rows, wider)
    assert [head.model for head in fit.heads] == ["SmolLM2-135M"]


@pytest.mark.long
def test_block_ram_limits_the_width_where_there_is_memory_for_more():
    one = board("kv260")
    fit = format_fit(one, INT4)
    wider = fit.dim + DIM_STEP
    assert head_misfit(one, board_config(one, INT4, fit.rows, wider), fit.rows, wider) is None
    assert logic_misfit(one, count(board_config(one, INT4, fit.rows, fit.dim))) is None
    assert logic_misfit(one, count(board_config(one, INT4, fit.rows, wider)))
    assert fit.heads == HEADS


def test_boards_lists_each_with_clock_memory_and_bandwidth(run, monkeypatch):
    monkeypatch.setattr("host.commands.boards.board_fit", lambda one: ())
    code, out, _ = run("boards")
    assert code == 0
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert set(BOARDS) <= set(lines)
    for text in ("LFE5UM5G-85F-8BG554I", "75 MHz", "512 MiB", "1 x 128", "0.6 GB/s"):
        assert text in lines["ecpix5"]
    _, out, _ = run("boards", "--json")
    assert [one["name"] for one in json.loads(out)["boards"]] == list(BOARDS)


def test_a_board_is_shown_with_its_sources_and_heads(run):
    code, out, _ = run("boards", "ulx3s")
    assert code == 0
    assert "FPGA-DS-02012" in out and "default max dim" in out
    rows = {line.split("  ")[0]: line.split() for line in out.splitlines()}
    assert rows["SmolLM2-135M"][-2] == "30,081,024"
    assert rows["GPT-2"][-2] == "-" and rows["GPT-2"][-1] != "-"
    _, out, _ = run("boards", "ulx3s", "--json")
    document = json.loads(out)
    assert document["fpga"]["dsp"]["value"] == 156
    assert document["largest_heads"]["int8"]["models"] == ["SmolLM2-135M"]
    assert document["defaults"] == board("ulx3s").defaults
