"""The first job of a simulated accelerator: what its ports recorded, against its counters."""

import numpy as np
import pytest

from host.driver import Head
from host.image import save_image
from host.reports.cycles import Cycles
from hw.config import HeadConfig
from hw.layout import ImageLayout
from hw.reader import READ_LATENCY
from hw.stream_control import start_clocks
from sim.first_job import FirstJobDevice
from sim.memory import MemoryModel, Stall, Stalls

# The default hardware, whose simulator other tests need as well.
CONFIG = HeadConfig()
ROWS, DIM = 600, 200
RNG = np.random.default_rng(4)
HIDDEN = RNG.normal(size=(2, DIM))
ACCEPTED_BEFORE_INTERRUPT = 1
"""Clocks by which a wait for the interrupt outlasts the job's last one."""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    weights = RNG.integers(-128, 128, (ROWS, DIM))
    scales = RNG.integers(1, 2**16, (ROWS, CONFIG.groups(DIM)))
    path = tmp_path_factory.mktemp("image") / "head.safetensors"
    return save_image(path, CONFIG, weights, scales, 1e-6)


class Watched(FirstJobDevice):
    """Notes the clock at which the recordings begin and that at which the first job has ended."""

    def __init__(self, memory):
        super().__init__(CONFIG, memory, 250e6)
        self.begun = self.cycles
        self.ended = None

    def wait_interrupt(self, cycles):
        super().wait_interrupt(cycles)
        self.ended = self.ended or self.cycles


@pytest.fixture(
    params=[
        MemoryModel(),
        MemoryModel(latency_cycles=400),
        MemoryModel(latency_cycles=400, max_outstanding=2),
        MemoryModel(stalls=Stalls(ar=Stall(0.3, 20, 1), r=Stall(0.1, 30, 2))),
    ],
    ids=["near", "far", "few bursts", "stalls"],
)
def run(request, image):
    """A device after two jobs, their results and the recording of the first one."""
    with Watched(request.param) as device:
        results = Head(device, image).run(HIDDEN, 8)
        yield device, results, device.recordings[0]


def test_the_totals_of_a_recording_are_the_counters_of_the_first_job(run):
    _, results, recording = run
    totals, counters = recording.totals, results.counters
    assert totals["data"] == counters["data_beats"][0]
    assert totals["refused"] == 0
    assert totals["address_waiting"] == counters["address_wait_cycles"][0]
    assert totals["write_beats"] * CONFIG.bus_bytes == counters["bytes_written"][0]


def test_start_and_tail_are_where_the_recording_has_them(run):
    device, results, recording = run
    cycles = int(results.counters["cycles"][0])
    split = Cycles.of(results, [ImageLayout(CONFIG, ROWS, DIM)])
    # The clock, counted from the first recorded one, whose edge accepts the job.
    accepted = device.ended - ACCEPTED_BEFORE_INTERRUPT - device.begun - cycles - 1
    assert recording.first_offer - accepted - 1 == start_clocks(CONFIG, 1, 0) == split.start[0, 0]
    parts = (split.data, split.waiting, split.refused, split.start, split.tail)
    assert (sum(parts) == results.counters["cycles"][:, np.newaxis]).all()
    # The last beat leaves the reader as soon as it may, unless one is refused.
    left = accepted + cycles - recording.last_data
    assert split.tail[0, 0] == left - READ_LATENCY or results.counters["refused_cycles"][0]


def test_an_address_is_offered_as_soon_as_there_is_room(run):
    _, results, recording = run
    totals = recording.totals
    bursts = CONFIG.outstanding_beats // CONFIG.max_burst
    if results.counters["refused_cycles"][0]:
        # What the data path has refused takes up room of which the pins tell nothing.
        assert totals["unoffered_without_data"] < bursts + 10
    else:
        # Those that fit at once are offered in every other clock.
        assert totals["unoffered"] == totals["unoffered_without_data"] == bursts - 1


def test_only_the_first_job_is_recorded(run):
    device, results, recording = run
    assert len(results.counters["cycles"]) == 2
    with pytest.raises(ValueError, match="not recorded"):
        device.port.recording()
    assert recording.clocks == device.ended - device.begun
