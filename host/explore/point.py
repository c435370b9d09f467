"""One point of a sweep: hardware, memory and clock."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING

from host.explore.values import shown
from host.jobs.capabilities import option
from host.options.memory import IDEAL
from hw.config import HeadConfig
from sim.estimate import Estimate, estimate
from sim.memory import MemoryModel

if TYPE_CHECKING:
    from host.boards.board import Board

NO_DEFAULT = ("width", "tile_rows", "rankers", "insert_interval", "max_burst", "outstanding_bytes")
"""Parameters whose default depends on others, so that a command always has them."""


@dataclass(frozen=True)
class Point:
    """What is built and what it runs on; `config.k` results are asked for.

    Jobs are of `config.batch` hidden states and use whatever function is built.
    """

    config: HeadConfig
    memory: MemoryModel
    clock_hz: Fraction

    @property
    def memory_name(self) -> str:
        """As the option has it."""
        return self.memory.dram.device.name if self.memory.dram else IDEAL

    def estimate(self, rows: int, dim: int, clock_hz: Fraction | None = None) -> Estimate:
        """The cycles of one job of a head, at another clock if one is given.

        Raises
        ------
        ValueError
            The memory cannot serve so many ports.
        """
        return estimate(
            self.config,
            rows,
            dim,
            k=self.config.k,
            memory=self.memory,
            clock_hz=clock_hz or self.clock_hz,
            mask=self.config.mask,
            all_logits=self.config.all_logits,
        )

    def generate_command(self, folder: str, board: "Board | None" = None) -> str:
        """The command that writes this hardware to a folder, with the files of a board."""
        parts = ["unembed generate", *([f"--board {board.name}"] if board else [])]
        if board is not None and self.clock_hz != board.clock.mhz * 10**6:
            parts.append(f"--clock-mhz {Fraction(self.clock_hz) / 10**6}")
        said = {*NO_DEFAULT, *(board.defaults if board else ())}
        for field in fields(HeadConfig):
            value = getattr(self.config, field.name)
            if field.name not in said and value == field.default:
                continue
            if isinstance(value, bool):
                name = option(field.name)
                parts.append(name if value else name.replace("--", "--no-", 1))
            elif field.name == "weight_bits":
                parts.append(f"{option(field.name)} {value}")
            else:
                parts.append(f"{option(field.name)} {shown(field.name, value)}")
        return " ".join([*parts, f"-o {folder}"])


def label(settings: Mapping[str, object], names: Mapping[str, str] | None = None) -> str:
    """The values of a point in words, such as `64 lanes, tile_rows 16`."""
    words = []
    for field, value in settings.items():
        text = shown(field, value)
        if field == "lanes":
            words.append(f"{text} lanes")
        elif field == "clock_mhz":
            words.append(f"{text} MHz")
        elif field in ("memory", "weight_bits"):
            words.append(text)
        else:
            words.append(f"{(names or {}).get(field, field)} {text}")
    return ", ".join(words)
