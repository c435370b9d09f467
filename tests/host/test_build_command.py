"""`unembed build`: what it refuses, reports and writes, without its tools."""

import errno
import json

import pytest

from host.commands import build
from host.litex.build import BITSTREAMS
from tests.host.command_line import assert_one_line, without_progress
from tests.host.stand_in import failing

CELLS = {"TRELLIS_COMB": 16586, "TRELLIS_FF": 10216, "MULT18X18D": 36, "DP16KD": 34}


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Replaces the tools: a bitstream whose system clock is what the list holds, MHz."""
    folder = tmp_path / "built"
    folder.mkdir()
    clock = [80.57]

    def bitstream(config, options, progress):
        report = {
            "utilization": {name: {"used": n, "available": 83640} for name, n in CELLS.items()},
            "fmax": {
                "$glbnet$sys_clk": {"achieved": clock[0], "constraint": 75.01},
                "$glbnet$clk100$TRELLIS_IO_IN": {"achieved": 605.7, "constraint": 100.0},
            },
        }
        (folder / "nextpnr.json").write_text(json.dumps(report))
        (folder / "csr.csv").write_text("constant,config_clock_frequency,75000000,,\n")
        for name in BITSTREAMS:
            (folder / name).write_bytes(b"bits")
        return folder

    monkeypatch.setattr(build, "bitstream", bitstream)
    return clock


def test_everything_the_host_needs_is_written(run, tmp_path, built):
    out = tmp_path / "out"
    code, text, err = run("build", "--board", "ecpix5", "-o", out)
    assert (code, without_progress(err)) == (0, "")
    assert {path.name for path in out.iterdir()} == set(build.FILES)
    assert "16,586" in text and "80.6 MHz of 75.0 needed" in text
    assert json.loads((out / "config.json").read_text())["bus_bits"] == 128
    report = json.loads((out / "report.json").read_text())
    assert report["used"] == {"lut4": 16586, "ff": 10216, "dsp": 36, "ram": 34}
    assert list(report["clocks"]) == ["clk100", "sys_clk"]
    assert report["system"]["bridge"] == "uart"


def test_options_override_the_boards_parameters(run, tmp_path, built):
    out = tmp_path / "out"
    code, text, _ = run(
        "build", "--board", "ecpix5", "-o", out, "--batch", 1, "--bridge", "ethernet",
        "--ip", "10.0.0.7", "--seed", 3, "--json",
    )  # fmt: skip
    report = json.loads(text)
    assert code == 0 and report["config"]["batch"] == 1
    assert report["system"] == {
        "bridge": "ethernet", "clock_mhz": 75, "ip_address": "10.0.0.7", "seed": 3,
    }  # fmt: skip


def test_a_missed_clock_is_a_failure_that_writes_nothing(run, tmp_path, built):
    built[0] = 74.2
    out = tmp_path / "out"
    code, _, err = run("build", "--board", "ecpix5", "-o", out)
    assert code == 1
    assert_one_line(without_progress(err), "timing: is not met: sys_clk 74.2 of 75.0 MHz", "--seed")
    assert not out.exists()


def test_a_full_disk_is_told_with_the_folder(run, tmp_path, built, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr("host.files.output.Output.commit", failing(errno.ENOSPC))
    code, text, err = run("build", "--board", "ecpix5", "-o", out)
    assert (code, text) == (1, "")
    assert_one_line(without_progress(err), f"{out}: cannot be written: No space left on device")
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--board", "kv260"), "--board: has no open flow to a bitstream"),
        *(
            (
                ("--board", "ecpix5", "--clock-mhz", mhz),
                f"--clock-mhz: is none that the board's PLL makes (expected one of 50, 55, 60, 65, "
                f"70, 75, 80, 100, found {mhz})",
            )
            for mhz in (45, 62, 99, 105)
        ),
        (("--board", "ecpix5", "--ip", "10.0.0.7"), "--ip: is of use with --bridge ethernet"),
        (
            ("--board", "ecpix5", "--bridge", "ethernet", "--ip", "10.0.7"),
            "--ip: is no IPv4 address",
        ),
        (("--board", "ecpix5", "--seed", "-1"), "--seed: must be in 0..4294967295 (found -1)"),
        (("--board", "ecpix5", "--bus-bits", "512"), "--board ecpix5: has memory ports"),
    ],
)
def test_what_cannot_be_built_is_a_usage_error(run, tmp_path, built, options, part):
    out = tmp_path / "out"
    code, _, err = run("build", *options, "-o", out)
    assert code == 2
    assert_one_line(err, part)
    assert not out.exists()


def test_missing_tools_are_named_with_how_to_get_them(run, tmp_path, monkeypatch):
    monkeypatch.setattr("host.litex.build.LITEX", ("no-such-package",))
    code, _, err = run("build", "--board", "ecpix5", "-o", tmp_path / "out")
    assert code == 1
    assert_one_line(
        without_progress(err), "no-such-package is not installed", "unembed[litex,synth]"
    )
