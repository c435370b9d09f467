"""Designs translated by Verilator, behind C functions of their own, as libraries for ctypes."""

import ctypes
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sim import build, toolchain

CLOCKED = Path(__file__).with_name("clocked.h")
"""What the C++ of every such library begins with; it lies beside it when it is compiled."""

RECIPES = (Path(__file__), CLOCKED, Path(toolchain.__file__))
"""What a library is made of besides its own sources."""


def compile_library(
    folder: Path,
    sources: Sequence[Path],
    top: str,
    harness: Path,
    library: Path,
    options: Sequence[str] = (),
    quick: bool = False,
) -> None:
    """Translate a design and compile it with the C++ that drives it.

    Parameters
    ----------
    folder, sources, top, options, quick
        As of `sim.toolchain.verilate`.
    harness : Path
        The C++, which exports functions.
    library : Path
        Is written.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    """
    flags = toolchain.LIBRARY_FLAGS
    archives = toolchain.verilate(
        folder, sources, top, options, flags, build.no_progress, quick=quick
    )
    shutil.copy(CLOCKED, folder)
    program = shutil.copy(harness, folder)
    command = [*toolchain.compile_command(folder, flags), "-shared", "-Wl,-Bsymbolic", program]
    toolchain.run([*command, *map(str, archives), "-pthread", "-o", str(library)], folder)


def load(library: Path, signatures: Mapping[str, tuple]) -> ctypes.CDLL:
    """A library whose functions have the result and the arguments that `signatures` says."""
    loaded = ctypes.CDLL(str(library))
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
