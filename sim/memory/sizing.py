"""How much read data to have under way: burst length and buffer for a memory and a clock."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from hw.config import AXI_BOUNDARY_BYTES
from sim.memory.model import MemoryModel

READER_CYCLES = 5
"""The accelerator's share of a round trip: from a beat that leaves the reader to the request that
takes its place, and from data on the pins to the reader's output (`hw.reader.ROOM_CLOCKS`)."""
CROSSING_CYCLES = 2
"""Request and data wait for an edge of the DRAM's clock and of the port's."""
USUAL_BURST_BEATS, LEAST_BURST_BEATS = 64, 16
"""Bursts are shortened from the first to the second before the buffer is doubled: below it a
request may come too late to hide its own two clocks."""
USUAL_BEATS = 256
"""The buffer with a memory of fixed latency, which stands for no memory in particular."""
LEAST_BURSTS = 4
"""Bursts are shortened until the buffer holds as many, so that devices and banks that they are
spread over all have work."""
NOTABLE_SHARE = 0.005
"""What a buffer may cost unsaid."""
LEAST_BEATS, MOST_BYTES = 8, 2**20
"""The least and the largest buffer that `HeadConfig` takes."""


@dataclass(frozen=True)
class ReadPath:
    """What one AXI port gets from a memory while it reads sequentially.

    All sizes are exact, in bytes and clocks of the port.
    """

    bytes_per_cycle: Fraction
    """The bus or the port's share of the memory, whichever is less, refresh not deducted."""
    turn_bytes_per_cycle: Fraction
    """The same while it is the port's turn, if ports share a device."""
    latency_cycles: Fraction
    """From a beat that leaves the reader's buffer to the beat requested in its place, its row being
    open."""
    opening_cycles: Fraction
    """What closing a row and opening another takes besides. A controller does it ahead, for
    requests that it has early enough."""
    refresh_bytes: Fraction
    """What the bus can carry during a refresh, and so has to be buffered, as far as the memory is
    fast enough to fill that buffer again before the next one."""
    refresh_interval_cycles: Fraction
    """Clocks between refreshes; zero without."""

    def needed_bytes(self, burst_bytes: int) -> int:
        """Least buffer that does not limit reads in bursts of this size.

        Little's law: bandwidth times latency is under way besides the burst that is being read.
        """
        flight = self.turn_bytes_per_cycle * (self.latency_cycles + self.opening_cycles)
        return ceil(flight + self.refresh_bytes + burst_bytes)

    def share(self, outstanding_bytes: int, burst_bytes: int) -> float:
        """Share of the rate that a buffer allows, 0..1.

        A burst is requested when the buffer has room for all of it, so `outstanding_bytes` are
        read in the time from a request to the last beat of its burst.
        """
        flight_bytes = self.bytes_per_cycle * self.latency_cycles
        flight = outstanding_bytes / (flight_bytes + burst_bytes)
        missing = min(self.refresh_bytes, self.needed_bytes(burst_bytes) - outstanding_bytes)
        if flight < 1 or missing <= 0 or self.bytes_per_cycle < self.turn_bytes_per_cycle:
            # Below the memory's rate anyway, it has time to catch up after a refresh.
            return float(min(flight, 1))
        return float(1 - missing / (self.bytes_per_cycle * self.refresh_interval_cycles))


def read_path(memory: MemoryModel, bus_bits: int, clock_hz, ports: int) -> ReadPath:
    """The path from a memory to one of `ports` AXI ports that read at the same time.

    Parameters
    ----------
    memory : MemoryModel
    bus_bits : int
        Of one port.
    clock_hz : int, float or Fraction
        Of the ports.
    ports : int
    """
    bus_bytes = bus_bits // 8
    dram = memory.dram
    if dram is None:
        latency = memory.latency_cycles + READER_CYCLES
        return ReadPath(*map(Fraction, (bus_bytes, bus_bytes, latency, 0, 0, 0)))
    device = dram.device
    clock = Fraction(clock_hz)
    dram_clock = clock / Fraction(device.clock_hz)  # clocks of the port per clock of the DRAM
    share = Fraction(dram.count or ports, ports)
    device_rate = Fraction(device.peak_bytes_per_s) / clock
    rate = min(Fraction(bus_bytes), device_rate * share)
    peak = device_rate * max(share, 1)
    turn = min(Fraction(bus_bytes), peak)
    opening = (device.trp + device.trcd) * dram_clock
    fixed = Fraction(dram.latency_ns) * clock / 10**9
    latency = fixed + device.read_clocks(1) * dram_clock + READER_CYCLES + CROSSING_CYCLES
    if not dram.refresh:
        return ReadPath(rate, turn, latency, opening, Fraction(0), Fraction(0))
    pause = (device.trfc + device.trtp) * dram_clock + opening
    interval = device.trefi * dram_clock
    refresh = min(turn * pause, (peak - turn) * (interval - pause))
    return ReadPath(rate, turn, latency, opening, refresh, interval)


