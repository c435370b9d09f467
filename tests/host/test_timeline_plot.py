"""The picture of the memory ports: which cycles it shows as what, and its file."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from host.errors import UsageError, UserError
from host.reports import timeline_plot
from host.reports.timeline_plot import MOST_BARS, PortTimeline, draw, edge_cycles, save
from sim.memory.recording import CLASSES, EDGE_CLOCKS, EVENTS, Recording

DATA, REFUSED, WAITING, UNREQUESTED = range(4)
BEFORE = 30
"""Clocks recorded before the first address."""


def recorded(states, bin_clocks=1):
    """A recording of a port with these states, from the first address on."""
    states = np.asarray(states, np.uint8)
    starts = np.arange(0, len(states), bin_clocks)
    bins = {
        name: np.add.reduceat((states == index).astype(np.int64), starts)
        for index, name in enumerate(CLASSES)
    } | {name: np.zeros(len(starts), np.int64) for name in EVENTS}
    data = np.flatnonzero(states == DATA)
    return Recording(
        clocks=BEFORE + len(states),
        first_offer=BEFORE,
        last_data=BEFORE + int(data[-1]),
        bin_clocks=bin_clocks,
        bins=bins,
        first=states[:EDGE_CLOCKS],
        last=states[-EDGE_CLOCKS:],
    )


def job(waiting=50, data=100_000, tail=200, refused=0):
    return [WAITING] * waiting + [DATA] * data + [REFUSED] * refused + [UNREQUESTED] * tail


def cycles_of(edges, shares):
    """Cycles by class that a panel shows."""
    return (shares * np.diff(edges)).sum(axis=1)


@pytest.mark.parametrize("after", [-60, 0, 40])
@pytest.mark.parametrize("bin_clocks", [1, 8, 256])
def test_the_whole_job_shows_every_cycle_once(bin_clocks, after):
    # A recording goes on after the job, or ends before.
    states = job(data=5000, refused=77)
    cycles = 11 + len(states)
    recording = recorded(states + [UNREQUESTED] * after if after > 0 else states, bin_clocks)
    if after < 0:
        recording = recorded(states[:after], bin_clocks)
    edges, shares = PortTimeline("x", recording, 11, cycles).whole()
    assert (edges[0], edges[-1]) == (0, cycles)
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= MOST_BARS + 3
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    np.testing.assert_allclose(cycles_of(edges, shares), [5000, 77, 50, 211])


def test_the_start_is_shown_before_the_bins_of_the_recording():
    edges, shares = PortTimeline("x", recorded(job(data=3000)), 11, 11 + 3250).whole()
    assert edges[:2].tolist() == [0, 11]
    assert shares[:, 0].tolist() == [0, 0, 0, 1]
    assert shares[WAITING, 1] == 1


@pytest.mark.parametrize("after", [0, 25])
def test_beginning_and_end_are_shown_cycle_by_cycle(after):
    states = job()
    cycles = 12 + len(states)
    port = PortTimeline("x", recorded(states + [UNREQUESTED] * after, 256), 12, cycles)
    edges, shares = port.beginning(100)
    assert edges.tolist() == list(range(101))
    assert shares.argmax(axis=0).tolist() == [UNREQUESTED] * 12 + [WAITING] * 50 + [DATA] * 38
    edges, shares = port.end(300)
    assert edges.tolist() == list(range(cycles - 300, cycles + 1))
    assert shares.argmax(axis=0).tolist() == [DATA] * 100 + [UNREQUESTED] * 200


def test_the_edges_reach_past_the_first_data_and_before_the_last():
    ports = [
        PortTimeline("x", recorded(job(waiting=first, tail=last), 256), 11, 200_000)
        for first, last in ((50, 99_000), (500, 99_300))
    ]
    first, last = edge_cycles(ports)
    assert 511 < first <= EDGE_CLOCKS
    assert last == EDGE_CLOCKS
    first, last = edge_cycles([PortTimeline("x", recorded(job(), 256), 11, 11 + 100_250)])
    assert 61 < first < 500 and 200 < last < 500


def test_a_port_without_traffic_has_nothing_requested():
    nothing = np.zeros(0, np.int64)
    bins = dict.fromkeys(CLASSES + EVENTS, nothing)
    states = np.zeros(0, np.uint8)
    port = PortTimeline("x", Recording(900, None, None, 1, bins, states, states), 11, 500)
    for edges, shares in (port.whole(), port.beginning(40), port.end(40)):
        assert (shares[UNREQUESTED] == 1).all()
        assert edges[-1] in (500, 40)
    draw([port], 64, 250e6, "nothing")


@pytest.mark.parametrize(("data", "panels"), [(3000, 1), (100_000, 3)])
@pytest.mark.parametrize("channels", [1, 4])
def test_a_long_job_has_panels_for_its_beginning_and_end(data, panels, channels):
    states = job(data=data)
    ports = [
        PortTimeline(f"channel {n}", recorded(states, 256), 11, 11 + len(states))
        for n in range(channels)
    ]
    figure = draw(ports, bus_bytes=64, clock_hz=300e6, title="a title")
    assert len(figure.axes) == panels * channels
    assert figure.get_suptitle() == "a title"
    labels = [axes.get_ylabel() for axes in figure.axes[::panels]]
    assert labels == [f"channel {n}\nshare of cycles" for n in range(channels)]
    figure.draw_without_rendering()
    children = [child for axes in figure.axes for child in axes.child_axes]
    assert {child.get_xlabel() or child.get_ylabel() for child in children} == {
        "microseconds",
        "GB/s",
    }
    (right,) = [child for child in figure.axes[panels - 1].child_axes if child.get_ylabel()]
    assert right.get_ylim() == pytest.approx((0, 19.2))
    middle = figure.axes[panels // 2]
    assert middle.get_xlim() == (0, 11 + len(states))
    (top,) = [child for child in middle.child_axes if child.get_xlabel()]
    assert top.get_xlim()[1] == pytest.approx((11 + len(states)) / 300)


@pytest.mark.parametrize(
    ("name", "magic"), [("x.png", b"\x89PNG"), ("x.svg", b"<?xml"), ("X.SVG", b"<?xml")]
)
def test_the_file_is_what_its_name_says(tmp_path, name, magic):
    timeline_plot.check_suffix(Path(name))
    port = PortTimeline("x", recorded(job(data=900)), 11, 1200)
    for path in (tmp_path / name, tmp_path / f"again {name}"):
        save(draw([port], 64, 250e6, "x"), path)
        assert path.read_bytes().startswith(magic)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


@pytest.mark.parametrize("name", ["x", "x.pdf", "png"])
def test_other_names_are_refused(name):
    with pytest.raises(UsageError, match=r"--plot: must end in \.png or \.svg"):
        timeline_plot.check_suffix(Path(name))


def test_a_picture_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def full(self, path, **options):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(UserError, match=r"x\.png: cannot be written: No space left"):
        save(Figure(), tmp_path / "x.png")
    assert not list(tmp_path.iterdir())
