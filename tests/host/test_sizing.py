"""Burst and buffer chosen for a memory: Little's law, refresh, and what a small buffer costs."""

from fractions import Fraction

import numpy as np
import pytest

from host.driver import Head
from host.image import save_image
from hw.config import HeadConfig, is_power_of_two
from hw.reader import ROOM_CLOCKS
from sim.device import SimDevice
from sim.memory import DEVICES, DramTiming, MemoryModel
from sim.memory.sizing import READER_CYCLES, choose, read_path
from sim.memory.traffic import Pattern, run_traffic

RNG = np.random.default_rng(4)
SYSTEMS = [
    (name, bus_bits, mhz, ports)
    for name in DEVICES
    for bus_bits in (64, 128, 256, 512)
    for mhz in (100, 250, Fraction(1000, 3), 800)
    for ports in (1, 4)
]


def dram(name, **options):
    return MemoryModel(dram=DramTiming(DEVICES[name], **options))


@pytest.mark.parametrize("latency", [1, 40, 100, 186])
def test_a_fixed_latency_that_the_usual_buffer_hides_keeps_the_usual_sizes(latency):
    for bus_bits in (64, 128, 256, 512):
        usual = HeadConfig(bus_bits=bus_bits)
        sizing = choose(MemoryModel(latency_cycles=latency), bus_bits, 250e6)
        assert (sizing.max_burst, sizing.outstanding_bytes) == (
            usual.max_burst,
            usual.outstanding_bytes,
        )


