"""What a configuration takes of an FPGA: DSP blocks and block RAMs counted, LUTs estimated."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import ClassVar

from host.explore.area_features import features
from host.explore.store import Task
from hw.config import HeadConfig
from hw.resources import count

FAMILY = "ecp5"
LUT_INPUTS = 4
CONSTANTS = "area_ecp5.json"
"""Fitted to synthesised configurations by `tests.bench.area`, which also says how well."""


@dataclass(frozen=True)
class Area:
    """Of the whole accelerator on an ECP5, without memory controller and interconnect."""

    lut4: int
    """Estimated; carry chains and distributed RAM are counted as the LUTs that they take."""
    dsp: int
    """Multipliers of 18 x 18 bits."""
    ram: int
    """Block RAMs of 18 Kbit."""
    memory_bits: int
    """What is kept in them."""


@dataclass(frozen=True)
class AreaTask(Task):
    """A configuration whose area is wanted."""

    kind: ClassVar[str] = "area"
    result: ClassVar[type] = Area

    config: HeadConfig

    def compute(self) -> Area:
        """Elaborate the design and count in it, which takes a second."""
        found = count(self.config)
        bits = sum(width * depth for width, depth in found.memories)
        return Area(lut4(self.config), found.dsp, found.block_rams(FAMILY), bits)


@cache
def constants() -> dict[str, dict[str, float]]:
    """LUT4 for each unit of a feature, by block and feature."""
    return json.loads((files("host.explore") / CONSTANTS).read_text())["blocks"]


def lut4(config: HeadConfig) -> int:
    """LUT4 of an ECP5, estimated."""
    found = features(config)
    return round(
        sum(
            factor * found[block][name]
            for block, factors in constants().items()
            if block in found
            for name, factor in factors.items()
        )
    )
