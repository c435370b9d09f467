"""The two clocks of the DRAM model over long times."""

import math
from fractions import Fraction

import pytest

from sim.memory import DEVICES, DramTiming, MemoryModel
from sim.memory.traffic import idle_latency, run_traffic

CLOCKS = [150e6, 300e6, Fraction(10**9, 3), 266_666_667, 533.25e6]
LONG_CYCLES = 1 << 56
"""Years; exact arithmetic needs more than the 53 bits of a float, and more than 64 in between."""


def model(device, **options):
    return MemoryModel(dram=DramTiming(device, **options), max_outstanding=4096)


@pytest.mark.parametrize("clock_hz", CLOCKS)
@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("row", ["closed", "hit", "conflict"])
def test_a_lone_read_takes_the_clocks_of_its_commands(device, clock_hz, row):
    """No data comes before them; crossing to the DRAM and back takes two clocks of the port."""
    clocks = device.read_clocks(64) - 1
    clocks += {"closed": device.trcd, "hit": 0, "conflict": device.trp + device.trcd}[row]
    if device.bank_groups > 1 and device.access_bytes < 64 and row != "hit":
        # A row is opened in each of two bank groups.
        clocks += device.trrd_s - device.tccd_s
    clocks += DramTiming(device).latency_clocks
    cycles = clocks * Fraction(clock_hz).limit_denominator(10**6) / device.clock_hz
    assert cycles <= idle_latency(model(device), 512, clock_hz, row) <= math.ceil(cycles) + 2


@pytest.mark.parametrize("clock_hz", CLOCKS)
def test_the_clocks_do_not_drift_apart(clock_hz):
    """After a whole number of refresh intervals everything is as it was at the start."""
    device = DEVICES["ddr4-2400-x64"]
    ratio = Fraction(clock_hz).limit_denominator(10**6) / device.clock_hz
    period = device.trefi * ratio
    # Clocks of the port until both clocks and the refresh meet again.
    again = period.numerator

    def traffic(skipped_cycles):
        options = {"warm_up_cycles": round(period / 8), "cycles": round(period)}
        return run_traffic(model(device), 512, clock_hz, skipped_cycles=skipped_cycles, **options)

    late = -(-LONG_CYCLES // again) * again
    # Between two refreshes, at several distances from them.
    starts = [round(period * (1 + Fraction(part, 16))) for part in (3, 6, 9, 12)]
    early = [traffic(start) for start in starts]
    assert [traffic(start + late) for start in starts] == early
    assert len({result.latency_cycles for result in early}) > 1


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_refreshes_of_a_long_pause_are_caught_up_at_once(device):
    """A read one by one through the missed refreshes would never end."""
    pause = LONG_CYCLES + 12_345
    early = idle_latency(model(device), 512, device.clock_hz, "closed")
    late = idle_latency(model(device), 512, device.clock_hz, "closed", skipped_cycles=pause)
    refreshing = device.trfc + device.trp
    assert early <= late <= early + refreshing


@pytest.mark.parametrize("clock_hz", CLOCKS)
def test_skipping_clocks_is_the_same_as_counting_them(clock_hz):
    device = DEVICES["lpddr4-3200-x32"]
    for row in ("closed", "hit", "conflict"):
        memory = model(device, refresh=False)
        direct = idle_latency(memory, 512, clock_hz, row, skipped_cycles=1_000_000)
        assert abs(direct - idle_latency(memory, 512, clock_hz, row)) <= 1


@pytest.mark.parametrize("ports", [2, 4])
def test_ports_in_the_same_banks_all_get_their_share(ports):
    shared = run_traffic(model(DEVICES["ddr3-1600-x16"], count=1), 128, 300e6, ports=ports)
    share = sum(shared.port_read_bytes) / ports
    assert all(taken == pytest.approx(share, rel=0.01) for taken in shared.port_read_bytes)
