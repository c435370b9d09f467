"""The simulated system: built, cached, and run."""

import shutil
from ctypes import POINTER, byref, c_int, c_uint8, c_uint32, c_uint64
from ctypes import c_void_p as handle
from dataclasses import astuple, dataclass
from pathlib import Path

from host.litex import build as litex_build
from hw.config import HeadConfig
from sim import build, toolchain
from sim.cache import cached, digest
from tests.verilated import RECIPES, compile_library, load

HERE = Path(__file__).parent
HARNESS = HERE / "harness.cpp"
GENERATORS = (HERE / "simulated_soc.py", HERE / "phy_model.py")

CLOCK_HZ = 75_000_000
RESET_CYCLES = 16
DEADLINE_CYCLES = 100_000

_SIGNATURES = {
    "soc_create": (handle, []),
    "soc_destroy": (None, [handle]),
    "soc_reset": (None, [handle, c_uint64]),
    "soc_run": (None, [handle, c_uint64]),
    "soc_read": (c_int, [handle, c_uint32, POINTER(c_uint32), c_uint64]),
    "soc_write": (c_int, [handle, c_uint32, c_uint32, c_uint64]),
    "soc_plant": (None, [handle, c_int, POINTER(c_uint8)]),
    "soc_cycles": (c_uint64, [handle]),
}


@dataclass(frozen=True)
class Window:
    """Where a byte lane of the simulated PHY reads right, and where it sees the strobe."""

    bitslip: int
    first: int
    last: int
    strobe_first: int = 0
    strobe_last: int = 7


ALWAYS = (Window(0, 0, 7), Window(0, 0, 7))


@dataclass(frozen=True)
class System:
    """A built system."""

    library: Path
    csr: Path


def system(config: HeadConfig) -> System:
    """The simulated system with an accelerator; cached.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    """
    verilog = build.accelerator_verilog(config)
    recipes = (*GENERATORS, *litex_build.GATEWARE, HARNESS, Path(__file__), *RECIPES)
    key = digest(
        [
            toolchain.version(),
            verilog,
            litex_build.litex_versions(),
            *(path.read_bytes() for path in recipes),
        ]
    )

    def build_library(entry):
        with toolchain.workspace() as folder:
            (folder / "unembed.v").write_text(verilog)
            description = {"clock_hz": CLOCK_HZ, "verilog": "unembed.v"}
            litex_build.elaborate("tests.litex.simulated_soc", description, folder)
            design = [folder / "unembed.v", folder / "soc.v"]
            compile_library(folder, design, "soc", HARNESS, entry / "soc.so")
            shutil.copy(folder / "csr.csv", entry)

    entry = cached(f"litex-simulator-{key}", build_library)
    return System(entry / "soc.so", entry / "csr.csv")


class Simulation:
    """A system in simulation, from its reset on.

    Parameters
    ----------
    system : System
    windows : sequence of Window
        By byte lane.
    """

    def __init__(self, system: System, windows=ALWAYS):
        self._library = load(system.library, _SIGNATURES)
        self._simulation = self._library.soc_create()
        self.plant(windows)
        self._library.soc_reset(self._simulation, RESET_CYCLES)

    def close(self) -> None:
        if self._simulation:
            self._library.soc_destroy(self._simulation)
            self._simulation = None

    def plant(self, windows) -> None:
        """Set where the byte lanes read right."""
        for lane, window in enumerate(windows):
            self._library.soc_plant(self._simulation, lane, (c_uint8 * 5)(*astuple(window)))

    @property
    def cycles(self) -> int:
        """Clocks simulated so far."""
        return self._library.soc_cycles(self._simulation)

    def _check(self, response: int, access: str, address: int) -> None:
        if response:
            answer = "was answered with an error" if response > 0 else "was not answered"
            raise RuntimeError(f"the {access} at {address:#x} {answer}")

    def read(self, address: int) -> int:
        """A word on the bus."""
        value = c_uint32()
        response = self._library.soc_read(self._simulation, address, byref(value), DEADLINE_CYCLES)
        self._check(response, "read", address)
        return value.value

    def write(self, address: int, value: int) -> None:
        """Write a word on the bus."""
        response = self._library.soc_write(self._simulation, address, value, DEADLINE_CYCLES)
        self._check(response, "write", address)

    def run(self, cycles: int) -> None:
        """Let the clock run."""
        self._library.soc_run(self._simulation, cycles)
