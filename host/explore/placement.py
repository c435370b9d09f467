"""A point synthesised, placed and routed: what it costs and how fast it is on an FPGA."""

from dataclasses import dataclass
from typing import ClassVar

from host.errors import UserError
from host.explore.store import Task
from host.synth.synthesis import synthesise
from host.synth.target import Target
from host.synth.tools import versions
from hw.config import HeadConfig


@dataclass(frozen=True)
class PlacedDesign:
    """The whole accelerator, without the register wrapper around its ports."""

    lut: int
    """Of an ECP5 with carry chains and distributed RAM."""
    lut_inputs: int
    """Of each, at most."""
    ff: int
    dsp: int
    ram: float
    """Block RAMs, of 18 Kbit on an ECP5, of 36 Kbit on others."""
    fmax_mhz: float | None
    """None where there is only synthesis."""
    critical_path: str | None
    """Where it begins, what blocks it passes and where it ends."""


@dataclass(frozen=True)
class PlacementTask(Task):
    """A configuration to synthesise and, where that is possible, to place and route.

    Parameters
    ----------
    config : HeadConfig
    target : Target
    seeds : tuple of int
        Of the placements whose median clock counts.
    tools : tuple of str
        Names and versions of those that are wanted; by default of those that are here.

    Raises
    ------
    ToolError
        A tool is missing.
    """

    kind: ClassVar[str] = "placed"
    result: ClassVar[type] = PlacedDesign

    config: HeadConfig
    target: Target
    seeds: tuple[int, ...] = (1,)
    tools: tuple[str, ...] | None = None

    def __post_init__(self):
        if self.tools is None:
            object.__setattr__(self, "tools", versions(self.target.is_placed))

    def compute(self) -> PlacedDesign:
        """Synthesise it, which takes minutes.

        Raises
        ------
        ToolError, UserError
            A tool is missing, has another version or failed, or the design does not fit the
            device.
        """
        here = versions(self.target.is_placed)
        if here != self.tools:
            raise UserError(
                "worker",
                "has other tools",
                expected=", ".join(self.tools),
                found=", ".join(here),
            )
        found = synthesise(self.config, self.target, seeds=self.seeds)
        path = None
        if found.path is not None:
            blocks = " - ".join(leg.block for leg in found.path.legs)
            path = f"{found.path.begin} to {found.path.end} through {blocks}"
        return PlacedDesign(
            lut=found.lut4,
            lut_inputs=self.target.lut_inputs,
            ff=found.ff,
            dsp=found.dsp,
            ram=found.ram,
            fmax_mhz=found.fmax_mhz,
            critical_path=path,
        )
