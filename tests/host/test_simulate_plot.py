"""`unembed simulate --plot` and `--trace`: files, figures and one-line errors."""

import json

import numpy as np
import pytest

from host.commands import simulate
from host.reports import first_job, timeline_plot
from sim import toolchain
from sim.errors import ToolError

from .command_line import assert_one_line, without_progress


@pytest.fixture
def default(run, files):
    """An image for the default hardware, whose simulator other tests need as well."""
    image = files / "default.safetensors"
    assert run("pack", files / "matrix.npz", "-o", image)[0] == 0
    return image


@pytest.fixture
def drawn(monkeypatch):
    """The arguments of every picture that is drawn."""
    calls = []
    draw = timeline_plot.draw
    monkeypatch.setattr(
        first_job, "draw", lambda *arguments: calls.append(arguments) or draw(*arguments)
    )
    return calls


def test_a_picture_of_the_first_job_is_drawn(run, files, default, drawn):
    arguments = ["--hidden", files / "states.npz", "-k", 4, "--clock-mhz", 200]
    code, out, _ = run("simulate", default, *arguments, "--plot", files / "p.svg")
    assert code == 0
    assert f"first job in {files / 'p.svg'}" in out
    assert (files / "p.svg").read_bytes().startswith(b"<?xml")
    ((ports, bus_bytes, clock_hz, title),) = drawn
    assert (len(ports), bus_bytes, clock_hz) == (1, 64, 200e6)
    assert "default.safetensors" in title and "memory ideal" in title
    code, out, _ = run("simulate", default, *arguments, "--json")
    counters = json.loads(out)["counters"]
    assert ports[0].recording.totals["data"] == counters["data_beats"][0]
    assert ports[0].cycles == counters["cycles"][0]
    edges, shares = ports[0].whole()
    assert (shares[0] * np.diff(edges)).sum() == pytest.approx(counters["data_beats"][0])


def test_every_shard_has_its_ports_in_the_picture(run, files, drawn):
    images = [files / "part0.safetensors", files / "part1.safetensors"]
    for image, rows in zip(images, (":20", "20:"), strict=True):
        assert run("pack", files / "matrix.npz", "-o", image, "--rows", rows)[0] == 0
    arguments = ["--hidden", files / "states.npz", "-k", 4, "--plot", files / "p.png", "--json"]
    code, out, _ = run("simulate", *images, *arguments)
    assert code == 0
    ((ports, *_),) = drawn
    assert [port.name for port in ports] == ["shard 0, channel 0", "shard 1, channel 0"]
    beats = [port.recording.totals["data"] for port in ports]
    assert 0 < beats[0] < beats[1]
    assert [port["data"] for port in json.loads(out)["first_job_ports"]] == beats


def test_the_report_tells_where_cycles_and_bytes_went(run, files, default):
    arguments = ["--hidden", files / "states.npz", "-k", 4]
    _, out, _ = run("simulate", default, *arguments)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines()[-3:])
    assert list(lines) == ["cycles", "rate", "payload"]
    assert " start, " in lines["cycles"] and "% weights" in lines["payload"]
    _, out, _ = run("simulate", default, *arguments, "--json")
    report = json.loads(out)
    figures = report["figures"]
    cycles = np.mean(report["counters"]["cycles"])
    assert sum(figures["cycles_per_job"].values()) == pytest.approx(cycles)
    assert sum(figures["bytes_per_job"].values()) == pytest.approx(figures["bytes_per_token"])


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--plot", "p.pdf"], ["--plot", "must end in .png or .svg", "found p.pdf"]),
        (["--trace", "t.vcd"], ["--trace", "must end in .fst", "found t.vcd"]),
        (["--plot", "p.png", "-o", "p.png"], ["-o", "is the file of another option"]),
        (["--trace", "t.fst", "-o", "t.gtkw"], ["-o", "is the file of another option"]),
    ],
)
def test_wrong_names_are_usage_errors(run, files, options, parts):
    arguments = [files / option if "." in option else option for option in options]
    head = files / "head.safetensors"
    code, out, err = run("simulate", head, "--hidden", files / "states.npz", *arguments)
    assert (code, out) == (2, "")
    assert_one_line(err, *parts)


@pytest.mark.parametrize("option", ["--plot", "--trace"])
def test_places_that_cannot_be_written_are_told_before_anything_runs(run, files, option):
    path = files / "none" / ("x.png" if option == "--plot" else "x.fst")
    head = files / "head.safetensors"
    code, _, err = run("simulate", head, "--hidden", files / "states.npz", option, path)
    assert code == 1
    assert_one_line(err, path, "its folder does not exist")


def test_a_trace_is_of_one_image(run, files):
    head = files / "head.safetensors"
    arguments = ["--hidden", files / "states.npz", "--trace", files / "t.fst"]
    code, _, err = run("simulate", head, head, *arguments)
    assert code == 2
    assert_one_line(err, "--trace: takes one image", "found 2")


def test_a_run_that_is_interrupted_leaves_no_picture(run, files, default, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate.Head, "run", interrupted)
    before = set(files.iterdir())
    arguments = ["--hidden", files / "states.npz", "--plot", files / "p.png"]
    assert run("simulate", default, *arguments)[0] == 130
    assert set(files.iterdir()) == before


def test_a_trace_that_is_interrupted_leaves_nothing(run, files, monkeypatch):
    class Interrupted:
        def __init__(self, config, memory, clock_hz, trace, progress):
            trace.write_bytes(b"half")
            raise KeyboardInterrupt

    monkeypatch.setattr(first_job, "FirstJobDevice", Interrupted)
    before = set(files.iterdir())
    head = files / "head.safetensors"
    arguments = ["--hidden", files / "states.npz", "--trace", files / "t.fst"]
    assert run("simulate", head, *arguments)[0] == 130
    assert set(files.iterdir()) == before


def test_libraries_for_waveforms_that_are_missing_are_named(monkeypatch):
    monkeypatch.setattr(toolchain, "TRACE_HEADERS", {"stdio.h": "libc6-dev"})
    toolchain.require_trace_libraries()
    monkeypatch.setitem(toolchain.TRACE_HEADERS, "no_such_header.h", "no-such-package")
    with pytest.raises(ToolError) as caught:
        toolchain.require_trace_libraries()
    text = str(caught.value)
    assert text.startswith("no_such_header.h is not installed")
    assert "apt-get install libc6-dev no-such-package" in text


def test_missing_libraries_end_a_trace_before_it_is_built(run, files, monkeypatch):
    def missing():
        raise ToolError("lz4.h is not installed")

    monkeypatch.setattr(toolchain, "require_trace_libraries", missing)
    monkeypatch.setattr(toolchain, "verilate", None)
    head = files / "head.safetensors"
    # A configuration that no other test builds.
    arguments = ["--hidden", files / "states.npz", "--trace", files / "t.fst", "--max-k", 61]
    code, _, err = run("simulate", head, *arguments)
    assert code == 1
    assert_one_line(without_progress(err), "lz4.h is not installed")
    assert not list(files.glob("*t.*"))
