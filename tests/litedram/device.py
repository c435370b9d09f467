"""The accelerator on LiteDRAM's port, simulated, as a device of the host driver."""

from ctypes import POINTER, byref, c_int, c_uint8, c_uint32, c_uint64
from ctypes import c_void_p as handle
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hw.config import HeadConfig
from sim import build, toolchain
from sim.cache import cached, digest
from sim.device import check_response, timeout_message
from tests.litedram.controller import Controller, Core, generate
from tests.verilated import RECIPES, compile_library, load

HERE = Path(__file__).parent
HARNESS = HERE / "harness.cpp"
# In the order of compilation.
DESIGN = ("port.sv", "sequential_reader.sv", "port_monitor.sv", "top.sv")

RESET_CYCLES = 16
DEADLINE_CYCLES = 10_000
"""For a register access and for each burst of the host."""
BUS_BITS = 128
BUSY = -2

_SIGNATURES = {
    "litedram_create": (handle, []),
    "litedram_destroy": (None, [handle]),
    "litedram_reset": (None, [handle, c_uint64]),
    "litedram_run": (None, [handle, c_uint64, c_int]),
    "litedram_interrupt": (c_int, [handle]),
    "litedram_wishbone_write": (c_int, [handle, c_uint32, c_uint32, c_uint64]),
    "litedram_read_register": (c_int, [handle, c_uint32, POINTER(c_uint32), c_uint64]),
    "litedram_write_register": (c_int, [handle, c_uint32, c_uint32, c_uint64]),
    "litedram_write_memory": (c_int, [handle, c_uint64, POINTER(c_uint8), c_uint64, c_uint64]),
    "litedram_read_memory": (c_int, [handle, c_uint64, POINTER(c_uint8), c_uint64, c_uint64]),
    "litedram_stream": (c_int, [handle, c_uint64, c_uint64, c_uint64]),
    "litedram_clear": (None, [handle]),
    "litedram_counts": (None, [handle, POINTER(c_uint64)]),
    "litedram_cycles": (c_uint64, [handle]),
}


@dataclass(frozen=True)
class Traffic:
    """What was read over the port, in clocks."""

    latency: int
    """From the first clock with an address offered to the first with data."""
    cycles: int
    """From the same clock to the last with data, both included."""
    beats: int

    @property
    def rate(self) -> float:
        """Beats per clock."""
        return self.beats / self.cycles


def simulator(config: HeadConfig, core: Core) -> Path:
    """The simulator of an accelerator and a controller, a shared library; cached.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    """
    verilog = build.accelerator_verilog(config)
    sources = {name: (HERE / name).read_text() for name in DESIGN}
    sources |= {"unembed.v": verilog, "litedram_core.v": core.verilog}
    options = [f"-GMEMORY_BYTES={core.memory_bytes}"]
    recipes = (Path(__file__), HARNESS, *RECIPES)
    key = digest(
        [
            toolchain.version(),
            *sources.values(),
            *options,
            *(path.read_bytes() for path in recipes),
        ]
    )

    def build_library(entry):
        with toolchain.workspace() as folder:
            for name, text in sources.items():
                (folder / name).write_text(text)
            compile_library(
                folder,
                [folder / name for name in sources],
                "top",
                HARNESS,
                entry / "simulator.so",
                options,
                # A job runs for a second, an optimised simulator would compile for a minute.
                quick=True,
            )

    return cached(f"litedram-simulator-{key}", build_library) / "simulator.so"


