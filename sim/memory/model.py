"""What a simulated DRAM is like: size, timing, stalls and faults."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from sim.memory.devices import DramDevice, check_mapping

CHANNELS = ("ar", "r", "aw", "w", "b")
"""The channels of an AXI port."""
WRITE_ORDERS = ("any", "address_first", "data_first")

OKAY, SLVERR, DECERR = 0, 2, 3


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in {low}..{high}, got {value}")


def _check_power_of_two(name: str, value: int, low: int, high: int) -> None:
    _check_range(name, value, low, high)
    if value & (value - 1):
        raise ValueError(f"{name} must be a power of two in {low}..{high}, got {value}")


@dataclass(frozen=True)
class Stall:
    """Random stalls of one AXI channel.

    Parameters
    ----------
    probability : float
        That a stall starts in a cycle, 0..1 (exclusive; for a channel that never answers see
        `Faults.dead`).
    longest : int
        Cycles; the lengths of stalls are uniform in 1..longest.
    seed : int
        The same seed gives the same stalls.
    """

    probability: float = 0.0
    longest: int = 1
    seed: int = 0

    def __post_init__(self):
        if not 0 <= self.probability < 1:
            raise ValueError(f"probability must be at least 0 and below 1, got {self.probability}")
        _check_range("longest", self.longest, 1, 2**31 - 1)
        _check_range("seed", self.seed, 0, 2**64 - 1)


@dataclass(frozen=True)
class Stalls:
    """Stalls of the five AXI channels: of READY on AR, AW and W, of VALID on R and B."""

    ar: Stall = Stall()
    r: Stall = Stall()
    aw: Stall = Stall()
    w: Stall = Stall()
    b: Stall = Stall()

    @classmethod
    def everywhere(cls, probability: float, longest: int = 1, seed: int = 0) -> "Stalls":
        """The same kind of stalls on all channels, each with a seed of its own."""
        return cls(*(Stall(probability, longest, seed + index) for index in range(len(CHANNELS))))

    def of_port(self, number: int) -> "Stalls":
        """The same kind of stalls for another memory port: port 0 keeps the seeds."""
        # No channel of a port has the seed of another port's if they come from `everywhere`.
        return Stalls(
            *(
                replace(stall, seed=(stall.seed + number * len(CHANNELS)) % 2**64)
                for stall in (self.ar, self.r, self.aw, self.w, self.b)
            )
        )


@dataclass(frozen=True)
class Faults:
    """Errors to inject. Numbers count from 0 at the moment the faults are set.

    Parameters
    ----------
    read_beats : tuple of int
        Beats answered with `read_response` (2 SLVERR, 3 DECERR) instead of OKAY.
    write_responses : tuple of int
        Write responses replaced by `write_response`.
    dead : tuple of str
        Channels that never answer: no READY on ar, aw and w, no VALID on r and b.
    """

    read_beats: tuple[int, ...] = ()
    read_response: int = SLVERR
    write_responses: tuple[int, ...] = ()
    write_response: int = SLVERR
    dead: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("read_beats", "write_responses"):
            for number in getattr(self, name):
                _check_range(name, number, 0, 2**64 - 1)
        for name in ("read_response", "write_response"):
            _check_range(name, getattr(self, name), 0, 3)
        for channel in self.dead:
            if channel not in CHANNELS:
                raise ValueError(f"dead must name channels of {CHANNELS}, got {channel!r}")


@dataclass(frozen=True)
class DramTiming:
    """The timing of real DRAM behind the AXI ports.

    Parameters
    ----------
    device : DramDevice
        One of `sim.memory.devices.DEVICES`.
    latency_ns : float
        Controller and interconnect: added to every read and to every write response, rounded up
        to a clock of the DRAM. 0..100000.
    count : int, optional
        How many such devices, a power of two. With at least as many as ports, every port has an
        equal number for itself, interleaved; with fewer, an equal number of ports shares each.
        Default: one for each port.
    interleave_bytes : int
        How many consecutive bytes lie in one of the devices behind a port, a power of two from an
        access of the device to 1 MiB. The channels within a device are interleaved by accesses.
    mapping : str, optional
        Order of the fields of an address, the highest first. Default: the device's.
    queue : int
        Accesses the controller of a channel looks ahead, for each port it serves; 1..1024.
    refresh : bool
        False: no refresh, for experiments.

    Raises
    ------
    TypeError, ValueError
        The message names the parameter, the allowed set and the value.
    """

    device: DramDevice
    latency_ns: float = 100.0
    count: int | None = None
    interleave_bytes: int = 256
    mapping: str | None = None
    queue: int = 32
    refresh: bool = True

    def __post_init__(self):
        if not isinstance(self.device, DramDevice):
            raise TypeError(f"device must be a DramDevice, got {self.device!r}")
        if not isinstance(self.latency_ns, int | float) or isinstance(self.latency_ns, bool):
            raise TypeError(f"latency_ns must be a number, got {self.latency_ns!r}")
        if not 0 <= self.latency_ns <= 100_000:
            raise ValueError(f"latency_ns must be in 0..100000, got {self.latency_ns}")
        if self.count is not None:
            _check_power_of_two("count", self.count, 1, 1024)
        _check_power_of_two(
            "interleave_bytes", self.interleave_bytes, self.device.access_bytes, 1 << 20
        )
        if self.mapping is not None:
            check_mapping(self.mapping)
        _check_range("queue", self.queue, 1, 1024)

    @property
    def latency_clocks(self) -> int:
        """`latency_ns` in clocks of the DRAM."""
        # The decimal value that was written, not the binary one next to it, which may be above.
        exact = Fraction(str(self.latency_ns)) * self.device.clock_hz / 10**9
        return math.ceil(exact)

    @property
    def order(self) -> str:
        """The mapping in use."""
        return self.mapping if self.mapping is not None else self.device.mapping

    def devices(self, ports: int) -> int:
        """How many devices there are behind `ports` AXI ports.

        Raises
        ------
        ValueError
            The one is not a multiple of the other.
        """
        count = self.count if self.count is not None else ports
        if count % ports and ports % count:
            raise ValueError(
                f"count must be a multiple or a divisor of the number of ports, {ports}, "
                f"got {count}"
            )
        return count

    def row_stride(self, ports: int) -> int:
        """Bytes from a row to the next one of the same bank, at one of `ports` AXI ports."""
        device = self.device
        sizes = {
            "co": device.row_bytes // device.access_bytes,
            "ba": device.banks,
            "bg": device.bank_groups,
        }
        stride = device.access_bytes * device.channels * max(1, self.devices(ports) // ports)
        for field in reversed(self.order.split(".")):
            if field == "ro":
                break
            stride *= sizes[field]
        return stride

    def peak_bytes_per_s(self, ports: int) -> int:
        """Data rate of all devices behind `ports` AXI ports together."""
        return self.devices(ports) * self.device.peak_bytes_per_s


@dataclass(frozen=True)
class MemoryModel:
    """A simulated DRAM and its AXI ports, which are alike.

    Parameters
    ----------
    base, size : int
        The window of addresses that is memory, bytes; accesses outside answer DECERR.
    latency_cycles : int
        From the handshake of a read address to its first beat, if nothing else is under way.
        Further beats follow one a clock.
    max_outstanding : int
        Read bursts accepted and not completed.
    write_latency_cycles : int
        From the last handshake of a write's address and data to its response.
    max_outstanding_writes : int
        Write bursts complete and not answered.
    write_order : "any", "address_first" or "data_first"
        "any" takes addresses and data as they come, "address_first" no data before its address,
        "data_first" no address before all of its data.
    idle_garbage : bool
        Drive SLVERR, RLAST and junk data while RVALID is low, SLVERR while BVALID is low, which
        the standard allows and a master must ignore.
    stalls : Stalls
        Of the first port; the others have other seeds (`Stalls.of_port`).
    faults : Faults
        Of every port.
    dram : DramTiming, optional
        Real DRAM: `latency_cycles` and `write_latency_cycles` then have no meaning. Default: an
        ideal memory with these fixed latencies and one beat a clock.

    Raises
    ------
    TypeError, ValueError
        The message names the parameter, the allowed set and the value.
    """

    base: int = 0
    size: int = 1 << 36
    latency_cycles: int = 40
    max_outstanding: int = 256
    write_latency_cycles: int = 8
    max_outstanding_writes: int = 16
    write_order: str = "any"
    idle_garbage: bool = False
    stalls: Stalls = Stalls()
    faults: Faults = Faults()
    dram: DramTiming | None = None

    def __post_init__(self):
        _check_range("base", self.base, 0, 2**64 - 1)
        _check_range("size", self.size, 1, 2**64 - 1)
        if self.base + self.size > 2**64:
            raise ValueError(f"base + size must be at most 2**64, got {self.base + self.size}")
        # The outputs of the port are registers, so the next cycle is the earliest.
        _check_range("latency_cycles", self.latency_cycles, 1, 2**31 - 1)
        _check_range("write_latency_cycles", self.write_latency_cycles, 1, 2**31 - 1)
        _check_range("max_outstanding", self.max_outstanding, 1, 2**31 - 1)
        _check_range("max_outstanding_writes", self.max_outstanding_writes, 1, 2**31 - 1)
        if self.write_order not in WRITE_ORDERS:
            raise ValueError(
                f"write_order must be one of {', '.join(WRITE_ORDERS)}, got {self.write_order!r}"
            )
