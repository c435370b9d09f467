"""LiteDRAM's core with its SDRAM model as Verilog: its Python environment and what it generates."""

import json
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from sim.cache import cached, digest
from sim.toolchain import run

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
GENERATOR = HERE / "generate.py"


@dataclass(frozen=True)
class Controller:
    """A memory and its controller, with one AXI port as wide as the controller's own data path.

    The memory of a simulation runs at the controller's clock for SDR, at twice that for DDR2 and at
    four times that for DDR3 and DDR4.
    """

    module: str
    """LiteDRAM's name of the part."""
    memory_type: str
    byte_lanes: int
    phy: str
    """LiteDRAM asks for it; in a simulation the SDRAM model takes its place."""
    clock_hz: int
    """Of controller and AXI port."""
    refresh: bool = True

    def arguments(self) -> dict:
        """The keys of a file for `litedram_gen`."""
        return {
            "cpu": None,
            "device": "",
            "memtype": self.memory_type,
            "sdram_module": self.module,
            "sdram_module_nb": self.byte_lanes,
            "sdram_rank_nb": 1,
            "sdram_phy": self.phy,
            "input_clk_freq": self.clock_hz,
            "sys_clk_freq": self.clock_hz,
            "with_refresh": self.refresh,
            "user_ports": {"0": {"type": "axi", "id_width": 1}},
        }


@dataclass(frozen=True)
class Core:
    """A generated controller."""

    verilog: str
    """Module ``litedram_core``."""
    registers: dict[str, int]
    """Byte addresses of the control registers on its Wishbone port."""
    memory_bytes: int
    data_bits: int
    """Width of its AXI port."""


def interpreter() -> Path:
    """Python with the packages of requirements.txt; an environment in the cache.

    Raises
    ------
    ToolError
        The packages cannot be installed.
    """
    key = digest([REQUIREMENTS.read_bytes(), sys.version, sys.base_prefix])

    def build(entry):
        # The environment is moved when it is complete, which its interpreter does not mind: it
        # finds its packages from where it is. The scripts in it would, so none is used.
        venv.create(entry, symlinks=True, with_pip=True)
        pip = [str(entry / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        # Wheels alone: nothing that is not pinned takes part in a build.
        run(
            [*pip, "install", "--no-deps", "--only-binary", ":all:", "-r", str(REQUIREMENTS)],
            entry,
        )

    return cached(f"litedram-environment-{key}", build) / "bin" / "python"


def generate(controller: Controller) -> Core:
    """The core of a controller; cached.

    Raises
    ------
    ToolError
        Its environment cannot be installed, or LiteDRAM refuses the configuration.
    """
    arguments = json.dumps(controller.arguments(), sort_keys=True)
    key = digest([arguments, REQUIREMENTS.read_bytes(), GENERATOR.read_bytes()])

    def build(entry):
        description = entry / "arguments.json"
        description.write_text(arguments)
        run([str(interpreter()), str(GENERATOR), str(description), str(entry)], entry)

    entry = cached(f"litedram-core-{key}", build)
    description = json.loads((entry / "description.json").read_text())
    return Core((entry / "litedram_core.v").read_text(), **description)
