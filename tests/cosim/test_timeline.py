"""What a memory port records of itself, against a recount of its pins."""

import ctypes
import dataclasses
import random

import numpy as np
import pytest

from sim.memory import Dram, MemoryModel, Stall, Stalls
from sim.memory.recording import CLASSES, EDGE_CLOCKS, EVENTS, MOST_BINS

BURST, ROOM = 4, 16
ARVALID, RREADY, AWVALID, WVALID, WLAST, BREADY, RESET = (1 << bit for bit in range(7))
ARREADY, RVALID, RLAST, AWREADY, WREADY = 1, 1 << 1, 1 << 2, 1 << 5, 1 << 6
INCR_8_BYTES = 1 << 11 | 3 << 8


class PinMaster:
    """Drives the pins of a port clock by clock and notes them."""

    def __init__(self, port):
        self.port = port
        self._clock = port._library.unembed_axi_clock
        self._clock.restype = None
        u32, u64 = ctypes.c_uint32, ctypes.c_uint64
        self._clock.argtypes = [u64, u32, u64, u32, u64, u32, u64] + [ctypes.c_void_p] * 3
        self._slave = u32()
        self._data = (ctypes.c_uint8 * 64)()
        self.clocks = []

    def clock(self, *, address=None, ready=True, write=False, beats=BURST, reset=False):
        """One clock; the address offered, if any, was accepted."""
        slave = self._slave.value
        valids = RESET * reset | BREADY | RREADY * ready | (ARVALID if address is not None else 0)
        valids |= (AWVALID | WVALID | WLAST) * write
        self._clock(
            self.port.handle,
            valids,
            address or 0,
            INCR_8_BYTES | beats - 1,
            0,
            INCR_8_BYTES,
            0xFF,
            ctypes.byref(self._data),
            ctypes.byref(self._slave),
            ctypes.byref(self._data),
        )
        now = {
            "arvalid": address is not None,
            "arready": bool(slave & ARREADY),
            "rvalid": bool(slave & RVALID),
            "rready": ready,
            "write": write and bool(slave & WREADY),
            "beats": beats,
        }
        if not reset:
            self.clocks.append(now)
        return now["arvalid"] and now["arready"]


def recount(clocks, turnaround=0):
    """Columns of 0 and 1 per clock from the first ARVALID on, and where that is."""
    first = next(n for n, now in enumerate(clocks) if now["arvalid"])
    accepted = [n for n, now in enumerate(clocks) if now["arvalid"] and now["arready"]]
    beats = [n for n, now in enumerate(clocks) if now["rvalid"] and now["rready"]]
    columns = {name: np.zeros(len(clocks), np.int64) for name in CLASSES + EVENTS}
    for n, now in enumerate(clocks):
        requested = sum(clocks[m]["beats"] for m in accepted if m < n)
        received = sum(1 for m in beats if m < n)
        freed = sum(1 for m in beats if m < n - turnaround)
        if now["rvalid"]:
            kind = "data" if now["rready"] else "refused"
        else:
            kind = "waiting" if requested > received or now["arvalid"] else "unrequested"
        columns[kind][n] = 1
        columns["write_beats"][n] = now["write"]
        columns["address_waiting"][n] = now["arvalid"] and not now["arready"]
        between = accepted and accepted[0] < n < accepted[-1]
        if between and not now["arvalid"] and requested - freed + BURST <= ROOM:
            columns["unoffered"][n] = 1
            columns["unoffered_without_data"][n] = kind != "data"
    return {name: values[first:] for name, values in columns.items()}, first


def drive(master, clocks, seed, lazy=0.2):
    """Random reads and writes: addresses are offered until accepted, data is refused at times."""
    rng = random.Random(seed)
    offered, held = None, 0
    for _ in range(clocks):
        if offered is None and rng.random() > lazy and held + BURST <= 2 * ROOM:
            offered = 4096 * rng.randrange(64)
        if master.clock(address=offered, ready=rng.random() > 0.1, write=rng.random() < 0.05):
            offered, held = None, held + BURST
        held -= master.clocks[-1]["rvalid"] and master.clocks[-1]["rready"]


@pytest.fixture
def make_port():
    dram = Dram(0, 1 << 20)
    ports = []

    def make(**model):
        ports.extend(dram.ports(MemoryModel(**model), 64, 1))
        return ports[-1]

    yield make
    for port in ports:
        port.close()
    dram.close()


STALLS = Stalls(ar=Stall(0.2, 6, 1), r=Stall(0.2, 9, 2))


@pytest.mark.parametrize("turnaround", [0, 1, 5, 63])
def test_every_clock_is_what_the_pins_say(make_port, turnaround):
    port = make_port(latency_cycles=9, stalls=STALLS)
    master = PinMaster(port)
    for _ in range(5):
        master.clock()
    master.clocks.clear()
    port.record(ROOM, BURST, turnaround)
    for _ in range(7):
        master.clock()
    drive(master, 600, seed=turnaround)
    for _ in range(100):
        master.clock()
    drive(master, 200, seed=turnaround, lazy=0.97)
    recording = port.recording()
    expected, first = recount(master.clocks, turnaround)
    assert recording.clocks == 907
    assert recording.first_offer == first >= 7
    assert recording.bin_clocks == 1
    assert recording.last_data == max(
        n for n, now in enumerate(master.clocks) if now["rvalid"] and now["rready"]
    )
    for name, values in expected.items():
        assert values.any(), name
        np.testing.assert_array_equal(recording.bins[name], values, err_msg=name)


