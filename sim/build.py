"""Cached builds: the generated Verilog, the memory library, the simulators."""

import importlib.metadata
import shutil
from pathlib import Path

from hw import verilog
from hw.config import BUS_BITS, CHANNELS, HeadConfig
from sim import toolchain
from sim.cache import cached, digest
from sim.toolchain import Progress

ROOT = Path(__file__).parent
MEMORY = ROOT / "memory"
HARNESS = ROOT / "harness"

_MEMORY_CODE = (
    "storage.cpp",
    "dram_map.cpp",
    "dram_channel.cpp",
    "dram_timing.cpp",
    "axi_slave.cpp",
    "timeline.cpp",
    "traffic.cpp",
    "interface.cpp",
)
# What the recipes of this file are made of; a change of a recipe must not find old products.
_RECIPES = (ROOT / "toolchain.py", Path(__file__))
_DESIGN = (HARNESS / "simulation.sv", MEMORY / "axi_memory.sv", MEMORY / "axi_constant.sv")

# Wider than the widest bus are only arrays of the data path, which would fill the file.
TRACE_OPTIONS = ("--trace-fst", "--trace-structs", "--trace-max-width", str(max(BUS_BITS)))

TESTBENCH_TOP = "simulation"
PINS_TOP = "unembed"

# Everything public costs a factor of three in speed.
_PUBLIC = {
    TESTBENCH_TOP: {
        "public_flat_rw": ("ap_clk", "ap_rst_n", "memory_port", "s_axi_control_*"),
        "public_flat_rd": (
            "irq",
            "interrupt",
            "m_axi_gmem*",
            "stream_valid",
            "stream_ready",
            "watched",
        ),
    },
    PINS_TOP: {
        "public_flat_rw": ("ap_clk", "ap_rst_n", "interrupt", "s_axi_control_*", "m_axi_gmem*"),
    },
}


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
        progress("generating Verilog", 0, 1)
        (entry / "unembed.v").write_text(verilog.generate(config))

    return (cached(f"verilog-{key}", build) / "unembed.v").read_text()


