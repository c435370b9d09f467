"""What a configuration takes of an FPGA: multipliers and block RAMs counted, LUTs estimated."""

from dataclasses import dataclass
from typing import ClassVar

from host.explore.store import Task
from hw.config import HeadConfig
from hw.family import Family
from hw.resources import count

FAMILY = "ecp5"


@dataclass(frozen=True)
class Area:
    """Of the whole accelerator, without memory controller and interconnect."""

    lut4: int
    """Estimated."""
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
        found = count(self.config, Family(FAMILY))
        bits = sum(width * depth for width, depth in found.memories)
        return Area(lut4(self.config), found.dsp, found.block_rams(FAMILY), bits)


def lut4(config: HeadConfig) -> int:
    """LUT4 of an ECP5, estimated."""
    return round(2500 + config.channels * config.batch * (60 * config.lanes + 1500))
