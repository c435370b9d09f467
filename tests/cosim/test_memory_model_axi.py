"""The AXI port of the simulated DRAM: timing, stalls, faults and checks of the master."""

import dataclasses

import numpy as np
import pytest

from sim.memory import CHANNELS, Faults, MemoryModel, Stall, Stalls
from sim.memory.model import DECERR
from tests.cosim import copier


@pytest.mark.parametrize("bus_bits", [64, 128, 256, 512])
def test_every_bus_width_reads_and_writes_the_right_bytes(bus_bits):
    with copier.make_device(bus_bits=bus_bits) as device:
        copier.copy(device, beats=200)
        statistics = device.port.statistics()
        assert device.port.violations() == []
    assert statistics.read_bytes == 200 * bus_bits // 8
    assert statistics.write_bytes == 64 * bus_bits // 8
    assert (statistics.read_bursts, statistics.read_beats) == (13, 200)
    assert (statistics.write_bursts, statistics.write_beats) == (4, 64)
    assert statistics.write_responses == 4


def job_cycles(beats, **model):
    with copier.make_device(MemoryModel(**model)) as device:
        device.write_memory(copier.SOURCE_ADDRESS, copier.random_bytes(beats * 64))
        copier.start(device, beats)
        before = device.cycles
        device.wait_interrupt(100_000)
        return device.cycles - before


def test_a_cycle_of_latency_costs_a_cycle():
    base = job_cycles(500, latency_cycles=1)
    assert job_cycles(500, latency_cycles=161) - base == 160


def test_beats_follow_one_a_clock():
    assert job_cycles(2500) - job_cycles(500) == 2000


def test_outstanding_bursts_limit_the_throughput():
    # Sixteen beats per latency of 64 cycles and some cycles of handshakes.
    assert job_cycles(1600, latency_cycles=64, max_outstanding=1) > 100 * (64 + 15)


def test_the_limit_of_outstanding_bursts_is_kept():
    with copier.make_device(MemoryModel(latency_cycles=100, max_outstanding=3)) as device:
        copier.copy(device)
        assert device.port.statistics().max_outstanding_reads == 3


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_stalled_channel_costs_time_and_no_data(channel):
    quiet = job_cycles(200)
    stalls = dataclasses.replace(Stalls(), **{channel: Stall(0.5, 20, seed=3)})
    with copier.make_device(MemoryModel(stalls=stalls)) as device:
        copier.copy(device)
        assert device.port.violations() == []
    assert job_cycles(200, stalls=stalls) > quiet


def test_stalls_repeat_with_their_seed():
    def cycles(seed):
        return job_cycles(300, stalls=Stalls.everywhere(0.3, 5, seed))

    assert cycles(1) == cycles(1)
    assert len({cycles(seed) for seed in range(1, 6)}) > 1


@pytest.mark.parametrize("order", ["any", "address_first", "data_first"])
@pytest.mark.parametrize("probability", [0, 0.4])
def test_writes_arrive_in_any_order_of_address_and_data(order, probability):
    model = MemoryModel(write_order=order, stalls=Stalls.everywhere(probability, 6, 7))
    with copier.make_device(model) as device:
        copier.copy(device)
        assert device.port.statistics().write_responses == 4
        assert device.port.violations() == []


def test_only_strobed_bytes_are_written():
    with copier.make_device() as device:
        data = copier.random_bytes(64)
        device.write_memory(copier.SOURCE_ADDRESS, data)
        device.write_memory(copier.TARGET_ADDRESS, np.full(128, 9, np.uint8))
        copier.start(device, 1, strobe=0b0110)
        device.wait_interrupt(1000)
        written = device.read_memory(copier.TARGET_ADDRESS, 128)
        assert device.port.statistics().write_bytes == 32
    strobed = np.tile([False, True, True, False], 16)
    np.testing.assert_array_equal(written[:64], np.where(strobed, data, 9))
    assert (written[64:] == 9).all()


def test_garbage_on_idle_channels_reaches_nobody():
    with copier.make_device(
        MemoryModel(idle_garbage=True, stalls=Stalls.everywhere(0.3))
    ) as device:
        copier.copy(device)
        assert device.read_register(copier.ERROR_BEATS) == 0
        assert device.read_register(copier.ERROR_RESPONSES) == 0


def test_chosen_read_beats_fail_once():
    with copier.make_device(MemoryModel(faults=Faults(read_beats=(3, 150, 7)))) as device:
        copier.copy(device)
        assert device.read_register(copier.ERROR_BEATS) == 3
        copier.copy(device)
        assert device.read_register(copier.ERROR_BEATS) == 0
        device.port.set_faults(Faults(read_beats=(0,), read_response=DECERR))
        copier.copy(device)
        assert device.read_register(copier.ERROR_BEATS) == 1


