"""A sweep: estimates of all points, then what is measured of those that matter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from host.console import StageProgress
from host.explore.area import AreaTask
from host.explore.front import Objective, neighbours, pareto_front
from host.explore.head import SweptHead
from host.explore.measure import SimulationTask
from host.explore.outcome import ImageSize, Outcome, Placed
from host.explore.placement import PlacedDesign, PlacementTask
from host.explore.plan import ALL, NONE, Plan, Sweep, thinned
from host.explore.point import Point
from host.explore.quality import QualityTask, quality_format
from host.explore.space import Points
from host.explore.store import Task
from host.explore.workers import Failure, Workers


class _Run:
    """A plan that is being carried out."""

    def __init__(self, plan: Plan, workers: Workers, progress: StageProgress):
        self.plan = plan
        self.workers = workers
        self.progress = progress
        self.reused = 0

    def measure(
        self, stage: str, tasks: Mapping[object, Task], quick: bool = False
    ) -> dict[object, object]:
        """Results or failures of tasks by their keys; what was computed before is reused."""
        found, left = {}, {}
        for key, task in tasks.items():
            result = task.kept()
            if result is None:
                left[key] = task
            else:
                found[key] = result
        self.reused += len(found)
        keys = list(left)
        if not keys:
            return found
        self.progress(stage, 0, len(keys))
        results = self.workers.results(list(left.values()), quick)
        for done, (number, result) in enumerate(results, 1):
            found[keys[number]] = result
            if not isinstance(result, Failure):
                left[keys[number]].keep(result)  # another machine's cache is not this one's
            self.progress(stage, done, len(keys))
        return found


def explore(plan: Plan, workers: Workers, progress: StageProgress) -> Sweep:
    """Carry out a plan.

    A point that fails is told in its outcome; the others go on. What has been measured is kept as
    it comes, so that an interrupted sweep goes on where it was.

    Raises
    ------
    UserError
        There are no workers.
    """
    points = plan.space.points(progress)
    run = _Run(plan, workers, progress)
    outcomes = _estimated(plan, points)
    outcomes = _with_area(run, outcomes)
    if plan.hidden is not None:
        outcomes = _with_quality(run, outcomes)
    outcomes = mark_front(outcomes)
    outcomes = _with_simulation(run, outcomes)
    if plan.target is not None:
        outcomes = _with_placement(run, outcomes)
    return Sweep(plan, outcomes, points.invalid, points.repeated, run.reused)


def _estimated(plan: Plan, points: Points) -> list[Outcome]:
    rows, dim = plan.head.rows, plan.head.dim
    return [
        Outcome(
            number=number,
            point=point,
            settings=settings,
            estimate=estimate,
            image=ImageSize.of(point, rows, dim),
        )
        for number, (point, settings, estimate) in enumerate(
            zip(points.points, points.settings, points.estimates, strict=True), 1
        )
    ]


def _failed(outcome: Outcome, what: str, failure: Failure) -> Outcome:
    return replace(outcome, failures=(*outcome.failures, f"{what}: {failure.reason}"))


def _taken(outcomes: Sequence[Outcome], found: Mapping, key, name: str, what: str) -> list[Outcome]:
    """Outcomes with what was found under their keys."""
    taken = []
    for outcome in outcomes:
        result = found.get(key(outcome))
        if isinstance(result, Failure):
            outcome = _failed(outcome, what, result)
        elif result is not None:
            outcome = replace(outcome, **{name: result})
        taken.append(outcome)
    return taken


def _with_area(run: _Run, outcomes: list[Outcome]) -> list[Outcome]:
    tasks = {outcome.point.config: AreaTask(outcome.point.config) for outcome in outcomes}
    found = run.measure("counting multipliers and RAM", tasks, quick=True)
    return _taken(outcomes, found, lambda outcome: outcome.point.config, "area", "area")


def _with_quality(run: _Run, outcomes: list[Outcome]) -> list[Outcome]:
    states = tuple(state.tobytes() for state in run.plan.hidden)
    formats = {quality_format(outcome.point.config) for outcome in outcomes}
    tasks = {
        config: QualityTask(run.plan.head, config, states) for config in sorted(formats, key=repr)
    }
    found = run.measure("judging weight formats", tasks)
    return _taken(
        outcomes, found, lambda each: quality_format(each.point.config), "quality", "quality"
    )


def mark_front(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes with their Pareto front: tokens/s against LUT4, DSP and, where it was judged, the
    share of states that lose their best token.
    """
    whole = [outcome for outcome in outcomes if outcome.area is not None]
    objectives = [
        Objective([1 / outcome.tokens_per_s for outcome in whole]),
        Objective([max(1, outcome.lut4) for outcome in whole]),
        Objective([max(1, outcome.dsp) for outcome in whole]),
    ]
    if whole and all(outcome.quality is not None for outcome in whole):
        objectives.append(Objective([1 - outcome.quality.top1 for outcome in whole], False))
    front = pareto_front(objectives, [outcome.area.ram for outcome in whole])
    numbers = {whole[index].number for index in front}
    return [replace(outcome, front=outcome.number in numbers) for outcome in outcomes]


