"""Tasks whose results are kept by what they depend on, for any number of processes and runs."""

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from host.errors import UserError
from sim.cache import cache_directory, cached, digest

ROOT = Path(__file__).parents[2]
SOURCES = ("hw/**/*.py", "sim/**/*.*", "host/**/*.py", "host/explore/*.json")
"""What a result depends on besides its task."""
FILE_NAME = "result.json"


@cache
def version() -> str:
    """A digest of the sources that results depend on."""
    paths = sorted(path for pattern in SOURCES for path in ROOT.glob(pattern) if _is_source(path))
    return digest(part for path in paths for part in (path.name, path.read_bytes()))


def _is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


@dataclass(frozen=True)
class Task(ABC):
    """Something to compute on whatever machine. Its fields say all that the result depends on, by
    their `repr`.
    """

    kind: ClassVar[str]
    """What it computes, in a name of the cache."""
    result: ClassVar[type]
    """A dataclass of plain values."""

    @abstractmethod
    def compute(self) -> object:
        """Compute the result."""

    @property
    def entry(self) -> str:
        """The name under which the result is kept."""
        return f"{self.kind}-{digest([version(), repr(self)])}"

    def kept(self) -> object | None:
        """The result, if it was computed before and can be read."""
        try:
            return self._read(cache_directory() / self.entry)
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def keep(self, result: object) -> None:
        """Keep a result that was computed elsewhere."""
        self._entry(lambda: result)

    def run(self, wanted: str) -> object:
        """The result, computed if it is not there; of several processes by one.

        Parameters
        ----------
        wanted : str
            `version` of the program that asks.

        Raises
        ------
        UserError
            This machine has another version of the program.
        """
        if wanted != version():
            raise UserError(
                "worker", "has another version of unembed", expected=wanted, found=version()
            )
        return self._read(self._entry(self.compute))

    def _read(self, entry: Path) -> object:
        return self.result(**json.loads((entry / FILE_NAME).read_text()))

    def _entry(self, compute) -> Path:
        return cached(
            self.entry,
            lambda folder: (folder / FILE_NAME).write_text(json.dumps(asdict(compute()))),
        )