def test_chosen_write_responses_fail():
    with copier.make_device(MemoryModel(faults=Faults(write_responses=(1, 3)))) as device:
        copier.copy(device)
        assert device.read_register(copier.ERROR_RESPONSES) == 2


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_dead_channel_stops_the_master_until_it_revives(channel):
    with copier.make_device(MemoryModel(faults=Faults(dead=(channel,)))) as device:
        with pytest.raises(TimeoutError, match="no interrupt within 3000 cycles"):
            copier.copy(device, limit=3000)
        device.port.set_faults(Faults())
        device.wait_interrupt(3000)
        assert device.read_register(copier.SUM) == copier.checksum(copier.random_bytes(200 * 64))


@pytest.mark.parametrize(
    ("model", "source", "target", "errors"),
    [
        (MemoryModel(base=0x1000, size=0x2000), 0x0, 0x1000, (64, 0)),
        (MemoryModel(base=0x1000, size=0x2000), 0x1000, 0x3000, (0, 4)),
        (MemoryModel(base=0x1000, size=0x1800), 0x2000, 0x2400, (32, 3)),
    ],
    ids=["read_before", "write_behind", "partly_behind"],
)
def test_accesses_outside_the_memory_answer_decerr(model, source, target, errors):
    with copier.make_device(model) as device:
        copier.start(device, 64, source=source, target=target)
        device.wait_interrupt(5000)
        assert device.read_register(copier.ERROR_BEATS) == errors[0]
        assert device.read_register(copier.ERROR_RESPONSES) == errors[1]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"sins": ("withdraw",)}, "ARVALID was withdrawn before ARREADY"),
        ({"sins": ("change",)}, "AR changed while waiting for ARREADY"),
        ({"sins": ("size",)}, "ARSIZE is 2, the bus needs 6"),
        ({"sins": ("early_wlast",)}, "WLAST is high before the last beat"),
        ({"sins": ("early_wlast",), "beats": 2}, "WLAST is missing on the last beat"),
        ({"sins": ("change_w",)}, "W changed while waiting for WREADY"),
        ({"burst": 65}, "AR burst of 65 beats crosses a 4 KiB boundary"),
        ({"target": copier.TARGET_ADDRESS + 0x200}, "AW burst of 16 beats crosses a 4 KiB"),
        ({"source": copier.SOURCE_ADDRESS + 8}, "ARADDR is not aligned to the bus"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(map(str, value)),
)
def test_violations_of_the_protocol_are_recorded(options, rule):
    stalls = Stalls(ar=Stall(0.7, 4, 1), w=Stall(0.7, 4, 2))
    with copier.make_device(MemoryModel(stalls=stalls)) as device:
        copier.start(device, **{"beats": 200} | options)
        device.wait_interrupt(20_000)
        violations = device.port.violations()
        assert any(rule in violation for violation in violations), violations
        assert device.port.violation_count >= len(violations)
        device.port.clear_violations()
        assert device.port.violations() == []


def test_violations_name_cycle_and_address():
    with copier.make_device() as device:
        copier.start(device, 65, burst=65)
        device.wait_interrupt(1000)
        (violation,) = device.port.violations()
    assert violation.startswith("cycle ")
    assert violation.endswith(f"(address {copier.SOURCE_ADDRESS:#x})")


def test_refused_beats_are_counted():
    with copier.make_device() as device:
        copier.copy(device)
        assert device.port.statistics().refused_read_cycles == 0
        copier.copy(device, sins=("refuse",))
        assert device.port.statistics().refused_read_cycles > 200


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MemoryModel(latency_cycles=0), "latency_cycles must be in 1.."),
        (lambda: MemoryModel(max_outstanding=0), "max_outstanding must be in 1.."),
        (lambda: MemoryModel(base=2**63, size=2**63 + 1), r"base \+ size must be at most"),
        (lambda: MemoryModel(write_order="last"), "write_order must be one of any, address_first"),
        (lambda: Stall(1.0), "probability must be at least 0 and below 1, got 1.0"),
        (lambda: Stall(0.5, 0), "longest must be in 1.."),
        (lambda: Faults(dead=("x",)), "dead must name channels"),
        (lambda: Faults(read_beats=(-1,)), "read_beats must be in 0.."),
        (lambda: Faults(read_response=4), "read_response must be in 0..3, got 4"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
