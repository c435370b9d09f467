"""The simulated memory as options: what they build, what they refuse, the buffer they choose."""

import argparse
import json
from contextlib import nullcontext
from fractions import Fraction

import pytest

from host.commands import simulate
from host.options.memory import (
    add_simulation_options,
    check_simulation_options,
    clock_hz,
    memory_model,
)
from sim.memory import DEVICES, MemoryModel
from tests.host.fake_device import FakeDevice

from .command_line import assert_one_line, without_progress

SMALL = ["--bus-bits", 64, "--max-dim", 64, "--max-rows", 64, "--max-k", 4]


def parse(*options):
    parser = argparse.ArgumentParser()
    add_simulation_options(parser)
    arguments = parser.parse_args([str(option) for option in options])
    check_simulation_options(arguments)
    return arguments


def test_without_options_memory_is_ideal():
    arguments = parse()
    assert memory_model(arguments) == MemoryModel()
    assert clock_hz(arguments) == 250_000_000
    assert memory_model(parse("--latency", 7)) == MemoryModel(latency_cycles=7)


@pytest.mark.parametrize("name", DEVICES)
def test_a_dram_is_named(name):
    dram = memory_model(parse("--memory", name)).dram
    assert (dram.device, dram.latency_ns, dram.count) == (DEVICES[name], 100, None)
    options = ["--memory", name, "--memory-latency-ns", 62.5, "--memory-devices", 4]
    dram = memory_model(parse(*options)).dram
    assert (dram.latency_ns, dram.count) == (62.5, 4)


@pytest.mark.parametrize(
    ("text", "hz"),
    [
        ("333.33", Fraction(333_330_000)),
        ("1000/3", Fraction(1_000_000_000, 3)),
        ("0.1", Fraction(100_000)),
        ("3e2", Fraction(300_000_000)),
    ],
)
def test_the_clock_is_taken_exactly(text, hz):
    assert clock_hz(parse("--clock-mhz", text)) == hz


@pytest.fixture
def devices(monkeypatch):
    """What the simulated devices, of which none is built, were made from."""
    made = []

    class Device(FakeDevice):
        def __init__(self, config, memory, clock_hz, progress):
            super().__init__(config)
            made.append((config, memory, clock_hz))

    monkeypatch.setattr(simulate, "SimDevice", Device)
    return made


def run_simulate(run, files, *options):
    return run("simulate", files / "head.safetensors", "--hidden", files / "states.npz", *options)


def test_simulate_runs_on_the_named_memory_at_the_exact_clock(run, files, devices):
    options = ["--memory", "ddr3-1600-x16", "--clock-mhz", "1000/3", "--memory-latency-ns", 50]
    code, out, _ = run_simulate(run, files, *options, "--memory-devices", 2, "--json")
    assert code == 0
    ((config, memory, hz),) = devices
    assert memory.dram.device.name == "ddr3-1600-x16"
    assert hz == Fraction(10**9, 3)
    report = json.loads(out)
    assert report["memory"] == {
        "name": "ddr3-1600-x16",
        "devices": 2,
        "latency_ns": 50,
        "peak_gigabytes_per_second": 6.4,
    }
    assert "latency_cycles" not in report
    assert report["figures"]["clock_mhz"] == pytest.approx(1000 / 3)
    buffer = report["read_buffer"]
    assert buffer["chosen"] == ["max_burst", "outstanding_bytes"]
    assert buffer["outstanding_bytes"] == config.outstanding_bytes >= buffer["needed_bytes"]
    assert report["config"]["outstanding_bytes"] == config.outstanding_bytes


def test_the_buffer_and_its_reason_are_printed_where_memory_decides_it(run, files, devices):
    _, out, _ = run_simulate(run, files)
    assert "read buffer" not in out
    _, out, _ = run_simulate(run, files, "--memory", "ddr4-2400-x64")
    (line,) = [line for line in out.splitlines() if line.startswith("read buffer")]
    assert "2,048 bytes, bursts of 64 beats" in line
    assert "ddr4-2400-x64: 8 bytes per clock x" in line and "for a refresh" in line
    _, out, _ = run_simulate(run, files, "--latency", 1000)
    assert "read buffer 8,192 bytes" in out


def test_the_usual_buffer_stays_with_ideal_memory(run, files, devices):
    run_simulate(run, files)
    assert devices[0][0].outstanding_bytes == 256 * 8


def test_too_small_a_buffer_is_used_with_a_warning_of_its_cost(run, files, devices):
    options = ["--memory", "ddr4-2400-x64", "--clock-mhz", 300, "--outstanding-bytes", 512]
    code, out, err = run_simulate(run, files, *options)
    assert code == 0
    assert devices[0][0].outstanding_bytes == 512
    (warning,) = [line for line in err.splitlines() if "warning" in line]
    assert "--outstanding-bytes: 512 bytes under way limit reads to" in warning
    assert "of 8 bytes per clock" in warning
    assert "(set by --outstanding-bytes)" in out


