"""The memory library through ctypes."""

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64
from ctypes import c_void_p as handle
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from sim import build
from sim.memory.dram_library import DRAM_SIGNATURES, dram_options
from sim.memory.model import CHANNELS, WRITE_ORDERS, Faults, MemoryModel, Stalls
from sim.memory.recording import (
    RECORDING_SIGNATURES,
    Recording,
    start_recording,
    take_recording,
)


class _PortOptions(Structure):
    """`UnembedPortOptions` of interface.cpp."""

    _fields_ = [
        (name, c_uint32)
        for name in (
            "bus_bytes",
            "latency_cycles",
            "max_outstanding_reads",
            "write_latency_cycles",
            "max_outstanding_writes",
            "write_order",
            "idle_garbage",
        )
    ]


@dataclass(frozen=True)
class Statistics:
    """What passed a port since it was created; `Statistics` of axi_slave.h, in its order."""

    cycles: int
    """Clock cycles out of reset."""
    read_bursts: int
    read_beats: int
    read_bytes: int
    write_bursts: int
    write_beats: int
    write_bytes: int
    """Bytes written, by the strobes."""
    write_responses: int
    refused_read_cycles: int
    """Cycles with RVALID high and RREADY low."""
    refused_response_cycles: int
    """Cycles with BVALID high and BREADY low."""
    max_outstanding_reads: int
    """Largest number of read bursts under way."""


_STATISTICS = tuple(item.name for item in fields(Statistics))


class _Statistics(Structure):
    _fields_ = [(name, c_uint64) for name in _STATISTICS]


_SIGNATURES = {
    "unembed_memory_create": (handle, [c_uint64, c_uint64]),
    "unembed_memory_destroy": (None, [handle]),
    "unembed_memory_contains": (c_int, [handle, c_uint64, c_uint64]),
    "unembed_memory_read": (None, [handle, c_uint64, handle, c_uint64]),
    "unembed_memory_write": (None, [handle, c_uint64, handle, c_uint64]),
    "unembed_memory_map": (None, [handle, c_uint64, handle, c_uint64]),
    "unembed_memory_owned_pages": (c_uint64, [handle]),
    "unembed_port_create": (handle, [handle, POINTER(_PortOptions), handle, c_uint32]),
    "unembed_port_destroy": (None, [handle]),
    "unembed_port_set_stall": (None, [handle, c_uint32, c_double, c_uint32, c_uint64]),
    "unembed_port_set_faults": (
        None,
        [
            handle,
            POINTER(c_uint64),
            c_size_t,
            c_uint32,
            POINTER(c_uint64),
            c_size_t,
            c_uint32,
            c_uint32,
        ],
    ),
    "unembed_port_statistics": (None, [handle, POINTER(_Statistics)]),
    "unembed_port_violation_count": (c_uint64, [handle]),
    "unembed_port_violation": (c_char_p, [handle, c_size_t]),
    "unembed_port_clear_violations": (None, [handle]),
    **DRAM_SIGNATURES,
    **RECORDING_SIGNATURES,
}


@cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def load_library(progress: build.Progress = build.no_progress) -> ctypes.CDLL:
    """The memory library, built if need be.

    Raises
    ------
    ToolError
        The compiler is missing or failed.
    """
    return _load(build.memory_library(progress))


