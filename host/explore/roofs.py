"""The roofline of a sweep: what memory and multipliers allow, and what the points reach."""

from itertools import groupby

from host.explore.chart import GREY, RINGS, Chart, Series, style
from host.explore.outcome import Outcome
from host.explore.plan import Sweep, thinned
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


def _some(roofs: dict[str, float]) -> dict[str, float]:
    """At most `MOST_ROOFS` of several, the lowest and the highest among them."""
    return dict(thinned(sorted(roofs.items(), key=lambda item: item[1]), MOST_ROOFS))


def roofline(sweep: Sweep) -> Chart:
    """Multiply-adds per second against multiply-adds per byte read."""
    products = sweep.head.rows * sweep.head.dim

    def intensity(outcome):
        return products / outcome.bytes_per_token

    def reached(outcome):
        return products * outcome.tokens_per_s / 1e9

    outcomes = sorted(sweep.outcomes, key=lambda each: each.lanes)
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
    shown = groupby(thinned(outcomes, MOST_POINTS), lambda each: each.lanes)
    for number, (lanes, group) in enumerate(shown):
        how = {**style(number), "size": 6}
        series.append(Series.of(f"{lanes} lanes", list(group), intensity, reached, **how))
    series.append(Series.of("on the front", sweep.front, intensity, reached, **RINGS))
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
