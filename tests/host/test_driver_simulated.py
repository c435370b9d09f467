"""The driver on the simulated hardware, whose memory stalls, fails or never answers."""

import numpy as np
import pytest

from host.checks.verify import golden_results, mismatches
from host.device import Device, DeviceError
from host.driver import Head, JobError, JobTimeout
from host.image import save_image
from hw.config import HeadConfig
from hw.status import Status
from sim.device import SimDevice
from sim.memory import DEVICES, DramTiming, Faults, MemoryModel, Stalls

# The default hardware, whose simulator other tests need as well.
CONFIG = HeadConfig()
K = 64
RNG = np.random.default_rng(11)
HIDDEN = RNG.normal(size=(2, 70))


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    weights = RNG.integers(-128, 128, (300, 70))
    scales = RNG.integers(1, 2**16, (300, 3))
    path = tmp_path_factory.mktemp("image") / "head.safetensors"
    return save_image(path, CONFIG, weights, scales, 1e-6)


@pytest.fixture(scope="module")
def golden(image):
    return golden_results(image, HIDDEN, K, 16)


def assert_right(head, golden):
    assert not len(mismatches(head.run(HIDDEN, K), *golden))


def test_the_simulator_satisfies_the_protocol():
    with SimDevice(CONFIG) as device:
        assert isinstance(device, Device)


@pytest.mark.parametrize(
    "memory",
    [
        MemoryModel(),
        MemoryModel(base=1 << 40, size=1 << 20),
        MemoryModel(stalls=Stalls.everywhere(0.4, 8, seed=3), idle_garbage=True),
    ],
    ids=["plain", "above 32 bits", "stalls"],
)
def test_results_do_not_depend_on_the_memory(image, golden, memory):
    with SimDevice(CONFIG, memory) as device:
        assert_right(Head(device, image), golden)


@pytest.mark.parametrize(
    "stalls", [Stalls(), Stalls.everywhere(0.2, 30, seed=5)], ids=["plain", "stalls"]
)
@pytest.mark.parametrize("name", DEVICES)
def test_results_do_not_depend_on_the_timing_of_the_dram(image, golden, name, stalls):
    memory = MemoryModel(dram=DramTiming(DEVICES[name]), stalls=stalls)
    with SimDevice(CONFIG, memory, 300e6) as device:
        assert_right(Head(device, image), golden)
        assert device.port.violations() == []


@pytest.mark.parametrize(
    ("faults", "status"),
    [(Faults(read_beats=(7,)), Status.READ), (Faults(write_responses=(0,)), Status.WRITE)],
)
def test_a_bus_error_is_told_and_the_next_job_is_right(image, golden, faults, status):
    with SimDevice(CONFIG, MemoryModel(faults=faults)) as device:
        head = Head(device, image)
        with pytest.raises(JobError, match=rf"job 1, of state 0, ended with status {status.name}"):
            head.run(HIDDEN, K)
        assert_right(head, golden)


def test_after_a_timeout_a_soft_reset_makes_the_next_job_right(image, golden):
    with SimDevice(CONFIG, MemoryModel(latency_cycles=3000)) as device:
        head = Head(device, image)
        with pytest.raises(JobTimeout, match="did not end within 2000 clocks"):
            head.run(HIDDEN, K, deadline_cycles=2000)
        with pytest.raises(DeviceError, match="still busy"):
            head.run(HIDDEN, K)
        head.soft_reset()
        assert_right(head, golden)


def test_opening_a_device_in_the_middle_of_a_job_resets_it(image, golden):
    with SimDevice(CONFIG, MemoryModel(latency_cycles=3000)) as device:
        with pytest.raises(JobTimeout):
            Head(device, image).run(HIDDEN, K, deadline_cycles=2000)
        assert_right(Head(device, image), golden)


@pytest.mark.parametrize("channel", ["ar", "r", "aw", "w", "b"])
def test_a_memory_that_never_answers_times_out(image, channel):
    with SimDevice(CONFIG, MemoryModel(faults=Faults(dead=(channel,)))) as device:
        head = Head(device, image)
        with pytest.raises(JobTimeout, match=r"within 20000 clocks \(CONTROL .*ERRORS "):
            head.run(HIDDEN, K, deadline_cycles=20_000)