@pytest.mark.parametrize("clocks", [MOST_BINS, MOST_BINS + 1, 2 * MOST_BINS + 1, 3000])
def test_bins_double_when_all_are_full_and_lose_nothing(make_port, clocks):
    port = make_port(latency_cycles=30, stalls=STALLS)
    master = PinMaster(port)
    port.record(ROOM, BURST)
    master.clock(address=0)
    drive(master, clocks - 1, seed=5)
    recording = port.recording()
    expected, _ = recount(master.clocks)
    width = recording.bin_clocks
    assert width == next(2**n for n in range(20) if 2**n * MOST_BINS >= clocks)
    starts = np.arange(0, clocks, width)
    for name, values in expected.items():
        np.testing.assert_array_equal(recording.bins[name], np.add.reduceat(values, starts), name)
    assert sum(recording.totals[name] for name in CLASSES) == clocks
    states = np.argmax([expected[name] for name in CLASSES], axis=0)
    np.testing.assert_array_equal(recording.first, states[:EDGE_CLOCKS])
    np.testing.assert_array_equal(recording.last, states[-EDGE_CLOCKS:])


def test_clocks_without_an_offer_count_only_before_a_later_address(make_port):
    port = make_port(latency_cycles=5)
    master = PinMaster(port)
    master.clock()
    port.record(ROOM, BURST)
    master.clock(address=0)
    for _ in range(50):
        master.clock()
    assert port.recording().totals["unoffered"] == 0
    master.clock(address=0)
    for _ in range(50):
        master.clock()
    totals = port.recording().totals
    assert (totals["unoffered"], totals["unoffered_without_data"]) == (50, 46)
    assert totals["data"] == 8


def test_a_gap_between_addresses_is_where_it_was_after_bins_have_doubled(make_port):
    port = make_port(latency_cycles=5)
    master = PinMaster(port)
    master.clock()
    master.clocks.clear()
    port.record(ROOM, BURST)
    for gap in (100, 700, MOST_BINS):
        master.clock(address=0)
        for _ in range(gap):
            master.clock()
    master.clock(address=0)
    recording = port.recording()
    expected, _ = recount(master.clocks)
    starts = np.arange(0, len(master.clocks), recording.bin_clocks)
    for name in EVENTS:
        np.testing.assert_array_equal(
            recording.bins[name], np.add.reduceat(expected[name], starts), name
        )
    assert recording.totals["unoffered"] == 100 + 700 + MOST_BINS


def test_data_requested_before_the_recording_is_waited_for(make_port):
    port = make_port(latency_cycles=10)
    master = PinMaster(port)
    master.clock()
    master.clock(address=0, beats=2)
    port.record(ROOM, BURST)
    master.clock(address=0, beats=1)
    for _ in range(20):
        master.clock()
    totals = port.recording().totals
    # The first offer is at clock 0, data of 3 beats from clock 9 on.
    assert [totals[name] for name in CLASSES] == [3, 0, 9, 9]


def test_data_received_before_the_recording_is_not_waited_for(make_port):
    port = make_port(latency_cycles=10)
    master = PinMaster(port)
    master.clock()
    master.clock(address=0, beats=4)
    while sum(pins["rvalid"] for pins in master.clocks) < 2:
        master.clock()
    port.record(ROOM, BURST)
    for address in (0, None, None, None):
        master.clock(address=address, beats=1)
    for _ in range(20):
        master.clock()
    totals = port.recording().totals
    assert [totals[name] for name in CLASSES] == [3, 0, 8, 13]


def test_a_reset_forgets_what_is_due(make_port):
    port = make_port(latency_cycles=10)
    master = PinMaster(port)
    master.clock()
    port.record(ROOM, BURST)
    master.clock(address=0)
    master.clock(reset=True)
    for _ in range(30):
        master.clock()
    totals = port.recording().totals
    assert (totals["data"], totals["waiting"], totals["unrequested"]) == (0, 1, 30)


def test_a_port_that_is_not_recorded_says_so(make_port):
    port = make_port()
    with pytest.raises(ValueError, match="not recorded"):
        port.recording()
    port.record(ROOM, BURST)
    recording = port.recording()
    assert recording.first_offer is None and recording.last_data is None
    assert recording.bins["data"].size == 0
    port.stop_recording()
    with pytest.raises(ValueError, match="not recorded"):
        port.recording()


@pytest.mark.parametrize("name", ["room_beats", "burst_beats", "turnaround_clocks"])
def test_the_room_of_the_reader_is_checked(make_port, name):
    with pytest.raises(ValueError, match=f"{name} must be in"):
        make_port().record(**{"room_beats": 1, "burst_beats": 1} | {name: -1})


def test_recordings_are_snapshots(make_port):
    port = make_port(latency_cycles=3)
    master = PinMaster(port)
    port.record(ROOM, BURST)
    master.clock()
    drive(master, 100, seed=1)
    before = port.recording()
    saved = dataclasses.replace(
        before, bins={name: values.copy() for name, values in before.bins.items()}
    )
    drive(master, 100, seed=2)
    assert port.recording().clocks == before.clocks + 100
    for name in before.bins:
        np.testing.assert_array_equal(before.bins[name], saved.bins[name])