@dataclass(frozen=True)
class Sizing:
    """Burst length and read buffer of each channel of an accelerator."""

    max_burst: int
    """Beats."""
    outstanding_bytes: int
    """A power of two."""
    reason: str
    """Why, in one line."""
    share: float = 1.0
    """Of the rate that bus and memory allow, what these sizes allow."""
    needed_bytes: int = 0
    """The least `outstanding_bytes` that do not limit reads in bursts of `max_burst`; may be above
    what hardware can have."""

    @property
    def limits(self) -> bool:
        """These sizes keep the memory from its full rate by half a per cent or more."""
        return self.share <= 1 - NOTABLE_SHARE


def _power_of_two(value: int) -> int:
    """The least power of two that is not below `value`."""
    return 1 << (value - 1).bit_length()


def choose(
    memory: MemoryModel,
    bus_bits: int,
    clock_hz,
    ports: int = 1,
    *,
    max_burst: int | None = None,
    outstanding_bytes: int | None = None,
) -> Sizing:
    """The sizes with which reads are limited by the bus or by the memory, not by the reader.

    Little's law: bytes per clock times the clocks from a request to its data, and one burst, have
    to be under way. Where the memory is faster than the bus, what the bus carries during a refresh
    has to be buffered besides. The sum is rounded up to a power of two; bursts are as long as it
    then allows: at most a quarter of it, 64 beats and 4096 bytes, but no less than 16 beats. With a
    memory of fixed latency the buffer holds at least 256 beats.

    Parameters
    ----------
    memory, bus_bits, clock_hz, ports
        As for `read_path`.
    max_burst, outstanding_bytes : int, optional
        A size that is given, not chosen. It is not checked; see `HeadConfig`.
    """
    bus_bytes = bus_bits // 8
    path = read_path(memory, bus_bits, clock_hz, ports)
    longest = min(USUAL_BURST_BEATS, AXI_BOUNDARY_BYTES // bus_bytes)
    shortest = min(LEAST_BURST_BEATS, longest)
    burst, buffer = max_burst, outstanding_bytes
    if buffer is None:
        least = LEAST_BEATS if memory.dram is not None else USUAL_BEATS
        floor = max(least, burst or 0) * bus_bytes
        needed = path.needed_bytes((shortest if burst is None else burst) * bus_bytes)
        buffer = min(_power_of_two(max(floor, needed)), MOST_BYTES)
    if burst is None:
        burst = min(longest, max(shortest, buffer // bus_bytes // LEAST_BURSTS))
        while burst > shortest and path.needed_bytes(burst * bus_bytes) > buffer:
            burst //= 2
        burst = max(1, min(burst, buffer // bus_bytes))
    burst_bytes = burst * bus_bytes
    return Sizing(
        burst,
        buffer,
        _reason(memory, path, burst, burst_bytes),
        path.share(buffer, burst_bytes),
        path.needed_bytes(burst_bytes),
    )


def _reason(memory: MemoryModel, path: ReadPath, burst: int, burst_bytes: int) -> str:
    name = memory.dram.device.name if memory.dram is not None else "a memory of fixed latency"
    refresh = f" + {ceil(path.refresh_bytes):,} for a refresh" if path.refresh_bytes >= 1 else ""
    return (
        f"{name}: {float(path.turn_bytes_per_cycle):.4g} bytes per clock x "
        f"{float(path.latency_cycles + path.opening_cycles):.4g} clocks + "
        f"{burst_bytes:,} for bursts of {burst} beats{refresh} = "
        f"{path.needed_bytes(burst_bytes):,} bytes"
    )
