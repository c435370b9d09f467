"""The timing of the simulated DRAM at its AXI ports."""

from dataclasses import replace
from fractions import Fraction

import pytest

from sim.memory import DEVICES, DramTiming, MemoryModel, Stalls
from sim.memory.traffic import Pattern, idle_latency, run_traffic, sequential_limit
from tests.cosim import copier

DDR3, DDR4, LPDDR4, HBM2 = (
    DEVICES[name] for name in ("ddr3-1600-x16", "ddr4-2400-x64", "lpddr4-3200-x32", "hbm2-2000-pc")
)


def model(device=DDR4, **options):
    return MemoryModel(dram=DramTiming(device, **options), max_outstanding=4096)


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("bus_bits", [64, 512])
def test_what_is_written_is_read_whatever_the_widths(device, bus_bits):
    with copier.make_device(model(device), bus_bits, clock_hz=300e6) as simulated:
        copier.copy(simulated, beats=300)
        statistics = simulated.port.statistics()
        assert simulated.port.violations() == []
    assert statistics.write_responses == statistics.write_bursts == 4


@pytest.mark.parametrize("order", ["any", "address_first", "data_first"])
def test_no_write_is_lost_under_stalls(order):
    memory = replace(model(HBM2), write_order=order, stalls=Stalls.everywhere(0.3, 20, 3))
    with copier.make_device(memory, 64, clock_hz=300e6) as simulated:
        for _ in range(3):
            copier.copy(simulated, beats=300)
        assert simulated.port.statistics().write_responses == 12
        assert simulated.port.violations() == []


def test_a_reset_forgets_what_was_under_way():
    with copier.make_device(model(), clock_hz=300e6) as simulated:
        copier.start(simulated, 400)
        simulated.run(70)
        simulated.reset()
        copier.copy(simulated, beats=300)
        assert simulated.port.violations() == []


def test_the_same_traffic_takes_the_same_time():
    pattern = Pattern(random=True, write_every=5, seed=9)
    assert run_traffic(model(), 512, 300e6, pattern) == run_traffic(model(), 512, 300e6, pattern)
    other = run_traffic(model(), 512, 300e6, replace(pattern, seed=10))
    assert other != run_traffic(model(), 512, 300e6, pattern)


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_refresh_takes_what_its_timing_says(device):
    def fraction(refresh):
        traffic = run_traffic(model(device, refresh=refresh), 512, device.clock_hz)
        return traffic.fraction_of_peak

    assert fraction(False) > 0.9995
    assert fraction(True) == pytest.approx(device.refresh_fraction, rel=0.003)


@pytest.mark.parametrize("clock_mhz", [150, 200, 250, 300, Fraction(1000, 3), 399.999])
def test_the_rate_of_the_dram_does_not_depend_on_the_clock_of_the_port(clock_mhz):
    clock = Fraction(clock_mhz) * 10**6
    found = run_traffic(model(DDR3), 512, clock).bytes_per_s
    assert found == pytest.approx(DDR3.refresh_fraction * DDR3.peak_bytes_per_s, rel=0.003)


@pytest.mark.parametrize(("bus_bits", "clock_mhz"), [(64, 200), (64, 300), (128, 150), (256, 300)])
def test_a_slow_port_limits_a_fast_dram(bus_bits, clock_mhz):
    # The DRAM rides through its refreshes with what it has read ahead.
    limit = sequential_limit(model(), bus_bits, clock_mhz * 1e6)
    assert limit == pytest.approx(bus_bits / 8, rel=1e-4)


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("row", ["closed", "hit", "conflict"])
def test_controller_and_interconnect_add_their_latency(device, row):
    def latency(latency_ns):
        return idle_latency(model(device, latency_ns=latency_ns), 512, device.clock_hz, row)

    added = latency(100) - latency(0)
    # In whole clocks of the DRAM, rounded up.
    assert added == -(-100 * device.clock_hz // 10**9)


def test_ports_that_share_a_device_get_the_same():
    alone = run_traffic(model(), 512, 300e6)
    shared = run_traffic(model(count=1), 512, 300e6, ports=2)
    first, second = shared.port_read_bytes
    assert first == pytest.approx(second, rel=0.01)
    # Both have a stream of their own, in other rows of the same banks at times.
    assert 0.85 * alone.read_bytes < first + second <= alone.read_bytes * 1.001


def test_ports_with_a_device_each_do_not_meet():
    alone = run_traffic(model(), 512, 300e6)
    both = run_traffic(model(), 512, 300e6, ports=2)
    assert both.port_read_bytes == (alone.read_bytes, alone.read_bytes)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("interleave_bytes", [16, 256])
def test_devices_behind_one_port_add_up(count, interleave_bytes):
    memory = model(DDR3, count=count, interleave_bytes=interleave_bytes)
    found = run_traffic(memory, 512, 300e6).bytes_per_s
    expected = count * DDR3.refresh_fraction * DDR3.peak_bytes_per_s
    assert found == pytest.approx(expected, rel=0.01)


def test_coarse_interleaving_has_one_device_work_at_a_time():
    """A burst for a device whose queue is full holds up those for the others."""
    found = run_traffic(model(DDR3, count=4, interleave_bytes=4096), 512, 300e6).bytes_per_s
    assert found < 1.2 * DDR3.peak_bytes_per_s


def test_latency_and_outstanding_bytes_limit_the_rate():
    """Little's law: what is under way by the time it is under way."""
    burst = Pattern(burst_bytes=1024, outstanding=2)
    slow = run_traffic(model(latency_ns=400), 512, 300e6, burst)
    assert slow.bytes_per_s == pytest.approx(2048 / (slow.mean_latency_ns * 1e-9), rel=0.03)
    assert slow.mean_latency_ns > 400


def test_time_passes_without_accesses_and_during_a_reset():
    """A read after a long pause finds its row closed by the refreshes since."""
    with copier.make_device(model(refresh=True), clock_hz=300e6) as simulated:
        times = []
        for pause in (0, 1, 10_000_000):
            simulated.run(pause)
            before = simulated.cycles
            copier.copy(simulated, beats=64)
            times.append(simulated.cycles - before)
    assert max(times) - min(times) < 300


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"latency_ns": -1}, "latency_ns must be in 0..100000, got -1"),
        ({"count": 3}, "count must be a power of two in 1..1024, got 3"),
        ({"queue": 0}, "queue must be in 1..1024, got 0"),
        ({"mapping": "ro.co"}, "mapping must order ro, ba, bg, co"),
        ({"interleave_bytes": 16}, "interleave_bytes must be in 64..1048576, got 16"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError) as caught:
        DramTiming(DDR4, **options)
    assert message in str(caught.value)


def test_a_device_must_be_one():
    with pytest.raises(TypeError, match="device must be a DramDevice, got 'ddr4'"):
        DramTiming("ddr4")


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_the_organisation_of_a_device_gives_its_peak(device):
    assert device.peak_bytes_per_s == device.data_rate * 10**6 * device.bus_bits // 8 * (
        device.channels
    )
    assert device.access_bytes == device.bus_bits // 8 * device.burst_length
    assert 2 * device.clock_hz == device.data_rate * 10**6
