"""The Pareto front of a sweep, and which points are near it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log

RELATIVE_STEP = 0.01
"""Costs count as equal within about this share: what is estimated is no more exact."""
ABSOLUTE_STEP = 0.001
"""And shares, such as those of wrong tokens, within this difference."""


@dataclass(frozen=True)
class Objective:
    """What is to be small.

    Parameters
    ----------
    costs : sequence of float
        Of every point; above zero if `relative`.
    relative : bool
    """

    costs: Sequence[float]
    relative: bool = True

    def cell(self, index: int) -> int:
        """The cost in steps."""
        cost = self.costs[index]
        return floor(log(cost, 1 + RELATIVE_STEP) if self.relative else cost / ABSOLUTE_STEP)


def pareto_front(objectives: Sequence[Objective], ties: Sequence[float]) -> list[int]:
    """Points that no other one dominates, in the order of the first objective.

    Costs are compared on a grid, so that the front is not made of points that differ by less than
    their costs are known (an epsilon-Pareto set: Laumanns et al., "Combining convergence and
    diversity in evolutionary multiobjective optimization", 2002). Of points in one cell of the grid
    the one with the lowest costs is taken, the first objective first, `ties` last.
    """
    cells = [tuple(objective.cell(index) for objective in objectives) for index in range(len(ties))]

    def order(index):
        return cells[index], [objective.costs[index] for objective in objectives], ties[index]

    front: list[int] = []
    for index in sorted(range(len(ties)), key=order):
        own = cells[index]
        # Whatever dominates a cell comes before it.
        if not any(all(a <= b for a, b in zip(cells[other], own, strict=True)) for other in front):
            front.append(index)
    return front


def neighbours(
    front: Sequence[int], places: Sequence[tuple[int, ...]], count: int, costs: Sequence[float]
) -> list[int]:
    """The nearest points of each point of the front, without those on it.

    Parameters
    ----------
    front : sequence of int
    places : sequence of tuple
        Of every point: for each swept parameter the number of its value.
    count : int
        How many for each point of the front.
    costs : sequence of float
        Of points as near as each other the cheaper ones are taken.

    Returns
    -------
    list of int
        In ascending order.
    """
    others = sorted(set(range(len(places))) - set(front))
    near: set[int] = set()
    for index in front:

        def distance(other, own=places[index]):
            steps = sum(abs(a - b) for a, b in zip(own, places[other], strict=True))
            return steps, costs[other], other

        near.update(sorted(others, key=distance)[:count])
    return sorted(near)
