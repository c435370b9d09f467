"""The charts of a sweep."""

from collections.abc import Callable
from itertools import groupby

from host.explore.chart import GREY, RED, RINGS, Chart, Series, style
from host.explore.outcome import PARTS, Outcome
from host.explore.plan import Sweep, thinned
from host.explore.point import label
from host.explore.roofs import roofline
from host.explore.slices import Slice, best_slice
from host.explore.table import HEADINGS

MOST_CLOUD, MOST_BARS = 2000, 12
FLAT = 0.01
"""Cycles within this share of the least count as flat."""

PADDING = {"header_padding": "headers, to whole beats", "row_padding": "rows of the last tile"}

PART_NAMES = {
    "data": ("data", "#2166ac"),
    "refused": ("refused", "#b2182b"),
    "waiting": ("waiting for memory", "#f4a582"),
    "start": ("start", "#c2a5cf"),
    "tail": ("tail", "#5aae61"),
}


def charts(sweep: Sweep) -> list[Chart]:
    """All charts that a sweep has anything to show in."""
    found = [_against(sweep, "lut4", "LUT4"), _against(sweep, "dsp", "DSP")]
    tiles = best_slice(sweep)
    if tiles is not None:
        found += [_cycles(tiles), _on_chip(tiles), _padding(tiles)]
    found += [_where(sweep), roofline(sweep), _quality(sweep)]
    return [chart for chart in found if chart is not None]


def _speed(outcome: Outcome) -> float:
    return outcome.tokens_per_s


def _against(sweep: Sweep, name: str, unit: str) -> Chart | None:
    """Tokens per second against a resource."""
    outcomes = [outcome for outcome in sweep.outcomes if outcome.area is not None]
    if not outcomes:
        return None

    def cost(outcome):
        return getattr(outcome, name)

    by_lanes = sorted(thinned(outcomes, MOST_CLOUD), key=lambda each: each.lanes)
    series = [
        Series.of(f"{lanes} lanes", list(group), cost, _speed, **style(number), size=6)
        for number, (lanes, group) in enumerate(groupby(by_lanes, lambda each: each.lanes))
    ]
    best, stairs = 0.0, []
    for outcome in sorted(outcomes, key=lambda each: (cost(each), -_speed(each))):
        if _speed(outcome) > best:
            best = _speed(outcome)
            stairs.append(outcome)
    series.append(
        Series.of(f"most for its {unit}", stairs, cost, _speed, colour=GREY, line="stairs")
    )
    series.append(Series.of("on the front", sweep.front, cost, _speed, **RINGS))
    placed = [outcome for outcome in sweep.outcomes if outcome.placed and outcome.placed.achieved]
    if placed:
        stars = {"colour": RED, "symbol": "star", "size": 11}
        series.append(
            Series.of(
                "placed, at the clock achieved",
                placed,
                cost,
                lambda each: each.placed.tokens_per_s,
                **stars,
            )
        )
    source = " LUTs are estimated" if name == "lut4" else ""
    if source:
        source += ", those of placed points counted." if placed else "."
    top = max(sweep.front, key=_speed)
    return Chart(
        name=f"front_{name}",
        title=f"Speed against {unit}",
        note=f"Every point of the sweep. The fastest gives {_speed(top):,.0f} tokens/s with "
        f"{cost(top):,} {unit}. Rings are points on the front of tokens/s, LUT4 and DSP together."
        f"{source}",
        x_label=f"{unit} of an ECP5",
        y_label="tokens/s",
        series=tuple(series),
        x_base=10,
        y_base=10,
    )


def _tile(outcome: Outcome) -> float:
    return outcome.point.config.tile_rows


def _curves(tiles: Slice, y: Callable, line: str = "solid") -> list[Series]:
    return [
        Series.of(f"{lanes} lanes", outcomes, _tile, y, **style(number), line=line)
        for number, (lanes, outcomes) in enumerate(tiles.by_lanes.items())
    ]


def _cycles(tiles: Slice) -> Chart:
    series = _curves(tiles, lambda each: each.cycles_per_token)
    simulated = [each for each in tiles.outcomes if each.simulated]
    if simulated:
        series.append(
            Series.of("simulated", simulated, _tile, lambda each: each.cycles_per_token, **RINGS)
        )
    return Chart(
        name="cycles",
        title="Cycles against tile size",
        note=_flatness(tiles),
        fixed=tiles.fixed,
        x_label="rows per tile",
        y_label="cycles per token",
        series=tuple(series),
        x_base=2,
        y_base=10,
    )