def _flat_bytes(data) -> np.ndarray:
    """Any buffer as uint8[size], without a copy if its bytes lie in one piece."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8)


class Dram:
    """The content of a simulated DRAM: sparse, zero until written.

    Parameters
    ----------
    base, size : int
        The window of addresses, bytes.

    Raises
    ------
    ToolError
        The library had to be built and a tool is missing or failed.
    """

    def __init__(self, base: int, size: int):
        self.base = base
        self.size = size
        self._library = load_library()
        self._storage = self._library.unembed_memory_create(base, size)
        self._mapped = []

    def close(self) -> None:
        """Free the memory; ports must be closed before."""
        if self._storage:
            self._library.unembed_memory_destroy(self._storage)
            self._storage = None
            self._mapped.clear()

    @property
    def _handle(self) -> int:
        if self._storage is None:
            raise ValueError("the memory is closed")
        return self._storage

    def _check(self, address: int, size: int) -> None:
        if address < self.base or address + size > self.base + self.size:
            raise ValueError(
                f"memory is 0x{self.base:x}..0x{self.base + self.size - 1:x}, "
                f"got {size} bytes at 0x{address:x}"
            )

    def read(self, address: int, size: int) -> np.ndarray:
        """`size` bytes from `address`, uint8[size].

        Raises
        ------
        ValueError
            The range is not within the memory.
        """
        self._check(address, size)
        data = np.empty(size, np.uint8)
        self._library.unembed_memory_read(self._handle, address, data.ctypes.data, size)
        return data

    def write(self, address: int, data) -> None:
        """Write a buffer or an array.

        Raises
        ------
        ValueError
            The range is not within the memory.
        """
        data = _flat_bytes(data)
        self._check(address, data.size)
        self._library.unembed_memory_write(self._handle, address, data.ctypes.data, data.size)

    def map(self, address: int, data) -> None:
        """Show a buffer or an array at `address` without copying it.

        The buffer is kept alive and never modified: what is written to its addresses stays in the
        memory. A later change of the buffer shows, except in the pages (64 KiB) at its two ends,
        which are copied, and in pages that were written to.

        Raises
        ------
        ValueError
            The range is not within the memory.
        """
        data = _flat_bytes(data)
        self._check(address, data.size)
        self._mapped.append(data)
        self._library.unembed_memory_map(self._handle, address, data.ctypes.data, data.size)

    def ports(
        self, model: MemoryModel, bus_bits: int, count: int, clock_hz: float | Fraction = 250e6
    ) -> "list[MemoryPort]":
        """`count` ports of this memory, alike but for the seeds of their stalls.

        `clock_hz` is their clock, whose relation to that of the DRAM is exact; ideal memory does
        not depend on it.

        Raises
        ------
        ValueError
            `bus_bits` or `clock_hz` is out of range, or the devices of the DRAM cannot be divided
            among the ports.
        """
        devices = None
        if model.dram is not None:
            devices = self._library.unembed_dram_create(dram_options(model.dram, count, clock_hz))
        try:
            return [
                MemoryPort(
                    self,
                    replace(model, stalls=model.stalls.of_port(number)),
                    bus_bits,
                    devices,
                    number,
                )
                for number in range(count)
            ]
        finally:
            # The ports keep what they use.
            if devices is not None:
                self._library.unembed_dram_destroy(devices)

    @property
    def owned_pages(self) -> int:
        """Pages of 64 KiB with memory of their own."""
        return self._library.unembed_memory_owned_pages(self._handle)


class MemoryPort:
    """One AXI port of a `Dram`.

    Parameters
    ----------
    dram : Dram
    model : MemoryModel
    bus_bits : int
        Data width: 64, 128, 256 or 512.
    devices, number : int, int
        The DRAM devices in the library and the number of this port among those that use them.
        None: ideal memory.
    """

    def __init__(
        self,
        dram: Dram,
        model: MemoryModel,
        bus_bits: int,
        devices: int | None = None,
        number: int = 0,
    ):
        if bus_bits not in (64, 128, 256, 512):
            raise ValueError(f"bus_bits must be one of 64, 128, 256, 512, got {bus_bits}")
        self._library = load_library()
        # Keeps the memory alive for as long as its port.
        self._dram = dram
        options = _PortOptions(
            bus_bytes=bus_bits // 8,
            latency_cycles=model.latency_cycles,
            max_outstanding_reads=model.max_outstanding,
            write_latency_cycles=model.write_latency_cycles,
            max_outstanding_writes=model.max_outstanding_writes,
            write_order=WRITE_ORDERS.index(model.write_order),
            idle_garbage=model.idle_garbage,
        )
        self._port = self._library.unembed_port_create(dram._handle, options, devices, number)
        self.set_stalls(model.stalls)
        self.set_faults(model.faults)

    def close(self) -> None:
        """Free the port; no simulation may use it any more."""
        if self._port:
            self._library.unembed_port_destroy(self._port)
            self._port = None

    @property
    def handle(self) -> int:
        """Value of the signal `port` of axi_memory.sv."""
        if self._port is None:
            raise ValueError("the memory port is closed")
        return self._port

    def set_stalls(self, stalls: Stalls) -> None:
        """Replace the stalls of all channels."""
        for index, channel in enumerate(CHANNELS):
            stall = getattr(stalls, channel)
            self._library.unembed_port_set_stall(
                self.handle, index, stall.probability, stall.longest, stall.seed
            )

    def set_faults(self, faults: Faults) -> None:
        """Replace the faults; their numbers count from now."""
        read_beats = sorted(set(faults.read_beats))
        write_responses = sorted(set(faults.write_responses))
        self._library.unembed_port_set_faults(
            self.handle,
            (c_uint64 * len(read_beats))(*read_beats),
            len(read_beats),
            faults.read_response,
            (c_uint64 * len(write_responses))(*write_responses),
            len(write_responses),
            faults.write_response,
            sum(1 << CHANNELS.index(channel) for channel in set(faults.dead)),
        )

    def statistics(self) -> Statistics:
        """Totals since the port was created."""
        raw = _Statistics()
        self._library.unembed_port_statistics(self.handle, raw)
        return Statistics(*(getattr(raw, name) for name in _STATISTICS))

    @property
    def violation_count(self) -> int:
        """Violations of the AXI protocol by the master."""
        return self._library.unembed_port_violation_count(self.handle)

    def violations(self) -> list[str]:
        """The first hundred violations as text: cycle, rule, address."""
        count = min(self.violation_count, 100)
        texts = (self._library.unembed_port_violation(self.handle, i) for i in range(count))
        return [text.decode() for text in texts if text is not None]

    def clear_violations(self) -> None:
        self._library.unembed_port_clear_violations(self.handle)

    def record(self, room_beats: int, burst_beats: int, turnaround_clocks: int = 0) -> None:
        """Record what the port does from now on, in place of what was recorded before.

        Parameters
        ----------
        room_beats : int
            Beats that the reader at the port may have requested and not taken.
        burst_beats : int
            Beats of its largest burst.
        turnaround_clocks : int
            Clocks that a reader needs after the one behind a beat's handshake until its room is
            free.

        Raises
        ------
        ValueError
            A value is out of range.
        """
        start_recording(self._library, self.handle, room_beats, burst_beats, turnaround_clocks)

    def recording(self) -> Recording:
        """What was recorded so far; raises ValueError if nothing is."""
        return take_recording(self._library, self.handle)

    def stop_recording(self) -> None:
        """Forget the recording, if there is one."""
        self._library.unembed_port_stop_recording(self.handle)
