"""What a placed system uses and which clocks it meets, from nextpnr's report."""

import json
from dataclasses import dataclass
from pathlib import Path

from host.errors import UserError

RESOURCES = {
    "TRELLIS_COMB": "lut4",
    "TRELLIS_FF": "ff",
    "MULT18X18D": "dsp",
    "DP16KD": "ram",
}
"""What nextpnr calls them, and we."""


@dataclass(frozen=True)
class Clock:
    """A clock's frequency, MHz: the highest that the placed design allows, and the needed one."""

    net: str
    achieved: float
    required: float

    @property
    def met(self) -> bool:
        return self.achieved >= self.required


@dataclass(frozen=True)
class Report:
    """A placed system."""

    used: dict[str, int]
    available: dict[str, int]
    clocks: tuple[Clock, ...]

    def check_timing(self, seed: int) -> None:
        """Raise UserError unless every clock is met."""
        missed = [clock for clock in self.clocks if not clock.met]
        if missed:
            listed = ", ".join(
                f"{clock.net} {clock.achieved:.1f} of {clock.required:.1f} MHz" for clock in missed
            )
            raise UserError(
                "timing",
                f"is not met: {listed}; try another --seed than {seed}, a smaller accelerator or "
                "a lower --clock-mhz",
            )

    def as_dict(self) -> dict:
        """For JSON."""
        clocks = {
            clock.net: {"achieved_mhz": clock.achieved, "required_mhz": clock.required}
            for clock in self.clocks
        }
        return {"used": self.used, "available": self.available, "clocks": clocks}


def read_report(path: Path) -> Report:
    """The report that nextpnr wrote."""
    document = json.loads(path.read_text())
    cells = document["utilization"]
    clocks = [
        Clock(_net(name), round(clock["achieved"], 2), round(clock["constraint"], 2))
        for name, clock in sorted(document["fmax"].items())
    ]
    return Report(
        used={ours: cells[theirs]["used"] for theirs, ours in RESOURCES.items()},
        available={ours: cells[theirs]["available"] for theirs, ours in RESOURCES.items()},
        clocks=tuple(clocks),
    )


def _net(name: str) -> str:
    """A net without what nextpnr puts around its name."""
    return name.removeprefix("$glbnet$").partition("$")[0]