def test_a_longer_latency_has_shorter_bursts_first_and_then_a_larger_buffer():
    sizes = [
        (sizing.max_burst, sizing.outstanding_bytes // 64)
        for sizing in (choose(MemoryModel(latency_cycles=n), 512, 250e6) for n in (188, 236, 400))
    ]
    assert sizes == [(32, 256), (64, 512), (64, 512)]


@pytest.mark.parametrize(("name", "bus_bits", "mhz", "ports"), SYSTEMS)
def test_the_choice_is_enough_least_and_one_that_hardware_takes(name, bus_bits, mhz, ports):
    memory, clock_hz = dram(name), mhz * 10**6
    sizing = choose(memory, bus_bits, clock_hz, ports)
    HeadConfig(
        bus_bits=bus_bits, max_burst=sizing.max_burst, outstanding_bytes=sizing.outstanding_bytes
    )
    assert is_power_of_two(sizing.outstanding_bytes)
    assert sizing.outstanding_bytes >= sizing.needed_bytes
    assert not sizing.limits and sizing.share == 1
    # A half of it does not do, even with the shortest bursts, or the hardware cannot have it.
    path = read_path(memory, bus_bits, clock_hz, ports)
    half, bus_bytes = sizing.outstanding_bytes // 2, bus_bits // 8
    assert half < path.needed_bytes(16 * bus_bytes) or half < 8 * bus_bytes


def test_what_is_under_way_is_bandwidth_times_latency_and_a_burst():
    # 100 ns and, by the data sheet, 17 + 17 + (1 + 17 + 4) clocks of 1200 MHz are 44 clocks of 300.
    sizing = choose(dram("ddr4-2400-x64"), 512, 300e6)
    assert sizing.needed_bytes == 64 * (30 + 14 + 7) + 64 * 32
    assert (sizing.max_burst, sizing.outstanding_bytes) == (32, 8192)


def test_a_bus_slower_than_the_memory_reads_on_during_a_refresh():
    path = read_path(dram("ddr4-2400-x64"), 512, 250_000_000, 1)
    pause = Fraction(420 + 9 + 17 + 17, 1_200_000_000)
    assert path.refresh_bytes == 64 * 250_000_000 * pause
    assert read_path(dram("ddr4-2400-x64"), 512, 300_000_000, 1).refresh_bytes == 0
    assert read_path(dram("ddr4-2400-x64", refresh=False), 512, 250e6, 1).refresh_bytes == 0


def test_no_more_is_buffered_for_a_refresh_than_the_memory_fills_up_until_the_next():
    # 298 MHz of 64 bytes leave the memory 128 MB/s to catch up with: 998 bytes in a tREFI.
    path = read_path(dram("ddr4-2400-x64"), 512, 298_000_000, 1)
    rest = Fraction(9360 - 463, 1_200_000_000)
    assert path.refresh_bytes == (19_200_000_000 - 64 * 298_000_000) * rest


def test_too_little_for_a_refresh_costs_what_is_missing_in_each_interval():
    memory = dram("ddr4-2400-x64")
    sizing = choose(memory, 512, 250e6, max_burst=16, outstanding_bytes=8192)
    missing = sizing.needed_bytes - 8192
    assert sizing.share == pytest.approx(1 - missing / (64 * 9360 * 250 / 1200))


@pytest.mark.parametrize(("name", "bus_bits", "mhz", "ports"), SYSTEMS)
@pytest.mark.parametrize("count", [None, 8])
def test_the_choice_reads_as_fast_as_any_number_of_requests(name, bus_bits, mhz, ports, count):
    memory, clock_hz = dram(name, count=count), mhz * 10**6
    sizing = choose(memory, bus_bits, clock_hz, ports)
    burst_bytes = sizing.max_burst * bus_bits // 8
    limited = Pattern(burst_bytes, outstanding=sizing.outstanding_bytes // burst_bytes)
    found, limit = (
        run_traffic(memory, bus_bits, clock_hz, pattern, ports=ports).bytes_per_cycle
        for pattern in (limited, Pattern(burst_bytes))
    )
    assert found >= 0.99 * limit


@pytest.mark.parametrize("name", DEVICES)
def test_ports_that_share_a_device_need_what_each_would_need_alone(name):
    shared, alone = choose(dram(name, count=1), 256, 250e6, 4), choose(dram(name), 256, 250e6)
    assert shared.outstanding_bytes == alone.outstanding_bytes


def test_ports_that_share_a_device_share_its_bandwidth():
    alone = read_path(dram("ddr4-2400-x64"), 512, 300e6, 4)
    shared = read_path(dram("ddr4-2400-x64", count=1), 512, 300e6, 4)
    several = read_path(dram("ddr4-2400-x64", count=8), 256, 1200e6, 4)
    assert (alone.bytes_per_cycle, shared.bytes_per_cycle) == (64, 16)
    assert several.bytes_per_cycle == 32


def test_given_sizes_are_kept_and_the_other_fits():
    memory = dram("ddr4-2400-x64")
    assert choose(memory, 512, 300e6, max_burst=8).max_burst == 8
    assert choose(memory, 512, 300e6, max_burst=8).outstanding_bytes == 4096
    assert choose(memory, 512, 300e6, outstanding_bytes=32768).max_burst == 64
    small = choose(memory, 512, 300e6, outstanding_bytes=2048)
    assert (small.max_burst, small.outstanding_bytes) == (16, 2048)
    assert small.needed_bytes == 4288
    # With the row open data come after 100 ns, 22 clocks of the DRAM and 7 of the reader.
    assert small.limits and small.share == pytest.approx(2048 / (64 * (30 + 5.5 + 7) + 1024))
    assert choose(memory, 512, 300e6, outstanding_bytes=512).max_burst == 8


def test_a_latency_beyond_the_largest_buffer_limits_and_says_so():
    sizing = choose(MemoryModel(latency_cycles=100_000), 512, 250e6)
    assert sizing.outstanding_bytes == 2**20
    assert sizing.limits and sizing.share == pytest.approx(2**20 / (64 * 100_021), rel=1e-6)


def test_the_accelerators_share_of_a_round_trip_is_its_readers():
    assert READER_CYCLES == ROOM_CLOCKS


@pytest.mark.parametrize(("above", "share"), [(0, 1), (1, 32 / 33), (16, 32 / 48)])
def test_the_accelerator_needs_exactly_what_the_law_says(tmp_path, above, share):
    """Bursts of 16 beats and a buffer of 32 hide a latency of 16 clocks, the reader's included."""
    config = HeadConfig(
        bus_bits=64, width=8, tile_rows=64, max_dim=64, max_rows=1024, k=8, max_burst=16,
        outstanding_bytes=256,
    )  # fmt: skip
    weights = RNG.integers(-128, 128, (1024, 64))
    image = save_image(
        tmp_path / "a.safetensors", config, weights, RNG.integers(1, 400, (1024, 2)), 1e-4
    )
    memory = MemoryModel(latency_cycles=32 - 16 - READER_CYCLES + above)
    sizing = choose(memory, 64, 250e6, max_burst=16, outstanding_bytes=256)
    assert sizing.share == pytest.approx(share)
    assert sizing.limits == (above > 0)
    with SimDevice(config, memory) as device:
        results = Head(device, image).run(RNG.normal(size=(1, 64)), 8)
    counters = {name: int(values[0]) for name, values in results.counters.items()}
    busy = counters["stream_beats"] / (counters["stream_beats"] + counters["wait_cycles"])
    assert busy == pytest.approx(share, rel=0.005)