class LiteDramDevice:
    """An accelerator with a memory behind LiteDRAM's controller; see `host.device.Device`.

    The memory is read and written through the controller as well, in simulated time, and never
    while a job runs.

    Parameters
    ----------
    config : HeadConfig
        One channel of 128 bits.
    controller : Controller

    Raises
    ------
    ToolError
        LiteDRAM or the simulator had to be built, and a tool is missing or failed.
    """

    name = "LiteDRAM"
    memory_base = 0

    def __init__(self, config: HeadConfig, controller: Controller):
        core = generate(controller)
        if (config.bus_bits, config.channels, core.data_bits) != (BUS_BITS, 1, BUS_BITS):
            raise ValueError(
                f"one port of {BUS_BITS} bits is connected, got {config.channels} of "
                f"{config.bus_bits} on a controller of {core.data_bits}"
            )
        self.config = config
        self.clock_hz = float(controller.clock_hz)
        self.memory_bytes = core.memory_bytes
        self._library = load(simulator(config, core), _SIGNATURES)
        self._simulation = self._library.litedram_create()
        self._library.litedram_reset(self._simulation, RESET_CYCLES)
        # What a memory is told at first, such as its latencies, the model does not look at. The
        # controller is given the memory's pins, and the port is opened, which is closed until then.
        for register in ("sdram_dfii_control", "ddrctrl_init_done"):
            address = core.registers[register]
            response = self._library.litedram_wishbone_write(
                self._simulation, address, 1, DEADLINE_CYCLES
            )
            check_response("write of the controller", address, response)

    def close(self) -> None:
        if self._simulation:
            self._library.litedram_destroy(self._simulation)
            self._simulation = None

    def __enter__(self) -> "LiteDramDevice":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    # Registers.

    def read_register(self, offset: int) -> int:
        value = c_uint32()
        response = self._library.litedram_read_register(
            self._simulation, offset, byref(value), DEADLINE_CYCLES
        )
        check_response("read", offset, response)
        return value.value

    def write_register(self, offset: int, value: int) -> None:
        response = self._library.litedram_write_register(
            self._simulation, offset, value, DEADLINE_CYCLES
        )
        check_response("write", offset, response)

    # Memory.

    def _access(self, function: str, address: int, data: np.ndarray) -> None:
        if not 0 <= address <= address + data.size <= self.memory_bytes:
            raise ValueError(f"{data.size} bytes at 0x{address:x} are not in the memory")
        response = getattr(self._library, function)(
            self._simulation,
            address,
            data.ctypes.data_as(POINTER(c_uint8)),
            data.size,
            DEADLINE_CYCLES,
        )
        if response:
            reason = "a job is reading or writing" if response == BUSY else f"response {response}"
            raise RuntimeError(f"{function} of {data.size} bytes at 0x{address:x}: {reason}")

    def read_memory(self, address: int, size: int) -> np.ndarray:
        data = np.empty(size, np.uint8)
        self._access("litedram_read_memory", address, data)
        return data

    def write_memory(self, address: int, data) -> None:
        self._access("litedram_write_memory", address, np.frombuffer(data, np.uint8))

    def map_memory(self, address: int, array: np.ndarray) -> None:
        self.write_memory(address, array)

    # Time.

    @property
    def cycles(self) -> int:
        """Clocks simulated so far."""
        return self._library.litedram_cycles(self._simulation)

    @property
    def interrupt(self) -> bool:
        return bool(self._library.litedram_interrupt(self._simulation))

    def wait_interrupt(self, cycles: int) -> None:
        self._library.litedram_run(self._simulation, cycles, True)
        if not self.interrupt:
            raise TimeoutError(timeout_message(self, cycles))

    # The port.

    def clear_traffic(self) -> None:
        """Count the port's traffic from now on."""
        self._library.litedram_clear(self._simulation)

    def traffic(self) -> Traffic:
        """What was read over the port since `clear_traffic`.

        Raises
        ------
        RuntimeError
            Nothing was read, or an address was not in the memory.
        """
        counts = (c_uint64 * 5)()
        self._library.litedram_counts(self._simulation, counts)
        first_address, first_data, last_data, beats, beyond = counts
        if beyond:
            raise RuntimeError("an address was beyond the end of the memory")
        if not beats:
            raise RuntimeError("nothing was read")
        return Traffic(first_data - first_address, last_data - first_address + 1, beats)

    def read_sequentially(self, address: int, size: int) -> Traffic:
        """Read `size` bytes, a multiple of 4096, with the sequential reader instead of the head.

        Raises
        ------
        TimeoutError
            It did not come to an end.
        """
        self.clear_traffic()
        limit = 100 * size // (BUS_BITS // 8) + DEADLINE_CYCLES
        if not self._library.litedram_stream(self._simulation, address, size, limit):
            raise TimeoutError(f"the reader did not end within {limit} cycles")
        return self.traffic()