def _flatness(tiles: Slice) -> str:
    """From which tile size on cycles hardly change, and why."""
    starts = []
    for outcomes in tiles.by_lanes.values():
        if len(outcomes) < 2:
            continue
        least = min(each.cycles_per_token for each in outcomes)
        start = outcomes[-1]
        for outcome in reversed(outcomes):
            if outcome.cycles_per_token > (1 + FLAT) * least:
                break
            start = outcome
        starts.append(_tile(start))
    sizes = [_tile(each) for each in tiles.outcomes]
    if not starts or max(starts) == max(sizes):
        return "The tile size decides the cycles."
    return (
        f"Flat within {FLAT:.0%} from {max(starts)} rows a tile: a tile's header is read while "
        "another one computes, and takes the same share of the image whatever the size. What "
        "changes is its padding and the memory on chip."
    )


def _on_chip(tiles: Slice) -> Chart | None:
    if any(each.area is None for each in tiles.outcomes):
        return None
    return Chart(
        name="memory",
        title="Memory on chip against tile size",
        note="Scales of the next tile are loaded while the current one computes, so the buffer of "
        f"scales grows with the tile; {_rams(tiles)}.",
        fixed=tiles.fixed,
        x_label="rows per tile",
        y_label="memory on chip, Kbit",
        series=tuple(_curves(tiles, lambda each: each.area.memory_bits / 1024)),
        x_base=2,
    )


def _rams(tiles: Slice) -> str:
    counts = {each.area.ram for each in tiles.outcomes}
    least, most = min(counts), max(counts)
    many = f"{least}" if least == most else f"{least} to {most}"
    return f"all memories take {many} block RAMs of 18 Kbit"


def _padding(tiles: Slice) -> Chart | None:
    def share(kind):
        return lambda each: 100 * getattr(each.image, kind) / each.image.total

    # Lanes do not change the image.
    outcomes = next(iter(tiles.by_lanes.values()))
    series = [
        Series.of(name, outcomes, _tile, share(kind), **style(number), line="solid")
        for number, (kind, name) in enumerate(PADDING.items())
    ]
    if not any(value for one in series for value in one.y):
        return None
    return Chart(
        name="padding",
        title="Padding of the image against tile size",
        note="A header fills whole beats: in small tiles it leaves more of them empty.",
        fixed=tiles.fixed,
        x_label="rows per tile",
        y_label="padding, % of the image",
        series=tuple(series),
        x_base=2,
    )


def _where(sweep: Sweep) -> Chart | None:
    if not sweep.front:
        return None
    outcomes = thinned(sweep.front, MOST_BARS)
    series = [
        Series(
            PART_NAMES[part][0],
            tuple(100 * each.parts[part] / each.cycles for each in outcomes),
            tuple(range(len(outcomes))),
            tuple(each.number for each in outcomes),
            colour=PART_NAMES[part][1],
        )
        for part in sorted(PARTS, key=list(PART_NAMES).index)
    ]
    swept = set(sweep.swept)
    names = [
        label({k: v for k, v in each.settings.items() if k in swept}, HEADINGS) or "the only point"
        for each in outcomes
    ]
    left = len(sweep.front) - len(outcomes)
    some = f" {len(outcomes)} of {len(sweep.front)} points of the front." if left else ""
    return Chart(
        name="where",
        title="Where the cycles go",
        note="Points of the front, the fastest first. Refused: the data path is the slower side. "
        f"Tail: results are ranked and written.{some}",
        x_label="share of cycles, %",
        y_label="",
        series=tuple(series),
        bars=tuple(names),
        bar_end_label="cycles\nper token",
        bar_ends=tuple(f"{each.cycles_per_token:,.0f}" for each in outcomes),
    )


def _quality(sweep: Sweep) -> Chart | None:
    judged = [outcome for outcome in sweep.outcomes if outcome.quality]
    if not judged:
        return None

    def kl(outcome):
        return max(outcome.quality.kl, 1e-12)

    best = {}
    for outcome in sorted(judged, key=_speed):
        best[_format(outcome)] = outcome
    series = [
        Series.of(name, [outcome], kl, _speed, **style(number), size=11)
        for number, (name, outcome) in enumerate(sorted(best.items()))
    ]
    shares = "; ".join(
        f"{name}: {each.quality.top1:.1%} keep their best token, {each.quality.top8:.1%} the order "
        "of the 8 best"
        for name, each in sorted(best.items())
    )
    return Chart(
        name="quality",
        title="Speed against ranking quality",
        note=f"The fastest point of each format, on {judged[0].quality.states} states. {shares}.",
        x_label="KL divergence from the exact head, nats",
        y_label="tokens/s",
        series=tuple(series),
        x_base=10,
    )


def _format(outcome: Outcome) -> str:
    config = outcome.point.config
    group = f"groups of {config.group}" if config.group else "whole rows"
    return f"int{config.weight_bits} in {group}, {config.hidden_bits}-bit states"