def test_a_buffer_in_a_parameter_file_is_kept(run, files, devices):
    (files / "a.toml").write_text("[hardware]\noutstanding_bytes = 8192\nmax_burst = 4\n")
    options = ["--memory", "ddr3-1600-x16", "--config", files / "a.toml", "--json"]
    _, out, err = run_simulate(run, files, *options)
    assert (devices[0][0].outstanding_bytes, devices[0][0].max_burst) == (8192, 4)
    assert json.loads(out)["read_buffer"]["chosen"] == []
    assert "warning" not in err


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--memory", "ddr5"], ["--memory: is unknown", "ideal, ddr3-1600-x16", "found ddr5"]),
        (["--memory", "hbm2-2000-pc", "--latency", 9], ["--latency: is of ideal memory"]),
        (["--memory-latency-ns", 9], ["--memory-latency-ns: is of a DRAM"]),
        (["--memory-devices", 2], ["--memory-devices: is of a DRAM"]),
        (["--memory", "hbm2-2000-pc", "--memory-devices", 3], ["a power of two in 1..64"]),
        (["--memory", "hbm2-2000-pc", "--memory-devices", 0], ["a power of two in 1..64"]),
        (["--memory", "hbm2-2000-pc", "--memory-devices", 128], ["a power of two in 1..64"]),
        (["--memory", "hbm2-2000-pc", "--memory-latency-ns", -1], ["must be in 0..100000"]),
        (["--memory", "hbm2-2000-pc", "--memory-latency-ns", "nan"], ["found nan"]),
        (["--latency", 0], ["--latency: must be in 1..100000", "found 0"]),
        (["--latency", 100_001], ["--latency: must be in 1..100000"]),
        (["--clock-mhz", 0], ["--clock-mhz: must be a number from 0.001"]),
        (["--clock-mhz", "fast"], ["--clock-mhz: must be a number from 0.001", "got fast"]),
        (["--clock-mhz", "inf"], ["got inf"]),
        (["--clock-mhz", "1/0"], ["got 1/0"]),
        (["--clock-mhz", 1_000_000], ["below 1000000"]),
        (["--memory", "hbm2-2000-pc", "--max-burst", 0], ["--max-burst: max_burst must be in"]),
        (
            ["--memory", "hbm2-2000-pc", "--outstanding-bytes", 3000],
            ["--outstanding-bytes: outstanding_bytes must be a power of two"],
        ),
    ],
)
def test_a_memory_that_cannot_be_is_a_usage_error(run, files, devices, options, parts):
    code, out, err = run_simulate(run, files, *options)
    assert (code, out, devices) == (2, "", [])
    assert_one_line(err, *parts)


def test_the_demo_takes_the_same_options(run, monkeypatch):
    monkeypatch.setattr("host.commands.demo.SimDevice", lambda *_, **options: nullcontext())
    code, _, err = run("demo", "--memory", "ddr5")
    assert code == 2
    assert_one_line(without_progress(err), "--memory: is unknown")


def test_generate_sizes_the_buffer_for_a_memory(run, tmp_path):
    options = ["-o", tmp_path / "a", *SMALL, "--json"]
    _, out, _ = run("generate", *options)
    report = json.loads(out)
    assert report["config"]["outstanding_bytes"] == 256 * 8
    assert "read_buffer" not in report
    options += ["--memory", "ddr4-2400-x64", "--clock-mhz", 100]
    _, out, _ = run("generate", *options)
    report = json.loads(out)
    assert report["config"]["outstanding_bytes"] == report["read_buffer"]["outstanding_bytes"]
    assert report["config"]["outstanding_bytes"] == 1024
    assert "ddr4-2400-x64" in report["read_buffer"]["reason"]
    _, out, err = run("generate", *options[:-1], 500, "--outstanding-bytes", 512)
    assert json.loads(out)["config"]["outstanding_bytes"] == 512
    assert "warning: --outstanding-bytes: 512 bytes" in err


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--memory", "ideal"], ["--memory: is unknown", "found ideal"]),
        (["--clock-mhz", 100], ["--clock-mhz: is of use only with --memory"]),
        (["--memory-devices", 1], ["--memory-devices: is of use only with --memory"]),
        (["--memory", "ddr4-2400-x64", "--memory-latency-ns", 1e9], ["--memory-latency-ns"]),
    ],
)
def test_generate_refuses_what_is_no_memory(run, tmp_path, options, parts):
    code, out, err = run("generate", "-o", tmp_path / "a", *SMALL, *options)
    assert (code, out) == (2, "")
    assert_one_line(err, *parts)
    assert not (tmp_path / "a").exists()
