"""What a port of the simulated memory did over time."""

from ctypes import POINTER, Structure, c_int, c_int64, c_uint32, c_uint64
from ctypes import c_void_p as handle
from dataclasses import dataclass

import numpy as np

MOST_BINS = 1024
"""`Timeline::kBins` of timeline.h."""
EDGE_CLOCKS = 2048
"""`Timeline::kEdgeClocks`."""
LONGEST_TURNAROUND = 63
"""`Timeline::kLongestTurnaround`."""

CLASSES = ("data", "refused", "waiting", "unrequested")
"""What the read port does in a clock, exactly one of them: `PortState`, in its order."""
EVENTS = ("write_beats", "address_waiting", "unoffered", "unoffered_without_data")
"""What is counted beside that."""


class _Timeline(Structure):
    """`UnembedTimeline` of timeline.cpp."""

    _fields_ = [
        ("clocks", c_uint64),
        ("first_offer", c_int64),
        ("last_data", c_int64),
        ("bin_clocks", c_uint64),
        ("bins", c_uint64),
    ]


RECORDING_SIGNATURES = {
    "unembed_port_record": (None, [handle, c_uint64, c_uint64, c_uint32]),
    "unembed_port_stop_recording": (None, [handle]),
    "unembed_port_timeline": (c_int, [handle, POINTER(_Timeline), handle, handle, handle]),
}
"""The functions of timeline.cpp."""


@dataclass(frozen=True)
class Recording:
    """A port, clock by clock from its first read address on, in B bins of equal width.

    A clock is one of `CLASSES`: data (RVALID and RREADY), refused (RVALID without RREADY), waiting
    (neither, but data is due or an address is offered) or unrequested. `EVENTS` are counted
    beside: beats written; clocks with ARVALID and without ARREADY; and between the first and the
    last accepted address those with ARVALID low although the reader has room for its largest
    burst, and how many of them brought no data.
    """

    clocks: int
    """Recorded, with those before the first bin."""
    first_offer: int | None
    """Clocks before the first with ARVALID, where the bins begin."""
    last_data: int | None
    """Clocks before the last with data."""
    bin_clocks: int
    """Width of a bin; the last one may have fewer clocks so far."""
    bins: dict[str, np.ndarray]
    """int64 [B] per name of `CLASSES` and `EVENTS`."""
    first: np.ndarray
    """uint8, the first `EDGE_CLOCKS` clocks of the bins one by one, as indices of `CLASSES`."""
    last: np.ndarray
    """The last ones likewise."""

    @property
    def totals(self) -> dict[str, int]:
        """Of all bins, by name."""
        return {name: int(values.sum()) for name, values in self.bins.items()}


def start_recording(
    library, port: int, room_beats: int, burst_beats: int, turnaround_clocks: int
) -> None:
    """Begin a recording; see `MemoryPort.record`."""
    for name, value, low, high in (
        ("room_beats", room_beats, 1, 2**32),
        ("burst_beats", burst_beats, 1, 2**32),
        ("turnaround_clocks", turnaround_clocks, 0, LONGEST_TURNAROUND),
    ):
        if not low <= value <= high:
            raise ValueError(f"{name} must be in {low}..{high}, got {value}")
    library.unembed_port_record(port, room_beats, burst_beats, turnaround_clocks)


def take_recording(library, port: int) -> Recording:
    """What was recorded so far; see `MemoryPort.recording`."""
    summary = _Timeline()
    bins = np.zeros((MOST_BINS, len(CLASSES) + len(EVENTS)), np.uint64)
    first, last = np.zeros((2, EDGE_CLOCKS), np.uint8)
    buffers = (array.ctypes.data for array in (bins, first, last))
    if not library.unembed_port_timeline(port, summary, *buffers):
        raise ValueError("the memory port is not recorded")
    binned = summary.clocks - max(summary.first_offer, 0) if summary.bins else 0
    columns = bins[: summary.bins].astype(np.int64).T
    return Recording(
        clocks=summary.clocks,
        first_offer=None if summary.first_offer < 0 else summary.first_offer,
        last_data=None if summary.last_data < 0 else summary.last_data,
        bin_clocks=summary.bin_clocks,
        bins={name: column.copy() for name, column in zip(CLASSES + EVENTS, columns, strict=True)},
        first=first[:binned].copy(),
        last=last[:binned].copy(),
    )
