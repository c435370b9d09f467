"""The boards and their facts, each with its source, from ``constraints/<board>/board.toml``."""

import tomllib
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from hw.config import HeadConfig

FOLDER = "constraints"
GENERIC = "generic"
BOARDS = (GENERIC, "kv260", "ecpix5", "ulx3s")
ECP5 = "ecp5"

GENERIC_FILES = (
    "unembed.v",
    "registers.md",
    "registers.h",
    "registers.rdl",
    "unembed.core",
    "config.json",
)
"""Names of the files that `unembed generate` writes for every board."""


@dataclass(frozen=True)
class Fact:
    """A figure of a board and where it is from."""

    name: str
    """Table and key in board.toml."""
    value: object
    source: str


@dataclass(frozen=True)
class Fpga:
    """The FPGA of a board."""

    family: str
    part: str
    """Ordering code."""
    device: str
    """As place and route names it."""
    package: str
    speed: str
    lut: int
    lut_inputs: int
    ff: int
    dsp: int
    ram: int
    """Block RAMs: 18 Kbit on ECP5, 36 Kbit on AMD's."""


@dataclass(frozen=True)
class Memory:
    """The DRAM of a board and the ports to it."""

    kind: str
    bytes: int
    ports: int
    port_bits: tuple[int, ...]
    """Widths that a port can have."""
    peak_bytes_per_s: int
    reserved_bytes: int = 0
    """Not for the accelerator."""


@dataclass(frozen=True)
class Clock:
    """Clocks of a board, MHz."""

    mhz: int
    """The accelerator's."""
    input_mhz: int
    """What it is made from."""


@dataclass(frozen=True)
class Board:
    """A board.

    Parameters
    ----------
    name, title : str
    fpga, memory, clock : optional
        None for `GENERIC`, which is no board.
    defaults : dict
        Hardware parameters for it, by `HeadConfig` field.
    facts : tuple of Fact
    """

    name: str
    title: str
    fpga: Fpga | None
    memory: Memory | None
    clock: Clock | None
    defaults: dict[str, int | bool]
    facts: tuple[Fact, ...]

    @property
    def family(self) -> str:
        """The FPGA family that Verilog for it is written for."""
        return self.fpga.family if self.fpga else GENERIC

    @property
    def file_names(self) -> tuple[str, ...]:
        """Names of all files that `unembed generate` writes for it."""
        if self.fpga is None:
            return GENERIC_FILES
        if self.family == ECP5:
            return (*GENERIC_FILES, "unembed.lpf", f"{self.name}.lpf")
        return (*GENERIC_FILES, "unembed.xdc", f"{self.name}.xdc", "settings.tcl", "build.tcl")


def folder(name: str) -> Traversable:
    """Where the facts and constraints of a board lie."""
    return files(FOLDER) / name


def constraint_text(name: str, file: str) -> str:
    """The text of a file in a board's folder."""
    return (folder(name) / file).read_text(encoding="utf-8")


def _table(kind, name, document, sources):
    """One table of facts as an object, and as facts."""
    table = document.get(name)
    if table is None:
        return None, ()
    facts = tuple(
        Fact(f"{name}.{key}", fact["value"], sources[fact["source"]]) for key, fact in table.items()
    )
    values = {key: fact["value"] for key, fact in table.items()}
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    return kind(**values), facts


@cache
def board(name: str) -> Board:
    """A board by its name.

    Raises
    ------
    KeyError
        There is no such board.
    """
    if name not in BOARDS:
        raise KeyError(name)
    document = tomllib.loads(constraint_text(name, "board.toml"))
    sources = document.get("sources", {})
    fpga, fpga_facts = _table(Fpga, "fpga", document, sources)
    memory, memory_facts = _table(Memory, "memory", document, sources)
    clock, clock_facts = _table(Clock, "clock", document, sources)
    unknown = set(document["defaults"]) - {field.name for field in fields(HeadConfig)}
    if unknown:
        raise ValueError(f"{name}/board.toml: no hardware parameters: {', '.join(sorted(unknown))}")
    return Board(
        name=name,
        title=document["board"]["title"],
        fpga=fpga,
        memory=memory,
        clock=clock,
        defaults=document["defaults"],
        facts=fpga_facts + memory_facts + clock_facts,
    )
