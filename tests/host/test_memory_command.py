"""`unembed memory`: the devices it lists, what it measures of one, and what it refuses."""

import json

import pytest

from sim.memory import DEVICES

from .command_line import assert_one_line

DDR4 = "ddr4-2400-x64"


def measured(run, *options):
    """The report as JSON, and its lines by pattern."""
    code, out, err = run("memory", *options, "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    lines = {}
    for line in report["measured"]:
        lines.setdefault(line["pattern"], []).append(line)
    return report, lines


def only(run, pattern, *options):
    _, lines = measured(run, *options, "--pattern", pattern)
    assert list(lines) == [pattern]
    return lines[pattern]


def test_without_a_name_the_devices_are_listed(run):
    code, out, err = run("memory")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert set(DEVICES) <= set(rows)
    assert "19.2" in rows[DDR4] and "64 bytes" in rows[DDR4] and "18.3 ns" in rows[DDR4]
    devices = json.loads(run("memory", "--json")[1])["devices"]
    assert [device["name"] for device in devices] == list(DEVICES)
    (ddr4,) = [device for device in devices if device["name"] == DDR4]
    assert (ddr4["peak_gigabytes_per_second"], ddr4["access_bytes"]) == (19.2, 64)
    assert ddr4["latency_ns"] == pytest.approx(22 / 1.2)
    assert ddr4["refresh_share"] == pytest.approx((420 + 9 + 17 + 17 - 4) / 9360)


def test_a_device_is_measured_in_every_pattern(run):
    report, lines = measured(run, DDR4)
    assert report["memory"] == {
        "name": DDR4,
        "devices": 1,
        "latency_ns": 100,
        "peak_gigabytes_per_second": 19.2,
    }
    assert (report["bus_bits"], report["ports"], report["clock_mhz"]) == (512, 1, 1200)
    assert list(lines) == ["sequential", "random", "streams", "writes", "latency"]
    (sequential,) = lines["sequential"]
    assert sequential["fraction_of_peak"] == pytest.approx(0.951, abs=0.003)
    assert sequential["gigabytes_per_second"] == pytest.approx(
        19.2 * sequential["fraction_of_peak"]
    )
    closed, hit, conflict = (line["latency_ns"] for line in lines["latency"])
    assert hit == pytest.approx(100 + 22 / 1.2, abs=2)
    assert closed - hit == pytest.approx(17 / 1.2, abs=1)
    assert conflict - closed == pytest.approx(17 / 1.2, abs=1)


def test_the_report_in_words_has_a_line_for_each_measurement(run):
    code, out, _ = run("memory", DDR4, "--clock-mhz", "1000/3", "--memory-latency-ns", 50)
    assert code == 0
    head, *lines = out.splitlines()
    assert head == (
        "ddr4-2400-x64, 19.20 GB/s; 1 port of 512 bits at 333.333 MHz; 50 ns of controller and "
        "interconnect"
    )
    assert lines[1].startswith("sequential, bursts of 4096 bytes") and " % " in lines[1]
    assert len(lines) == 8
    assert not [line for line in lines if line != line.rstrip()]


@pytest.mark.parametrize("name", DEVICES)
def test_the_ports_do_not_limit_the_dram_unless_asked_to(run, name):
    (free,) = only(run, "sequential", name)
    ideal = float(DEVICES[name].refresh_fraction)
    assert free["fraction_of_peak"] == pytest.approx(ideal, abs=0.005)
    (narrow,) = only(run, "sequential", name, "--bus-bits", 64)
    assert narrow["fraction_of_peak"] == pytest.approx(ideal, abs=0.005)
    (slow,) = only(run, "sequential", name, "--bus-bits", 64, "--clock-mhz", 100)
    assert slow["gigabytes_per_second"] == pytest.approx(0.8, rel=0.001)


def test_several_devices_add_up(run):
    options = ["--memory-devices", 4, "--ports", 2]
    report, _ = measured(run, "hbm2-2000-pc", *options, "--pattern", "sequential")
    assert report["memory"]["devices"] == 4
    (line,) = only(run, "sequential", "hbm2-2000-pc", *options)
    (alone,) = only(run, "sequential", "hbm2-2000-pc")
    assert line["fraction_of_peak"] == pytest.approx(alone["fraction_of_peak"], abs=0.01)
    assert line["gigabytes_per_second"] == pytest.approx(
        4 * alone["gigabytes_per_second"], rel=0.01
    )


def test_few_bytes_under_way_cost_what_the_law_says(run):
    options = ["--burst-bytes", 512, "--memory-latency-ns", 1000]
    (two,) = only(run, "sequential", DDR4, *options, "--outstanding", 2)
    (four,) = only(run, "sequential", DDR4, *options, "--outstanding", 4)
    assert two["gigabytes_per_second"] == pytest.approx(2 * 512 / two["latency_ns"], rel=0.02)
    assert four["gigabytes_per_second"] == pytest.approx(2 * two["gigabytes_per_second"], rel=0.05)


def test_options_of_a_pattern_shape_it(run):
    (line,) = only(run, "writes", DDR4, "--write-every", 4, "--burst-bytes", 64)
    assert line["text"] == "sequential, 1 burst in 4 written, bursts of 64 bytes"
    (rare,) = only(run, "writes", DDR4, "--write-every", 64, "--burst-bytes", 64)
    assert line["fraction_of_peak"] < rare["fraction_of_peak"] - 0.01
    (line,) = only(run, "streams", DDR4, "--streams", 2)
    assert line["text"].startswith("2 sequential streams")
    # Both bank groups have to open a row, the second one tRRD behind the first.
    _, _, longer = only(run, "latency", DDR4, "--burst-bytes", 4096)
    assert longer["latency_ns"] == pytest.approx(100 + (17 + 17 + 22 + 3 + 63 * 4) / 1.2, abs=2)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["ddr5"], ["NAME: is unknown", "expected ddr3-1600-x16, ddr4-2400-x64", "found ddr5"]),
        (["ideal"], ["NAME: is unknown", "found ideal"]),
        (["--pattern", "random"], ["--pattern: is of use only with a NAME"]),
        (["--clock-mhz", 100], ["--clock-mhz: is of use only with a NAME"]),
        (["--bus-bits", 64], ["--bus-bits: is of use only with a NAME"]),
        (["--ports", 2], ["--ports: is of use only with a NAME"]),
        ([DDR4, "--pattern", "fast"], ["--pattern", "sequential"]),
        ([DDR4, "--burst-bytes", 100], ["--burst-bytes: must be a power of two in 8..4096"]),
        ([DDR4, "--burst-bytes", 0], ["--burst-bytes: must be a power of two"]),
        ([DDR4, "--burst-bytes", 32], ["--burst-bytes: must be 1..256 beats of 64 bytes"]),
        ([DDR4, "--burst-bytes", 8192], ["--burst-bytes: must be a power of two in 8..4096"]),
        ([DDR4, "--pattern", "latency", "--burst-bytes", 3], ["--burst-bytes: must be"]),
        ([DDR4, "--outstanding", 0], ["--outstanding: must be at least 1, got 0"]),
        ([DDR4, "--streams", 0], ["--streams: must be at least 1, got 0"]),
        ([DDR4, "--write-every", 1], ["--write-every: must be", "at least 2"]),
        ([DDR4, "--write-every", 0], ["--write-every: must be", "at least 2"]),
        ([DDR4, "--pattern", "random", "--streams", 2], ["--streams: is of the pattern streams"]),
        ([DDR4, "--pattern", "latency", "--outstanding", 2], ["--outstanding: is of no use"]),
        ([DDR4, "--memory-devices", 3], ["--memory-devices: must be a power of two"]),
        ([DDR4, "--memory-latency-ns", "inf"], ["--memory-latency-ns: must be in 0..100000"]),
        ([DDR4, "--clock-mhz", 0], ["--clock-mhz: must be a number from 0.001"]),
        ([DDR4, "--ports", 3], ["--ports", "choose from"]),
    ],
)
def test_what_cannot_be_measured_is_a_usage_error(run, options, parts):
    code, out, err = run("memory", *options)
    assert (code, out) == (2, "")
    assert_one_line(err, *parts)
