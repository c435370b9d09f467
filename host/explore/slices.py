"""The part of a sweep in which only lanes and tile size change."""

from collections.abc import Mapping
from dataclasses import dataclass

from host.explore.outcome import Outcome
from host.explore.plan import Sweep
from host.explore.point import label
from host.explore.table import HEADINGS

FREE = ("lanes", "fold", "tile_rows")


@dataclass(frozen=True)
class Slice:
    """Points that differ in lanes and tile size alone."""

    by_lanes: Mapping[int, list[Outcome]]
    """In the order of lanes and of tile sizes."""
    fixed: str
    """What is the same in all."""

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for group in self.by_lanes.values() for outcome in group]


def best_slice(sweep: Sweep) -> Slice | None:
    """The slice through the fastest point of the front, None without several tile sizes."""
    if "tile_rows" not in sweep.swept or not sweep.front:
        return None
    best = sweep.front[0]

    def fixed(outcome):
        return {name: value for name, value in outcome.settings.items() if name not in FREE}

    like = [outcome for outcome in sweep.outcomes if fixed(outcome) == fixed(best)]
    like.sort(key=lambda outcome: (outcome.lanes, outcome.point.config.tile_rows))
    by_lanes: dict[int, list[Outcome]] = {}
    for outcome in like:
        by_lanes.setdefault(outcome.lanes, []).append(outcome)
    config = best.point.config
    always = {
        "memory": best.point.memory_name,
        "clock_mhz": best.point.clock_hz / 10**6,
        "bus_bits": config.bus_bits,
        "weight_bits": config.weight_bits,
        "batch": config.batch,
        "k": config.k,
    }
    return Slice(by_lanes, label(always | fixed(best), HEADINGS))
