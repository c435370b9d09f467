"""The critical path of a placed design, in terms of its blocks."""

from collections.abc import Callable
from dataclasses import dataclass

ROUTING = "routing"


@dataclass(frozen=True)
class Leg:
    """A part of a path within one block."""

    block: str
    logic_ns: float
    routing_ns: float
    """To the inputs of cells of the block."""


@dataclass(frozen=True)
class CriticalPath:
    """The longest path from a register to a register.

    Attributes
    ----------
    begin, end : str
        The registers, each with its block.
    legs : tuple of Leg
        In the order of the path.
    """

    begin: str
    end: str
    legs: tuple[Leg, ...]

    @property
    def logic_ns(self) -> float:
        """Through cells, clock to output and setup included."""
        return sum(leg.logic_ns for leg in self.legs)

    @property
    def routing_ns(self) -> float:
        """Between cells."""
        return sum(leg.routing_ns for leg in self.legs)

    @property
    def ns(self) -> float:
        """In all."""
        return self.logic_ns + self.routing_ns

    def as_dict(self) -> dict:
        """For JSON."""
        return {
            "ns": round(self.ns, 3),
            "logic_ns": round(self.logic_ns, 3),
            "routing_ns": round(self.routing_ns, 3),
            "from": self.begin,
            "to": self.end,
            "blocks": [
                {
                    "block": leg.block,
                    "logic_ns": round(leg.logic_ns, 3),
                    "routing_ns": round(leg.routing_ns, 3),
                }
                for leg in self.legs
            ],
        }


def critical_path(
    report: dict, block: Callable[[str], str], register: Callable[[str], str]
) -> CriticalPath | None:
    """The critical path in nextpnr's report, None if it has none.

    Parameters
    ----------
    report : dict
        What nextpnr writes with ``--report``.
    block, register : callable
        Block of a cell and name of a register, by the name of the cell.
    """
    paths = [
        entry["path"]
        for entry in report["critical_paths"]
        if entry["from"] == entry["to"] and entry["path"]
    ]
    if not paths:
        return None
    steps = max(paths, key=lambda path: sum(step["delay"] for step in path))
    legs = []
    for step in steps:
        there = block(step["to"]["cell"])
        if not legs or legs[-1][0] != there:
            legs.append([there, 0.0, 0.0])
        legs[-1][2 if step["type"] == ROUTING else 1] += step["delay"]
    ends = [register(steps[0]["from"]["cell"]), register(steps[-1]["to"]["cell"])]
    return CriticalPath(*ends, tuple(Leg(*leg) for leg in legs))
