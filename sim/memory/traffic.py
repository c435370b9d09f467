"""An AXI traffic generator on the memory model alone, without an accelerator or a simulator."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, byref, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p as handle
from dataclasses import dataclass
from fractions import Fraction

from sim.memory.dram_library import exact_clock
from sim.memory.library import Dram, load_library
from sim.memory.model import MemoryModel

BOUNDARY_BYTES = 4096
"""AXI bursts do not cross a multiple of it."""
MAX_BEATS = 256
IDLE_CYCLES = 4000
ROWS = ("closed", "hit", "conflict")
"""States of the bank that a read finds: no row open, its row open, another row open."""

# Of the DRAM's refresh intervals, as in the reference measurements; without DRAM timing a clock
# count that makes the first latency vanish.
_WARM_UP_INTERVALS = Fraction(5, 2)
_INTERVALS = 30
_IDEAL_CYCLES = 100_000
_REGION_BYTES = 1 << 30


@dataclass(frozen=True)
class Pattern:
    """What the generator does at each port.

    Parameters
    ----------
    burst_bytes : int
        A power of two up to 4096. Default: the largest burst of the bus.
    outstanding : int, optional
        Read bursts requested and not completed. Default: unlimited.
    random : bool
        Bursts at random addresses, instead of one behind the other.
    streams : int
        Sequential streams that take turns, burst by burst.
    stream_bytes : int
        From the start of a stream to that of the next, a multiple of 4096.
    write_every : int
        Every so manieth burst is a write, to a sequential stream of its own; 0: none.
    write_offset : int
        Where that stream starts, bytes from the reads, a multiple of 4096.
    seed : int
        Of the random addresses.

    Raises
    ------
    ValueError
        The message names the parameter, the allowed set and the value.
    """

    burst_bytes: int | None = None
    outstanding: int | None = None
    random: bool = False
    streams: int = 1
    stream_bytes: int = 1 << 24
    write_every: int = 0
    write_offset: int = 1 << 28
    seed: int = 1

    def __post_init__(self):
        size = self.burst_bytes
        if size is not None and (not 8 <= size <= BOUNDARY_BYTES or size & (size - 1)):
            raise ValueError(f"burst_bytes must be a power of two in 8..4096, got {size}")
        if self.outstanding is not None and self.outstanding < 1:
            raise ValueError(f"outstanding must be at least 1, got {self.outstanding}")
        if self.streams < 1:
            raise ValueError(f"streams must be at least 1, got {self.streams}")
        for name in ("stream_bytes", "write_offset"):
            value = getattr(self, name)
            if value < 0 or value % BOUNDARY_BYTES:
                raise ValueError(f"{name} must be a multiple of 4096, got {value}")
        if self.write_every < 0 or self.write_every == 1:
            raise ValueError(f"write_every must be 0 or at least 2, got {self.write_every}")

    def burst_beats(self, bus_bits: int) -> int:
        """Beats of a burst on a bus of this width.

        Raises
        ------
        ValueError
            A burst has less than one beat or more than 256.
        """
        bus_bytes = bus_bits // 8
        if self.burst_bytes is None:
            return min(BOUNDARY_BYTES // bus_bytes, MAX_BEATS)
        beats = self.burst_bytes // bus_bytes
        if not 1 <= beats <= MAX_BEATS:
            raise ValueError(
                f"burst_bytes must be 1..256 beats of {bus_bytes} bytes and at most 4096, "
                f"got {self.burst_bytes}"
            )
        return beats


@dataclass(frozen=True)
class TrafficResult:
    """What passed all ports together, after the warm-up."""

    cycles: int
    """Clock cycles of the ports."""
    clock_hz: Fraction
    read_bytes: int
    write_bytes: int
    read_bursts: int
    latency_cycles: int
    """Of all read bursts together, from the handshake of the address to that of the last beat."""
    port_read_bytes: tuple[int, ...]
    """Of each port."""
    peak_bytes_per_cycle: Fraction
    """Of the memory; without DRAM timing that of the buses."""

    @property
    def bytes_per_cycle(self) -> float:
        return (self.read_bytes + self.write_bytes) / self.cycles

    @property
    def bytes_per_s(self) -> float:
        return self.bytes_per_cycle * float(self.clock_hz)

    @property
    def fraction_of_peak(self) -> float:
        return self.bytes_per_cycle / float(self.peak_bytes_per_cycle)

    @property
    def mean_latency_ns(self) -> float:
        """Of a read burst."""
        if self.read_bursts == 0:
            return 0.0
        return self.latency_cycles / self.read_bursts / float(self.clock_hz) * 1e9


class _Options(Structure):
    """`TrafficOptions` of traffic.h."""

    _fields_ = [
        (name, c_uint64)
        for name in (
            "base",
            "region_bytes",
            "port_bytes",
            "burst_beats",
            "outstanding",
            "random",
            "streams",
            "stream_bytes",
            "write_every",
            "write_offset",
            "seed",
            "skipped_cycles",
            "warm_up_cycles",
            "cycles",
        )
    ]


class _Totals(Structure):
    """`TrafficTotals` of traffic.h."""

    _fields_ = [
        (name, c_uint64) for name in ("read_bytes", "write_bytes", "read_bursts", "latency_cycles")
    ]


@contextmanager
def _ports(model: MemoryModel, bus_bits: int, clock_hz, count: int) -> Iterator[ctypes.Array]:
    """Handles of the ports of a new memory."""
    memory = Dram(model.base, model.size)
    ports = []
    try:
        ports += memory.ports(model, bus_bits, count, clock_hz)
        yield (c_uint64 * count)(*(port.handle for port in ports))
    finally:
        for port in ports:
            port.close()
        memory.close()


def _library() -> ctypes.CDLL:
    library = load_library()
    library.unembed_traffic_run.restype = None
    library.unembed_traffic_run.argtypes = [
        POINTER(c_uint64),
        c_size_t,
        POINTER(_Options),
        POINTER(_Totals),
    ]
    library.unembed_traffic_read.restype = c_uint64
    library.unembed_traffic_read.argtypes = [handle, c_uint64, c_uint32, c_uint64]
    library.unembed_traffic_skip.restype = None
    library.unembed_traffic_skip.argtypes = [handle, c_uint64]
    return library


def default_cycles(model: MemoryModel, clock_hz) -> tuple[int, int]:
    """Clock cycles of warm-up and measurement: 2.5 and 30 refresh intervals of the DRAM."""
    if model.dram is None:
        return max(1000, 4 * model.latency_cycles), _IDEAL_CYCLES
    device = model.dram.device
    cycles_per_clock = exact_clock(clock_hz) / device.clock_hz
    interval = device.trefi * cycles_per_clock
    latency = model.dram.latency_clocks * cycles_per_clock
    return round(_WARM_UP_INTERVALS * interval + 4 * latency), round(_INTERVALS * interval)


def run_traffic(
    model: MemoryModel,
    bus_bits: int,
    clock_hz: float | Fraction,
    pattern: Pattern = Pattern(),
    *,
    ports: int = 1,
    skipped_cycles: int = 0,
    warm_up_cycles: int | None = None,
    cycles: int | None = None,
) -> TrafficResult:
    """Let a master at each port request as fast as the memory takes it, and measure.

    Parameters
    ----------
    model : MemoryModel
        Its stalls and faults apply.
    bus_bits : int
        Data width of the ports.
    clock_hz : int, float or Fraction
        Clock of the ports.
    pattern : Pattern
    ports : int
        How many; each has addresses of its own.
    skipped_cycles : int
        Pass before all others without being simulated; the DRAM is idle, but refreshed.
    warm_up_cycles, cycles : int, optional
        Not measured, measured. Default: `default_cycles`.

    Raises
    ------
    ValueError
        A parameter is out of range; the message names it.
    """
    beats = pattern.burst_beats(bus_bits)
    warm_up, length = default_cycles(model, clock_hz)
    port_bytes = min(_REGION_BYTES, model.size // ports) // BOUNDARY_BYTES * BOUNDARY_BYTES
    base = -(-model.base // BOUNDARY_BYTES) * BOUNDARY_BYTES
    options = _Options(
        base=base,
        region_bytes=port_bytes,
        port_bytes=port_bytes,
        burst_beats=beats,
        outstanding=pattern.outstanding or 0,
        random=pattern.random,
        streams=pattern.streams,
        stream_bytes=pattern.stream_bytes,
        write_every=pattern.write_every,
        write_offset=pattern.write_offset,
        seed=pattern.seed,
        skipped_cycles=skipped_cycles,
        warm_up_cycles=warm_up if warm_up_cycles is None else warm_up_cycles,
        cycles=length if cycles is None else cycles,
    )
    if port_bytes < 2 * BOUNDARY_BYTES:
        raise ValueError(f"size must be at least 8 KiB for each port, got {model.size}")
    if options.cycles < 1:
        raise ValueError(f"cycles must be at least 1, got {cycles}")
    totals = (_Totals * ports)()
    library = _library()
    with _ports(model, bus_bits, clock_hz, ports) as handles:
        library.unembed_traffic_run(handles, ports, byref(options), totals)
    clock = exact_clock(clock_hz)
    if model.dram is None:
        peak = Fraction(ports * bus_bits // 8)
    else:
        peak = model.dram.peak_bytes_per_s(ports) / clock
    sums = {name: sum(getattr(total, name) for total in totals) for name, _ in _Totals._fields_}
    return TrafficResult(
        cycles=options.cycles,
        clock_hz=clock,
        port_read_bytes=tuple(total.read_bytes for total in totals),
        peak_bytes_per_cycle=peak,
        **sums,
    )


def sequential_limit(
    model: MemoryModel, bus_bits: int, clock_hz: float | Fraction, ports: int = 1
) -> float:
    """What a sequential reader gets at best: bytes per clock cycle and port.

    Unlimited outstanding bursts, as large as AXI allows (4 KiB, 256 beats).
    """
    return run_traffic(model, bus_bits, clock_hz, ports=ports).bytes_per_cycle / ports


def idle_latency(
    model: MemoryModel,
    bus_bits: int,
    clock_hz: float | Fraction,
    row: str,
    size: int = 64,
    skipped_cycles: int = 0,
) -> int:
    """Clock cycles of a lone read, from the handshake of its address to that of its last beat.

    Parameters
    ----------
    model : MemoryModel
    bus_bits : int
    clock_hz : int, float or Fraction
    row : "closed", "hit" or "conflict"
        What it finds in its bank: no row, its row or another row open.
    size : int
        Bytes, a power of two up to 4096.
    skipped_cycles : int
        As of `run_traffic`.

    Raises
    ------
    ValueError
        A parameter is out of range; the message names it.
    """
    if row not in ROWS:
        raise ValueError(f"row must be one of {', '.join(ROWS)}, got {row!r}")
    beats = Pattern(burst_bytes=size).burst_beats(bus_bits)
    base = -(-model.base // BOUNDARY_BYTES) * BOUNDARY_BYTES
    addresses = [base] if row == "closed" else [base, base]
    if row == "conflict" and model.dram is not None:
        addresses[1] += model.dram.row_stride(ports=1)
    # Idle for long enough to be alone, but not until the next refresh, which closes the row.
    idle = IDLE_CYCLES
    if model.dram is not None:
        device = model.dram.device
        idle = int(device.trefi * exact_clock(clock_hz) / device.clock_hz / 4)
    library = _library()
    latency = 0
    with _ports(model, bus_bits, clock_hz, 1) as (port,):
        library.unembed_traffic_skip(port, skipped_cycles)
        for address in addresses:
            latency = library.unembed_traffic_read(port, address, beats, idle)
    return latency
