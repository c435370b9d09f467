"""What the memory ports did during a job, as a picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from host.errors import UsageError, UserError
from host.files.output import Output
from sim.memory.recording import CLASSES, Recording

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")

MOST_BARS = 400
"""Bins of a recording are joined until there are no more: a picture has no more columns to show."""
WIDE_CYCLES = 4000
"""Longer jobs also have their beginning and end shown at a larger scale."""

# Colours that differ in lightness as well, for print and for those who see no hues.
COLOURS = {
    "data": "#2166ac",
    "refused": "#b2182b",
    "waiting": "#f4a582",
    "unrequested": "#e0e0e0",
}
LABELS = {
    "data": "data",
    "refused": "refused",
    "waiting": "waiting for memory",
    "unrequested": "nothing requested (buffer full, or done)",
}


def check_suffix(path: Path) -> None:
    """Raise UsageError for a name whose end tells no format."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError("--plot", f"must end in {' or '.join(SUFFIXES)}", found=path.name)


@dataclass(frozen=True)
class PortTimeline:
    """A memory port during a job.

    Parameters
    ----------
    name : str
    recording : Recording
        From before the job's first read address to its end or later.
    start : int
        Cycles of the job before that address.
    cycles : int
        Cycles of the job.
    """

    name: str
    recording: Recording
    start: int
    cycles: int

    def whole(self) -> tuple[np.ndarray, np.ndarray]:
        """Edges of bins, cycles of the job, [B + 1], and the shares of `CLASSES` in them, [4, B].

        Before the bins of the recording and behind them nothing is requested.
        """
        recording = self.recording
        joined = max(1, -(-len(recording.bins["data"]) // MOST_BARS))
        width = recording.bin_clocks * joined
        starts = np.arange(0, len(recording.bins["data"]), joined)
        if not len(starts):
            return np.array([0, self.cycles]), np.array([[0], [0], [0], [1.0]])
        counts = np.stack([np.add.reduceat(recording.bins[name], starts) for name in CLASSES])
        return self._clip(self.start + np.arange(len(starts)) * width, counts, width)

    def _clip(
        self, lefts: np.ndarray, counts: np.ndarray, width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        inside = lefts < self.cycles
        lefts, counts = lefts[inside], counts[:, inside].astype(np.float64)
        rights = np.minimum(lefts + width, self.cycles)
        # A recording that goes on behind the job, or ends before, does so with nothing requested;
        # unless another job has begun to read.
        counts[-1] = np.maximum(counts[-1] + (rights - lefts) - counts.sum(axis=0), 0)
        edges = [*lefts, rights[-1]]
        shares = counts / counts.sum(axis=0)
        idle = np.array([[0], [0], [0], [1.0]])
        if self.start > 0:
            edges, shares = [0, *edges], np.hstack([idle, shares])
        if edges[-1] < self.cycles:
            edges, shares = [*edges, self.cycles], np.hstack([shares, idle])
        return np.array(edges), shares

    def beginning(self, cycles: int) -> tuple[np.ndarray, np.ndarray]:
        """The first cycles one by one, as `whole`."""
        return self._states(self.start, self.recording.first, 0, min(cycles, self.cycles))

    def end(self, cycles: int) -> tuple[np.ndarray, np.ndarray]:
        """The last cycles one by one, as `whole`."""
        recording = self.recording
        if recording.first_offer is None:
            return self._states(0, recording.last, self.cycles - cycles, self.cycles)
        binned = recording.clocks - recording.first_offer
        first = self.start + binned - len(recording.last)
        return self._states(first, recording.last, max(0, self.cycles - cycles), self.cycles)

    def _states(
        self, first: int, states: np.ndarray, low: int, high: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Cycles `low` to `high` - 1, of which those from `first` on have `states`."""
        classes = np.full(high - low, CLASSES.index("unrequested"))
        cycles = np.arange(low, high) - first
        known = (cycles >= 0) & (cycles < len(states))
        classes[known] = states[cycles[known]]
        return np.arange(low, high + 1), np.eye(len(CLASSES))[classes].T


def edge_cycles(ports: Sequence[PortTimeline]) -> tuple[int, int]:
    """How many cycles of a job's beginning and of its end are worth a picture of their own."""
    first = last = 0
    for port in ports:
        data = np.flatnonzero(port.recording.first == CLASSES.index("data"))
        first = max(first, port.start + (int(data[0]) if len(data) else 0))
        if port.recording.last_data is not None:
            done = port.start + port.recording.last_data - port.recording.first_offer
            last = max(last, port.cycles - done)
    longest = min(len(port.recording.first) for port in ports)
    return min(2 * first + 40, longest), min(2 * last + 40, longest)


def draw(ports: Sequence[PortTimeline], bus_bytes: int, clock_hz: float, title: str) -> "Figure":
    """A row per port: the share of cycles with data and without, over the cycles of the job.

    Parameters
    ----------
    ports : sequence of PortTimeline
        Of the same job.
    bus_bytes : int
        Bytes of a beat.
    clock_hz : float
    title : str
    """
    # It takes a second to import, which only those who want a picture wait for.
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    wide = max(port.cycles for port in ports) > WIDE_CYCLES
    ratios = [1, 3.2, 1] if wide else [1]
    height = 1.7 + (1.9 if len(ports) < 3 else 1.1) * len(ports)
    figure = Figure(figsize=(11, height), layout="constrained")
    grid = figure.subplots(
        len(ports), len(ratios), squeeze=False, sharey=True, width_ratios=ratios, sharex="col"
    )
    peak = bus_bytes * clock_hz / 1e9
    first, last = edge_cycles(ports) if wide else (0, 0)
    for port, row in zip(ports, grid, strict=True):
        parts = (port.beginning(first), port.whole(), port.end(last)) if wide else (port.whole(),)
        for axes, (edges, shares) in zip(row, parts, strict=True):
            _stack(axes, edges, shares)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=_ticks(axes, row), integer=True))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        row[0].set_ylabel(f"{port.name}\nshare of cycles")
        right = row[-1].secondary_yaxis("right", functions=(_scale(peak), _scale(1 / peak)))
        right.set_ylabel("GB/s")
    names = ("first cycles", "whole job", "last cycles") if wide else ("whole job",)
    for axes, name in zip(grid[-1], names, strict=True):
        axes.set_xlabel(f"cycle ({name})")
    microseconds = 1e6 / clock_hz
    for axes in grid[0]:
        top = axes.secondary_xaxis(
            "top", functions=(_scale(microseconds), _scale(1 / microseconds))
        )
        top.set_xlabel("microseconds")
        top.xaxis.set_major_locator(MaxNLocator(nbins=_ticks(axes, grid[0])))
        top.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    figure.suptitle(title, fontsize="medium")
    handles = [Patch(color=COLOURS[name], label=LABELS[name]) for name in CLASSES]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def _scale(factor: float):
    return lambda value: value * factor


def _ticks(axes: "Axes", row: Sequence["Axes"]) -> int:
    """Most intervals between ticks: the middle of a row is wide."""
    return 6 if axes is row[len(row) // 2] else 2


def _stack(axes: "Axes", edges: np.ndarray, shares: np.ndarray) -> None:
    tops = np.cumsum(shares, axis=0)
    below = np.zeros(shares.shape[1])
    for name, top in zip(CLASSES, tops, strict=True):
        axes.stairs(top, edges, baseline=below, fill=True, color=COLOURS[name], linewidth=0)
        below = top
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 1)


def save(figure: "Figure", path: Path) -> None:
    """Write a picture, complete or not at all; its format is that of the name.

    Raises
    ------
    UserError
        No file can be written there.
    """
    from matplotlib import rc_context

    format_name = path.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if format_name == "svg" else None
    with Output(path) as output:
        try:
            # The same picture is the same file.
            with rc_context({"svg.hashsalt": "unembed"}):
                figure.savefig(output.partial, format=format_name, dpi=150, metadata=metadata)
        except OSError as error:
            raise UserError(path, f"cannot be written: {error.strerror}") from None
        output.commit()
