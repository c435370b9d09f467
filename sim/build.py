"""Cached builds: the generated Verilog, the memory library, the simulators."""

import importlib.metadata
import shutil
from pathlib import Path

from hw.config import HeadConfig
from sim import toolchain
from sim.cache import cached, digest
from sim.toolchain import Progress

ROOT = Path(__file__).parent
MEMORY = ROOT / "memory"
HARNESS = ROOT / "harness"

_MEMORY_CODE = ("storage.cpp", "axi_slave.cpp", "interface.cpp")
_DESIGN = (HARNESS / "simulation.sv", MEMORY / "axi_memory.sv", MEMORY / "axi_constant.sv")


def no_progress(stage: str, done: int, total: int) -> None:
    """The progress nobody watches."""


def accelerator_verilog(config: HeadConfig, progress: Progress = no_progress) -> str:
    """Verilog of the accelerator `config`, module ``unembed``; cached."""
    sources = sorted((ROOT.parent / "hw").glob("**/*.py"))
    key = digest(
        [
            repr(config),
            importlib.metadata.version("amaranth"),
            *(part for path in sources for part in (path.name, path.read_bytes())),
        ]
    )

    def build(entry):
        # Amaranth takes half a second to import, which a cached simulator need not wait for.
        from hw import verilog

        progress("generating Verilog", 0, 1)
        (entry / "unembed.v").write_text(verilog.generate(config))

    return (cached(f"verilog-{key}", build) / "unembed.v").read_text()


def _memory_entry(progress: Progress) -> tuple[Path, str]:
    """The cache entry of the memory library and its file name, which is its SONAME as well."""
    sources = sorted([*MEMORY.glob("*.cpp"), *MEMORY.glob("*.h")])
    key = digest([toolchain.compiler_version(), *(path.read_bytes() for path in sources)])
    name = f"libunembed_memory-{key}.so"

    def build(entry):
        progress("compiling the memory model", 0, 1)
        toolchain.run(
            [
                "g++",
                "-std=c++20",
                *toolchain.OPTIMISATION,
                "-Wall",
                "-fPIC",
                "-shared",
                f"-Wl,-soname,{name}",
                *(str(MEMORY / source) for source in _MEMORY_CODE),
                "-o",
                str(entry / name),
            ],
            entry,
        )

    return cached(f"memory-{key}", build), name


def memory_library(progress: Progress = no_progress) -> Path:
    """The shared library of the DRAM model, for ctypes.

    Every simulator is linked to it by its name, so that Python and the simulation in one process
    have the same instance.
    """
    entry, name = _memory_entry(progress)
    return entry / name


def _copy_sources(folder: Path, verilog: str, *extra: Path) -> list[Path]:
    design = folder / "unembed.v"
    design.write_text(verilog)
    return [design, *(Path(shutil.copy(path, folder)) for path in (*_DESIGN, *extra))]


def _rpath(memory_entry: Path) -> str:
    # Entries lie side by side, so the cache can be moved.
    return f"-Wl,-rpath,$ORIGIN/../{memory_entry.name}"


def device_library(
    verilog: str,
    bus_bits: int,
    constant_memory: bool = False,
    progress: Progress = no_progress,
) -> Path:
    """The in-process simulator of an accelerator with its memory, a shared library.

    Parameters
    ----------
    verilog : str
        The accelerator, module ``unembed``.
    bus_bits : int
        Data width of its memory port.
    constant_memory : bool
        Put `axi_constant.sv` in place of the DRAM model, to measure what the model costs.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    """
    memory_entry, memory_name = _memory_entry(progress)
    harness = HARNESS / "device.cpp"
    options = [f"-GDATA_BITS={bus_bits}", f"-GCONSTANT_MEMORY={int(constant_memory)}"]
    key = digest(
        [
            toolchain.version(),
            memory_name,
            verilog,
            *options,
            *(path.read_bytes() for path in (*_DESIGN, harness, ROOT / "toolchain.py")),
        ]
    )

    def build(entry):
        with toolchain.workspace() as folder:
            sources = _copy_sources(folder, verilog)
            archives = toolchain.verilate(folder, sources, "simulation", options, progress)
            progress("linking the simulator", 0, 1)
            toolchain.run(
                [
                    *toolchain.compile_command(folder),
                    "-shared",
                    "-Wl,-Bsymbolic",
                    str(harness),
                    *map(str, archives),
                    str(memory_entry / memory_name),
                    _rpath(memory_entry),
                    "-pthread",
                    "-o",
                    str(entry / "device.so"),
                ],
                folder,
            )

    return cached(f"device-{key}", build) / "device.so"
