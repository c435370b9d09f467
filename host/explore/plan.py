"""What a sweep is to do, and what it has found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from host.explore.head import SweptHead
from host.explore.outcome import Outcome
from host.explore.space import Space
from host.synth.target import Target

NONE, FRONT, ALL = "none", "front", "all"


@dataclass(frozen=True)
class Plan:
    """What is done of a space.

    Parameters
    ----------
    space : Space
    simulate : "none", "front" or "all"
        Which points are simulated.
    neighbours : int
        Of the points of the front, how many near each are simulated with them.
    hidden : float32 [N, d], optional
        States that weight formats are judged on, and simulated with.
    target : Target, optional
        FPGA that points of the front are synthesised for and placed on.
    placements : int
        How many of these at most, evenly from the front.
    seeds : int
        Placements of each, whose median clock counts.
    """

    space: Space
    simulate: str = FRONT
    neighbours: int = 0
    hidden: np.ndarray | None = None
    target: Target | None = None
    placements: int = 6
    seeds: int = 1

    @property
    def head(self) -> SweptHead:
        return self.space.head


@dataclass(frozen=True)
class Sweep:
    """The outcome of a plan."""

    plan: Plan
    outcomes: list[Outcome]
    """In the order of the space."""
    invalid: Mapping[str, int] = field(default_factory=dict)
    """Combinations that make no hardware, by reason."""
    repeated: int = 0
    reused: int = 0
    """Measurements that were there from before."""

    @property
    def head(self) -> SweptHead:
        return self.plan.head

    @property
    def swept(self) -> list[str]:
        """Names of what has more than one value."""
        return self.plan.space.swept

    @property
    def front(self) -> list[Outcome]:
        """The Pareto front, the fastest first."""
        front = [outcome for outcome in self.outcomes if outcome.front]
        return sorted(front, key=lambda outcome: -outcome.tokens_per_s)

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.failures]


def thinned(values: Sequence, most: int) -> list:
    """At most so many, evenly from all, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(index * last / max(1, most - 1))] for index in range(most)]
