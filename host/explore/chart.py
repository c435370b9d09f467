"""A chart, however it is drawn: as a picture (`figures`) or in the report (`report`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from host.explore.outcome import Outcome

COLOURS = (
    *("#2166ac", "#d6604d", "#1b7837", "#762a83", "#b8860b", "#018571", "#4d4d4d", "#8c510a"),
    *("#c51b7d", "#35978f"),
)
"""Of the curves of a chart; they differ in lightness as well, for print."""
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "x", "star", "cross")
GREY, RED = "#9a9a9a", "#b2182b"


@dataclass(frozen=True)
class Series:
    """A curve, a cloud of points or one layer of stacked bars.

    Parameters
    ----------
    name : str
        In the legend; not there if empty.
    x, y : tuple of float
        Of bars `x` are lengths and `y` the numbers of the bars from the top.
    numbers : tuple of int
        Of the sweep's points, by which they are chosen; empty for what is no point.
    colour : str
    symbol : str
        Of `SYMBOLS`; empty for a line alone.
    line : "", "solid", "dash" or "stairs"
        Stairs go right, then up.
    hollow : bool
        Only the outline of the symbol.
    size : int
        Of the symbol, points.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    numbers: tuple[int, ...] = ()
    colour: str = GREY
    symbol: str = ""
    line: str = ""
    hollow: bool = False
    size: int = 7

    @classmethod
    def of(
        cls,
        name: str,
        outcomes: "Sequence[Outcome]",
        x: "Callable[[Outcome], float]",
        y: "Callable[[Outcome], float]",
        **style,
    ) -> "Series":
        """Points of a sweep, at what `x` and `y` make of them."""
        numbers = tuple(outcome.number for outcome in outcomes)
        return cls(name, tuple(map(x, outcomes)), tuple(map(y, outcomes)), numbers, **style)


@dataclass(frozen=True)
class Chart:
    """Series, and what their axes are.

    Parameters
    ----------
    name : str
        Of its file.
    title : str
    note : str
        What is to be seen, in a sentence or two.
    x_label, y_label : str
        With units.
    series : tuple of Series
    x_base, y_base : 0, 2 or 10
        Of a logarithmic axis, 0 for a linear one.
    bars : tuple of str
        Names of stacked bars, from the top; empty for anything else.
    bar_ends : tuple of str
        What stands behind each bar.
    bar_end_label : str
        And above these.
    fixed : str
        What all points have in common.
    """

    name: str
    title: str
    note: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_base: int = 0
    y_base: int = 0
    bars: tuple[str, ...] = ()
    bar_ends: tuple[str, ...] = ()
    bar_end_label: str = ""
    fixed: str = ""

    def span(self, axis: str) -> tuple[float, float]:
        """The least and the largest value on an axis, "x" or "y"."""
        values = [value for series in self.series for value in getattr(series, axis)]
        return min(values), max(values)


RINGS = {"colour": "#000000", "symbol": "circle", "hollow": True, "size": 12}
"""How points are marked that are drawn already."""


def style(number: int) -> dict[str, str]:
    """Colour and symbol of the curve with a number."""
    return {
        "colour": COLOURS[number % len(COLOURS)],
        "symbol": SYMBOLS[number % len(SYMBOLS)],
    }


LEAST_TICKS = 4
TICKS_IN_DECADE = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))


def log_ticks(low: float, high: float, base: int) -> list[float]:
    """Ticks of a logarithmic axis from `low` to `high`, as few as are enough to read it by."""
    if base == 2:
        return [2.0**power for power in range(-4, 33) if low / 2 < 2.0**power < high * 2]
    decades = range(floor(log10(low)), floor(log10(high)) + 1)
    for steps in TICKS_IN_DECADE:
        ticks = [step * 10.0**decade for decade in decades for step in steps]
        ticks = [tick for tick in ticks if low / 1.05 <= tick <= high * 1.05]
        if len(ticks) >= LEAST_TICKS:
            return ticks
    # Hardly more than an octave: as on a linear axis.
    low, high = low / 1.05, high * 1.05
    least = (high - low) / (LEAST_TICKS + 1)
    unit = 10.0 ** floor(log10(least))
    step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= least)
    return [index * step for index in range(ceil(low / step), floor(high / step) + 1)]


def number(value: float) -> str:
    """A tick's label."""
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