def _to_simulate(plan: Plan, outcomes: Sequence[Outcome]) -> list[int]:
    if plan.simulate == NONE:
        return []
    if plan.simulate == ALL:
        return list(range(len(outcomes)))
    values = {name: list(plan.space.values[name]) for name in plan.space.swept}
    places = [
        tuple(values[name].index(outcome.settings[name]) for name in values) for outcome in outcomes
    ]
    front = [index for index, outcome in enumerate(outcomes) if outcome.front]
    costs = [1 / outcome.tokens_per_s for outcome in outcomes]
    return sorted([*front, *neighbours(front, places, plan.neighbours, costs)])


def _with_simulation(run: _Run, outcomes: list[Outcome]) -> list[Outcome]:
    """What is simulated may bring other points to the front, which are simulated then."""
    tried: set[int] = set()
    while new := set(_to_simulate(run.plan, outcomes)) - tried:
        outcomes = mark_front(_simulated(run, outcomes, sorted(new)))
        tried |= new
    return outcomes


def _simulated(run: _Run, outcomes: list[Outcome], indices: Sequence[int]) -> list[Outcome]:
    plan = run.plan
    tasks = {}
    for index in indices:
        point = outcomes[index].point
        states = ()
        if plan.hidden is not None:
            # Again from the first one where the batch is larger than their number.
            chosen = np.resize(plan.hidden, (point.config.batch, plan.head.dim))
            states = tuple(state.tobytes() for state in chosen)
        tasks[point] = SimulationTask(plan.head, point, states)
    found = run.measure("simulating", tasks)
    taken = _taken(outcomes, found, lambda outcome: outcome.point, "simulated", "simulation")
    for index in indices:
        taken[index] = _checked(taken[index])
    return taken


def _checked(outcome: Outcome) -> Outcome:
    found = outcome.simulated
    if found is None or not found.mismatches:
        return outcome
    reason = f"{found.mismatches} of {found.compared} places are unlike the golden model's"
    return _failed(outcome, "simulation", Failure(reason))


def _with_placement(run: _Run, outcomes: list[Outcome]) -> list[Outcome]:
    """The front placed and routed. It stays what it is: the clock of other points is not known."""
    plan = run.plan
    front = sorted(
        (outcome for outcome in outcomes if outcome.front), key=lambda each: -each.tokens_per_s
    )
    seeds = tuple(range(1, plan.seeds + 1))
    tasks = {
        outcome.point: PlacementTask(outcome.point.config, plan.target, seeds)
        for outcome in thinned(front, plan.placements)
    }
    found = run.measure("placing and routing", tasks)
    placed = {
        point: design if isinstance(design, Failure) else _placed(plan.head, point, design)
        for point, design in found.items()
    }
    return _taken(outcomes, placed, lambda outcome: outcome.point, "placed", "synthesis")


def _placed(head: SweptHead, point: Point, design: PlacedDesign) -> Placed:
    if design.fmax_mhz is None:
        return Placed(design, None)
    clock_hz = min(point.clock_hz, Fraction(design.fmax_mhz) * 10**6)
    return Placed(design, point.estimate(head.rows, head.dim, clock_hz))
