"""`SimDevice`: the accelerator and its memory, simulated within the process."""

import ctypes
import os
import time
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_uint32, c_uint64
from ctypes import c_void_p as handle
from functools import cache
from pathlib import Path

import numpy as np

from hw.config import HeadConfig
from sim import build
from sim.errors import BusError
from sim.memory import Dram, MemoryModel, MemoryPort
from sim.memory.model import OKAY

RESPONSES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")
STATUS_REGISTERS = {"control": 0x00, "status": 0x14, "errors": 0x18, "jobs": 0x1C}
"""Registers shown when a wait ends without an interrupt."""

RESET_CYCLES = 16
REGISTER_DEADLINE_CYCLES = 1000
# A simulation of this many cycles takes about a second, after which Ctrl-C is looked at.
_CHUNK_CYCLES = 1 << 20

_SIGNATURES = {
    "unembed_device_create": (handle, [POINTER(c_uint64)]),
    "unembed_device_destroy": (None, [handle]),
    "unembed_device_reset": (None, [handle, c_uint64]),
    "unembed_device_run": (c_uint64, [handle, c_uint64, c_int]),
    "unembed_device_read": (c_int, [handle, c_uint32, POINTER(c_uint32), c_uint64]),
    "unembed_device_write": (c_int, [handle, c_uint32, c_uint32, c_uint32, c_uint64]),
    "unembed_device_trace": (c_int, [handle, c_char_p, c_double]),
    "unembed_device_stop_trace": (None, [handle]),
    "unembed_device_cycles": (c_uint64, [handle]),
    "unembed_device_interrupt": (c_int, [handle]),
}


@cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def check_response(access: str, offset: int, response: int) -> None:
    """Raise `BusError` unless a register access was answered with OKAY.

    `response` is the AXI response, negative if there was none.
    """
    if response == OKAY:
        return
    answer = f"was answered with {RESPONSES[response]}" if response > 0 else "was not answered"
    raise BusError(f"the {access} of register 0x{offset:03x} {answer}")


def timeout_message(device, cycles: int) -> str:
    """Text for a wait that ended without an interrupt, with the status registers."""
    values = []
    for name, offset in STATUS_REGISTERS.items():
        try:
            values.append(f"{name} 0x{device.read_register(offset):x}")
        except BusError as error:
            values.append(f"{name}: {error}")
    return f"no interrupt within {cycles} cycles ({', '.join(values)})"


