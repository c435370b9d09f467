"""The roofline of a sweep: what memory and multipliers allow, and what the points reach."""

from itertools import groupby

from host.explore.chart import GREY, Chart, Series, style
from host.explore.outcome import Outcome
from host.explore.plan import Sweep
from sim.memory.bandwidth import sustained_bytes_per_cycle

MOST_ROOFS = 6
MOST_POINTS = 2000


def _rate(outcome: Outcome) -> float:
    """Bytes per second that memory or ports, whichever is less, give a sequential reader."""
    point = outcome.point
    ports = point.config.channels
    per_clock = sustained_bytes_per_cycle(
        point.memory, point.config.bus_bits, point.clock_hz, ports
    )
    return float(per_clock) * ports * float(point.clock_hz)


def _multipliers(outcome: Outcome) -> float:
    """Multiply-adds per second of all lanes, 10^9."""
    config = outcome.point.config
    lanes = config.lanes * config.batch * config.channels
    return lanes * float(outcome.point.clock_hz) / 1e9


def _some(values: dict[str, float]) -> dict[str, float]:
    """At most `MOST_ROOFS` of several roofs, the lowest and the highest among them."""
    ordered = sorted(values.items(), key=lambda item: item[1])
    if len(ordered) <= MOST_ROOFS:
        return dict(ordered)
    last = len(ordered) - 1
    return dict(ordered[round(i * last / (MOST_ROOFS - 1))] for i in range(MOST_ROOFS))


def roofline(sweep: Sweep) -> Chart:
    """Multiply-adds per second against multiply-adds per byte read."""
    products = sweep.head.rows * sweep.head.dim

    def intensity(outcome):
        return products / outcome.bytes_per_token

    def reached(outcome):
        return products * outcome.tokens_per_s / 1e9

    outcomes = sorted(sweep.outcomes, key=lambda each: each.lanes)
    step = -(-len(outcomes) // MOST_POINTS)
    shown = outcomes[::step]
    left = min(map(intensity, outcomes)) / 1.3
    right = max(map(intensity, outcomes)) * 1.3
    memories = {}
    for outcome in outcomes:
        rate = _rate(outcome)
        memories[f"{outcome.point.memory_name}: {rate / 1e9:.3g} GB/s"] = rate / 1e9
    series = []
    for name, rate in _some(memories).items():
        series.append(
            Series(name, (left, right), (rate * left, rate * right), colour=GREY, line="solid")
        )
    roofs = {}
    for outcome in outcomes:
        roof = _multipliers(outcome)
        roofs[f"{roof:,.4g} G multiply-adds/s"] = roof
    for roof in _some(roofs).values():
        series.append(Series("", (left, right), (roof, roof), colour=GREY, line="dash"))
    series.append(Series("all multipliers busy", (), (), colour=GREY, line="dash"))
    for number, (lanes, group) in enumerate(groupby(shown, lambda each: each.lanes)):
        group = list(group)
        series.append(
            Series(
                f"{lanes} lanes",
                tuple(map(intensity, group)),
                tuple(map(reached, group)),
                tuple(outcome.number for outcome in group),
                **style(number),
                size=6,
            )
        )
    rings = {"colour": "#000000", "symbol": "circle", "hollow": True, "size": 12}
    front = sweep.front
    series.append(
        Series(
            "on the front",
            tuple(map(intensity, front)),
            tuple(map(reached, front)),
            tuple(outcome.number for outcome in front),
            **rings,
        )
    )
    return Chart(
        name="roofline",
        title="Roofline",
        note="Slanted lines are what memory or ports carry, level ones what the multipliers of a "
        "configuration can do. More states a job and narrower weights move a point to the right, "
        "more lanes lift its level line; a point below both loses to starts, results or the top-k.",
        x_label="multiply-adds per byte read",
        y_label="10⁹ multiply-adds/s",
        series=tuple(series),
        x_base=10,
        y_base=10,
    )
