"""Closed form of what a memory gives one of the AXI ports that read it sequentially.

The rules are those for streaming reads: Little's law for what is under way, the share that refresh
leaves, the data bus of the DRAM, and the beats of the port, of which there is one a clock at most.
"""

from dataclasses import dataclass

from sim.memory.model import MemoryModel

BUS, DRAM, OUTSTANDING = "bus", "dram", "outstanding"


@dataclass(frozen=True)
class ReadBandwidth:
    """A sequential read through one port, its buffer emptied at `drain_cycles` a beat.

    Attributes
    ----------
    bus_bytes : int
        Of a beat.
    latency_cycles : float
        From the handshake of an address to its first beat, nothing else being under way.
    beat_cycles : float
        From a beat to the next one while requests are always ahead.
    window_beats : int
        Beats that come in one go before requests are missing.
    pause_cycles : float
        How long they then are missing.
    limited_by : "bus", "dram" or "outstanding"
    """

    bus_bytes: int
    burst_beats: int
    latency_cycles: float
    beat_cycles: float
    window_beats: int
    pause_cycles: float
    limited_by: str

    @property
    def bytes_per_cycle(self) -> float:
        """In the long run."""
        window = self.window_beats * self.beat_cycles
        return self.window_beats * self.bus_bytes / (window + self.pause_cycles)

    def cycles(self, beats: int, first_window: int | None = None) -> float:
        """Clocks from the first beat to the last, both included.

        The first pause comes after `first_window` beats, by default a usual window.
        """
        if not beats:
            return 0.0
        first = self.window_beats if first_window is None else first_window
        time = 1 + (beats - 1) * self.beat_cycles
        if beats > first and self.pause_cycles:
            windows, left = divmod(beats - 1 - first, self.window_beats)
            time += (windows + 1) * self.pause_cycles
            # A last burst that is short waits for less room.
            time -= min(self.pause_cycles, max(0, self.burst_beats - 1 - left))
        return time


def read_bandwidth(
    memory: MemoryModel,
    bus_bits: int,
    clock_hz,
    ports: int,
    *,
    burst_beats: int,
    buffer_beats: int,
    reader_cycles: int = 4,
    address_cycles: int = 2,
    drain_cycles: float = 1.0,
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
    reader_cycles : int
        From the beat that makes room for a burst to its first beat, besides the latency.
    address_cycles : int
        Least clocks from an address to the next.
    drain_cycles : float
        Clocks in which the reader's consumer takes a beat, at least 1.
    """
    bursts = max(1, buffer_beats // burst_beats)
    beat = max(1.0, address_cycles / burst_beats)
    latency = memory.latency_cycles
    drain = max(beat, drain_cycles)
    window = bursts * burst_beats
    # A burst is asked for when its room is free, and so far behind the burst whose room it is.
    pause = latency + reader_cycles + burst_beats * drain - window * drain
    if memory.max_outstanding < bursts:
        # Or else when the last beat of that one has come.
        window = memory.max_outstanding * burst_beats
        pause = max(pause, latency + burst_beats - window * beat)
    pause = max(0.0, pause)
    return ReadBandwidth(
        bus_bytes=bus_bits // 8,
        burst_beats=burst_beats,
        latency_cycles=latency,
        beat_cycles=beat,
        window_beats=window,
        pause_cycles=pause,
        limited_by=OUTSTANDING if pause else BUS,
    )


def write_response_cycles(memory: MemoryModel, bus_bits: int, clock_hz) -> float:
    """From the last handshake of a write to its response, nothing else being under way."""
    return memory.write_latency_cycles


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
    if memory.dram is None:
        return float(bus_bytes)
    device = memory.dram.device
    share = memory.dram.peak_bytes_per_s(ports) / ports / float(clock_hz)
    rate = share * float(device.refresh_fraction if memory.dram.refresh else 1)
    return min(rate, float(bus_bytes)) if capped else rate
