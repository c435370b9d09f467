"""Closed form of what a memory gives one of the AXI ports that read it sequentially.

The rules are those for streaming reads: Little's law for what is under way, the share that refresh
leaves, the data bus of the DRAM, and the beats of the port, of which there is one a clock at most.
Rows are activated while others are read, so that they cost nothing but in the beginning and behind
a refresh.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from sim.memory.devices import DramDevice
from sim.memory.model import DramTiming, MemoryModel

WRITE_BUFFER = 32
"""Accesses that the controller of a DRAM channel takes before it has written any."""

BUS, DRAM, OUTSTANDING = "bus", "dram", "outstanding"


@dataclass(frozen=True)
class ReadBandwidth:
    """A sequential read through one port."""

    bus_bytes: int
    """Of a beat."""
    burst_beats: int
    latency_cycles: float
    """From the handshake of an address to its first beat, nothing else being under way."""
    beat_cycles: float
    """From a beat to the next while requests are always ahead, refresh apart."""
    drain_cycles: float
    """In which the consumer takes a beat, on average; at least `beat_cycles`."""
    window_beats: int
    """Beats that come in one go before requests are missing."""
    pause_cycles: float
    """How long they then are missing, the consumer having waited for beats meanwhile."""
    waits_for_room: bool = True
    """Requests wait for room in the buffer, not for the memory to take another burst."""
    refresh_pause_cycles: float = 0.0
    """What a refresh holds up the consumer."""
    refresh_cycles: float = 0.0
    """From a refresh to the next; 0 without."""
    limited_by: str = BUS
    """"bus", "dram" or "outstanding"."""

    @property
    def bytes_per_cycle(self) -> float:
        """In the long run."""
        window = self.window_beats * self.beat_cycles
        if self.pause_cycles:
            window = self.window_beats * self.drain_cycles + self.pause_cycles
        rate = self.window_beats * self.bus_bytes / window
        if self.refresh_cycles:
            rate *= 1 - self.refresh_pause_cycles / self.refresh_cycles
        return rate

    def cycles(
        self, beats: int, first_window: int | None = None, elapsed: float | None = None
    ) -> float:
        """Clocks from the first beat to the last, both included.

        Parameters
        ----------
        beats : int
        first_window : int, optional
            Beats before the first pause. Default: a usual window.
        elapsed : float, optional
            Clocks from the last refresh to the first beat. Default: any, so the mean.
        """
        if not beats:
            return 0.0
        first = self.window_beats if first_window is None else first_window
        time = 1 + (beats - 1) * self.beat_cycles
        if beats > first and self.pause_cycles:
            windows, left = divmod(beats - 1 - first, self.window_beats)
            slow = (first + windows * self.window_beats) * (self.drain_cycles - self.beat_cycles)
            time += slow + (windows + 1) * self.pause_cycles
            if self.waits_for_room:
                # A last burst that is short waits for less room.
                short = max(0, self.burst_beats - 1 - left) * self.drain_cycles
                time -= min(self.pause_cycles, short)
        if self.refresh_cycles:
            running = self.refresh_cycles - self.refresh_pause_cycles
            refreshes = time / running
            if elapsed is not None:
                # The last one must come before the end that there is without it.
                refreshes = max(0, (time + elapsed - self.refresh_pause_cycles) // running)
            time += refreshes * self.refresh_pause_cycles
        return time


def read_bandwidth(
    memory: MemoryModel,
    bus_bits: int,
    clock_hz,
    ports: int,
    *,
    burst_beats: int,
    buffer_beats: int,
    reader_cycles: float,
    address_cycles: int = 2,
    drain_cycles: float = 1.0,
    drained_beats: float = 0.0,
    written_share: float = 0.0,
) -> ReadBandwidth:
    """What a port gets from a memory.

    Parameters
    ----------
    memory : MemoryModel
    bus_bits : int
        Of a port.
    clock_hz : number
        Of the ports.
    ports : int
        That read at the same time.
    burst_beats, buffer_beats : int
        Beats of a burst; beats that are under way or buffered at most.
    reader_cycles : float
        From the beat that makes room for a burst to its first beat, besides the latency.
    address_cycles : int
        Least clocks from an address to the next.
    drain_cycles : float
        Clocks in which the reader's consumer takes a beat, on average.
    drained_beats : float
        Beats that the consumer takes at once when it has waited.
    written_share : float
        Beats written by beats read.

    Raises
    ------
    ValueError
        The devices cannot be shared out among the ports.
    """
    bus_bytes = bus_bits // 8
    beat = max(1.0, address_cycles / burst_beats)
    limited_by = BUS
    pause = interval = lost = own = opening = 0.0
    waits_for_room = True
    dram = memory.dram
    if dram is None:
        latency = float(memory.latency_cycles)
    else:
        latency = _latency_cycles(dram, bus_bytes, clock_hz)
        own = bus_bytes / _peak(dram, clock_hz, ports)
        own *= 1 + written_share
        ratio = float(clock_hz) / float(dram.device.clock_hz)
        opening = dram.device.trcd * ratio
        if dram.refresh:
            interval, lost = dram.device.trefi * ratio, _refresh_clocks(dram.device) * ratio
        with_refresh = own / (1 - lost / interval) if interval else own
        if with_refresh > beat:
            limited_by = DRAM
            pause = lost
        beat = max(beat, own)
    bursts = max(1, buffer_beats // burst_beats)
    drain = max(beat, drain_cycles)
    window = bursts * burst_beats
    # A burst is asked for when its room is free, and so far behind the burst whose room it is.
    # Its row has been opened for the bursts before it.
    loop = latency - opening + reader_cycles + max(0.0, burst_beats - drained_beats) * drain
    missing = loop - window * drain
    if memory.max_outstanding < bursts:
        # Or else when the last beat of that one has come.
        few = memory.max_outstanding * burst_beats
        late = latency + burst_beats * beat - few * beat
        if (few * beat + late) / few > max(loop, window * drain) / window:
            window, drain, missing, waits_for_room = few, beat, late, False
    if limited_by == DRAM and missing <= 0:
        missing = 0.0
    if interval and limited_by != DRAM:
        # What is buffered, or on its way, is read meanwhile. A memory faster than the port has
        # read more or less ahead of it, up to what a burst takes longer there.
        pause = _mean_excess(lost - max(0.0, -missing), burst_beats * (beat - own))
        if missing > 0:
            # Nothing is buffered, but the next burst may be asked for only later.
            burst = burst_beats * beat
            gap = window * drain + missing - (window // burst_beats - 1) * burst
            period = window * drain + missing
            idle = ((period - gap) * burst + gap**2) / (2 * period)
            pause = max(0.0, lost - idle)
    missing = max(0.0, missing)
    if missing:
        limited_by = OUTSTANDING
    return ReadBandwidth(
        bus_bytes=bus_bytes,
        burst_beats=burst_beats,
        latency_cycles=latency,
        beat_cycles=beat,
        drain_cycles=drain,
        window_beats=window,
        pause_cycles=missing,
        waits_for_room=waits_for_room,
        refresh_pause_cycles=pause,
        refresh_cycles=interval if pause else 0.0,
        limited_by=limited_by,
    )


def sustained_bytes_per_cycle(
    memory: MemoryModel, bus_bits: int, clock_hz, ports: int, *, capped: bool = True
) -> float:
    """What a port gets with any number of requests under way.

    Parameters
    ----------
    memory, bus_bits, clock_hz, ports
        As for `read_bandwidth`.
    capped : bool
        By the beats of the port; otherwise what the memory could give.
    """
    bus_bytes = bus_bits // 8
    dram = memory.dram
    if dram is None:
        return float(bus_bytes)
    rate = _peak(dram, clock_hz, ports)
    if dram.refresh:
        rate *= 1 - _refresh_clocks(dram.device) / dram.device.trefi
    return min(rate, float(bus_bytes)) if capped else rate


def write_response_cycles(memory: MemoryModel, bus_bits: int, clock_hz, beats: int) -> float:
    """From the last handshake of a write of so many beats to its response."""
    dram = memory.dram
    if dram is None:
        return float(memory.write_latency_cycles)
    # The controller takes an access a clock, and what it cannot buffer as the DRAM writes it.
    accesses = max(1, beats * bus_bits // 8 // dram.device.access_bytes // dram.device.channels)
    late = max(0, accesses - WRITE_BUFFER) * (dram.device.access_clocks - 1)
    return _to_port(dram.latency_clocks + accesses + late, dram.device, clock_hz)


def _mean_excess(most: float, spread: float) -> float:
    """Mean of what is above 0, of a value anywhere between ``most - spread`` and `most`."""
    if most <= 0:
        return 0.0
    if most < spread:
        return most**2 / (2 * spread)
    return most - spread / 2


def _to_port(clocks: int, device: DramDevice, clock_hz) -> float:
    """Clocks of the DRAM as clocks of a port, which sees what happened at its next edge.

    What begins at an edge of the port begins at the DRAM's last edge before it: the mean over all
    such distances, of less than a clock of the DRAM.
    """
    ratio = Fraction(device.clock_hz) / Fraction(clock_hz).limit_denominator(10**6)
    cycles = ceil(clocks / ratio)
    early = clocks - ratio * (cycles - 1)  # a distance from which on a cycle less is enough
    return float(cycles - max(Fraction(0), 1 - early)) if ratio.denominator > 1 else float(cycles)


def _peak(dram: DramTiming, clock_hz, ports: int) -> float:
    """Bytes a clock of the port, of its share of the devices."""
    return float(dram.peak_bytes_per_s(ports)) / ports / float(clock_hz)


def _latency_cycles(dram: DramTiming, bus_bytes: int, clock_hz) -> float:
    """From an address to its first beat, no row being open."""
    device = dram.device
    accesses = ceil(bus_bytes / device.access_bytes / device.channels)
    clocks = 1 + device.trcd + device.cl + device.access_clocks
    clocks += (accesses - 1) * device.tccd_s + dram.latency_clocks
    return _to_port(clocks, device, clock_hz)


def _refresh_clocks(device: DramDevice) -> int:
    """In which a refresh keeps the DRAM from reading: rows closed, refreshed, and opened again."""
    lost = device.trfc + device.trtp + device.trp + device.trcd - device.tccd_s
    # The rows of all bank groups are opened one after the other.
    return lost + (device.bank_groups - 1) * max(0, device.trrd_s - device.tccd_s)


def write_cycles(memory: MemoryModel, bus_bits: int, clock_hz, ports: int, beats: int) -> float:
    """In which a memory takes so many beats that a port writes, once it has begun."""
    dram = memory.dram
    if dram is None:
        return 0.0
    bus_bytes = bus_bits / 8
    buffered = WRITE_BUFFER * dram.device.access_bytes * dram.device.channels / bus_bytes
    return max(0.0, beats - buffered) * bus_bytes / _peak(dram, clock_hz, ports)