class SimDevice:
    """The accelerator in simulation, as a device of the host driver.

    All memory channels see the same memory, each through a port of its own: `ports`, with stalls,
    faults, statistics and recorded violations.

    Register accesses are AXI4-Lite transactions on the pins and take simulated time; the memory
    is read and written directly, as by a host that shares it. Devices are independent of each
    other; each is for one thread at a time.

    Parameters
    ----------
    config : HeadConfig
        The accelerator.
    memory : MemoryModel
        The DRAM.
    clock_hz : float
        Clock of the accelerator. With DRAM timing its relation to the DRAM's clock is exact; with
        ideal memory only the figures of the driver refer to it.
    verilog : str, optional
        Verilog of the accelerator. Default: generated from `config`.
    constant_memory : bool
        Replace the DRAM model by constant RVALID and random data (`axi_constant.sv`), to measure
        what the model costs. The memory then is not connected.
    traceable : bool
        Build a simulator that can write waveforms: see `trace`.
    progress : callable
        See `sim.toolchain.Progress`; building takes up to a minute the first time.

    Raises
    ------
    ToolError
        The simulator had to be built and a tool is missing or failed.
    """

    name = "simulation"

    def __init__(
        self,
        config: HeadConfig,
        memory: MemoryModel | None = None,
        clock_hz: float = 250e6,
        verilog: str | None = None,
        constant_memory: bool = False,
        traceable: bool = False,
        progress: build.Progress = build.no_progress,
    ):
        self.config = config
        self.memory_model = memory if memory is not None else MemoryModel()
        self.clock_hz = clock_hz
        if verilog is None:
            verilog = build.accelerator_verilog(config, progress)
        library = build.device_library(
            verilog, config.bus_bits, config.channels, constant_memory, traceable, progress
        )
        # The memory library is loaded first: the simulator finds it by its name.
        self.memory = Dram(self.memory_model.base, self.memory_model.size)
        self.ports = self.memory.ports(
            self.memory_model, config.bus_bits, config.channels, clock_hz
        )
        self._library = _load(library)
        handles = [port.handle for port in self.ports]
        self._simulation = self._library.unembed_device_create((c_uint64 * len(handles))(*handles))
        self.reset()

    def close(self) -> None:
        """End the simulation and free its memory."""
        if self._simulation:
            self._library.unembed_device_destroy(self._simulation)
            self._simulation = None
            for port in self.ports:
                port.close()
            self.memory.close()

    @property
    def port(self) -> MemoryPort:
        """The memory port of channel 0."""
        return self.ports[0]

    @property
    def _handle(self) -> int:
        if self._simulation is None:
            raise ValueError("the device is closed")
        return self._simulation

    def __enter__(self) -> "SimDevice":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def reset(self, cycles: int = RESET_CYCLES) -> None:
        """Reset the accelerator and the memory's ports; the memory keeps its content."""
        self._library.unembed_device_reset(self._handle, cycles)

    # Waveforms.

    def trace(self, path: Path) -> None:
        """Write waveforms, an FST file, from now until `stop_trace`; 200 times as slow.

        Raises
        ------
        OSError
            The file cannot be written, or the device was not made `traceable`.
        """
        period_ps = 1e12 / float(self.clock_hz)
        if not self._library.unembed_device_trace(self._handle, os.fsencode(path), period_ps):
            raise OSError(f"{path}: waveforms cannot be written")

    def stop_trace(self) -> None:
        """Complete the file of waveforms, if there is one."""
        self._library.unembed_device_stop_trace(self._handle)

    # Registers.

    def read_register(self, offset: int) -> int:
        """The 32-bit register at `offset`.

        Raises
        ------
        BusError
            The accelerator answered with an error, or not at all.
        """
        value = c_uint32()
        response = self._library.unembed_device_read(
            self._handle, offset, byref(value), REGISTER_DEADLINE_CYCLES
        )
        check_response("read", offset, response)
        return value.value

    def write_register(self, offset: int, value: int, strobe: int = 0xF) -> None:
        """Write the bytes of a 32-bit register that `strobe` selects.

        Raises
        ------
        BusError
            The accelerator answered with an error, or not at all.
        """
        response = self._library.unembed_device_write(
            self._handle, offset, value, strobe, REGISTER_DEADLINE_CYCLES
        )
        check_response("write", offset, response)

    # Memory.

    @property
    def memory_base(self) -> int:
        return self.memory_model.base

    @property
    def memory_bytes(self) -> int:
        return self.memory_model.size

    def read_memory(self, address: int, size: int) -> np.ndarray:
        """`size` bytes from `address`, uint8[size]."""
        return self.memory.read(address, size)

    def write_memory(self, address: int, data) -> None:
        """Write a buffer or an array to `address`."""
        self.memory.write(address, data)

    def map_memory(self, address: int, data) -> None:
        """Show a buffer or an array at `address` without copying it; see `Dram.map`."""
        self.memory.map(address, data)

    # Time.

    @property
    def cycles(self) -> int:
        """Clock cycles simulated so far."""
        return self._library.unembed_device_cycles(self._handle)

    @property
    def interrupt(self) -> bool:
        return bool(self._library.unembed_device_interrupt(self._handle))

    def run(self, cycles: int) -> None:
        """Simulate `cycles` clock cycles."""
        self._run(cycles, until_interrupt=False)

    def wait_interrupt(self, cycles: int) -> None:
        """Simulate until the interrupt is high.

        Raises
        ------
        TimeoutError
            It was not within `cycles` clock cycles; the message shows the status registers.
        """
        self._run(cycles, until_interrupt=True)
        if not self.interrupt:
            raise TimeoutError(timeout_message(self, cycles))

    def _run(self, cycles: int, until_interrupt: bool) -> None:
        while cycles > 0:
            chunk = min(cycles, _CHUNK_CYCLES)
            done = self._library.unembed_device_run(self._handle, chunk, until_interrupt)
            cycles -= done
            if done < chunk:
                return


def measure_speed(device: SimDevice, cycles: int) -> float:
    """Simulated clock cycles per second, over `cycles` cycles of what the device is doing."""
    start = time.perf_counter()
    device.run(cycles)
    return cycles / (time.perf_counter() - start)