def _memory_entry(progress: Progress) -> tuple[Path, str]:
    """The cache entry of the memory library and its file name, which is its SONAME as well."""
    sources = sorted([*MEMORY.glob("*.cpp"), *MEMORY.glob("*.h")])
    key = digest(
        [
            toolchain.compiler_version(),
            *(path.read_bytes() for path in (*sources, *_RECIPES)),
        ]
    )
    name = f"libunembed_memory-{key}.so"

    def build(entry):
        progress("compiling the memory model", 0, 1)
        toolchain.run(
            [
                "g++",
                "-std=c++20",
                *toolchain.OPTIMISATION,
                *toolchain.LIBRARY_FLAGS,
                "-flto",
                "-Wall",
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


def _top_options(verilog: str, bus_bits: int, channels: int) -> list[str]:
    """What `simulation.sv` needs to know of the accelerator."""
    options = [f"-GDATA_BITS={bus_bits}", f"-GCHANNELS={channels}"]
    options += [f"-DCHANNELS_{count}" for count in CHANNELS[1:] if count <= channels]
    if "m_axi_gmem1_awvalid" not in verilog:
        options.append("-DREAD_ONLY_CHANNELS")
    return options


def _copy_sources(folder: Path, verilog: str, *others: Path) -> list[Path]:
    design = folder / "unembed.v"
    design.write_text(verilog)
    return [design, *(Path(shutil.copy(path, folder)) for path in others)]


def _rpath(memory_entry: Path) -> str:
    # Entries lie side by side, so the cache can be moved.
    return f"-Wl,-rpath,$ORIGIN/../{memory_entry.name}"


def device_library(
    verilog: str,
    bus_bits: int,
    channels: int = 1,
    constant_memory: bool = False,
    trace: bool = False,
    progress: Progress = no_progress,
) -> Path:
    """The in-process simulator of an accelerator with its memory, a shared library.

    Parameters
    ----------
    verilog : str
        The accelerator, module ``unembed``.
    bus_bits : int
        Data width of its memory ports.
    channels : int
        Number of its memory ports.
    constant_memory : bool
        Put `axi_constant.sv` in place of the DRAM model, to measure what the model costs.
    trace : bool
        It can write waveforms, which is slow, and being able to slows it down as well.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    """
    memory_entry, memory_name = _memory_entry(progress)
    harness = HARNESS / "device.cpp"
    options = [
        *_top_options(verilog, bus_bits, channels),
        f"-GCONSTANT_MEMORY={int(constant_memory)}",
        *(TRACE_OPTIONS if trace else ()),
    ]
    key = digest(
        [
            toolchain.version(),
            memory_name,
            verilog,
            *options,
            *(path.read_bytes() for path in (*_DESIGN, harness, *_RECIPES)),
        ]
    )

    def build(entry):
        if trace:
            toolchain.require_trace_libraries()
        with toolchain.workspace() as folder:
            # Signals without a name are half of all; Verilator leaves out what begins with _.
            text = verilog.replace("\\$", "\\_$") if trace else verilog
            sources = _copy_sources(folder, text, *_DESIGN)
            archives = toolchain.verilate(
                folder, sources, TESTBENCH_TOP, options, toolchain.LIBRARY_FLAGS, progress
            )
            progress("linking the simulator", 0, 1)
            toolchain.run(
                [
                    *toolchain.compile_command(folder, toolchain.LIBRARY_FLAGS, trace),
                    "-shared",
                    "-Wl,-Bsymbolic",
                    str(harness),
                    *map(str, archives),
                    str(memory_entry / memory_name),
                    _rpath(memory_entry),
                    *(("-llz4", "-lz") if trace else ()),
                    "-pthread",
                    "-o",
                    str(entry / "device.so"),
                ],
                folder,
            )

    return cached(f"device-{key}", build) / "device.so"


def _visibility(top: str) -> str:
    lines = ["`verilator_config"]
    for rule, names in _PUBLIC[top].items():
        lines += [f'{rule} -module "{top}" -var "{name}"' for name in names]
    return "\n".join(lines) + "\n"


def testbench_program(
    verilog: str,
    bus_bits: int,
    channels: int = 1,
    memory: bool = True,
    quick: bool = False,
    progress: Progress = no_progress,
) -> Path:
    """The simulator of an accelerator for cocotb, an executable named like its top module.

    Parameters
    ----------
    verilog : str
        The accelerator, module ``unembed``.
    bus_bits : int
        Data width of its memory ports.
    channels : int
        Number of its memory ports.
    memory : bool
        With the DRAM model, top ``simulation``; otherwise the accelerator is the top and the
        testbench drives all of its pins.
    quick : bool
        See `sim.toolchain.verilate`.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    """
    from cocotb_tools import config as cocotb_config

    memory_entry, memory_name = _memory_entry(progress)
    top = TESTBENCH_TOP if memory else PINS_TOP
    options = ["--vpi"]
    if memory:
        options += ["-DWATCHED", *_top_options(verilog, bus_bits, channels)]
    libraries = cocotb_config.libs_dir
    main = cocotb_config.share_dir / "lib" / "verilator" / "verilator.cpp"
    key = digest(
        [
            toolchain.version(),
            importlib.metadata.version("cocotb"),
            str(libraries),
            memory_name,
            verilog,
            top,
            *options,
            str(quick),
            *(path.read_bytes() for path in (*_DESIGN, *_RECIPES)),
        ]
    )

    def build(entry):
        with toolchain.workspace() as folder:
            sources = _copy_sources(folder, verilog, *(_DESIGN if memory else ()))
            visibility = folder / "visibility.vlt"
            visibility.write_text(_visibility(top))
            archives = toolchain.verilate(
                folder, [visibility, *sources], top, options, (), progress, quick
            )
            progress("linking the testbench", 0, 1)
            toolchain.run(
                [
                    *toolchain.compile_command(folder),
                    str(main),
                    *map(str, archives),
                    str(memory_entry / memory_name),
                    _rpath(memory_entry),
                    f"-L{libraries}",
                    f"-Wl,-rpath,{libraries}",
                    "-lcocotbvpi_verilator",
                    "-pthread",
                    "-o",
                    str(entry / top),
                ],
                folder,
            )

    return cached(f"testbench-{key}", build) / top
