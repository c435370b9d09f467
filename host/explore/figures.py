"""The charts of a sweep as pictures for papers, PNG and SVG."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from host.explore.chart import Chart, Series, log_ticks, number
from host.explore.charts import charts
from host.explore.plan import Sweep
from host.reports.timeline_plot import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
NAMES = ("front_lut4", "front_dsp", "cycles", "memory", "padding", "where", "roofline", "quality")
FILES = tuple(f"{name}{suffix}" for name in NAMES for suffix in SUFFIXES)
"""What may be written."""

MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "x": "x",
    "star": "*",
    "cross": "+",
}
LINES = {"": "none", "solid": "-", "dash": "--", "stairs": "--"}
WIDTH, HEIGHT = 7.2, 4.8
"""Inches: text is that of a paper's when the picture fills the width of its page."""
BAR_HEIGHT = 0.44
HEADROOM = 1.07
"""Of an axis that begins at 0, above the highest point."""


def write(folder: Path, sweep: Sweep, progress: Callable[[int, int], None]) -> list[Path]:
    """Write all charts to a folder, each as PNG and as SVG.

    Those of another sweep, of which this one has no such chart, are removed.

    Raises
    ------
    UserError
        A file cannot be written.
    """
    found = charts(sweep)
    paths = []
    for done, chart in enumerate(found):
        progress(done, len(found))
        figure = draw(chart, sweep.head.name)
        for suffix in SUFFIXES:
            paths.append(folder / f"{chart.name}{suffix}")
            save(figure, paths[-1])
    for name in FILES:
        if folder / name not in paths:
            (folder / name).unlink(missing_ok=True)
    progress(len(found), len(found))
    return paths


def draw(chart: Chart, about: str) -> "Figure":
    """Draw a chart; `about` is what was swept, for its title."""
    # It takes a second to import, which only those who want a picture wait for.
    from matplotlib.figure import Figure

    height = 1.7 + BAR_HEIGHT * len(chart.bars) if chart.bars else HEIGHT
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    if chart.bars:
        _draw_bars(axes, chart)
    else:
        for series in chart.series:
            _draw_series(axes, series)
        _scale(axes, "x", chart)
        _scale(axes, "y", chart)
        axes.grid(which="major", color="#e4e4e4")
        axes.set_axisbelow(True)
        if not chart.y_base:
            _, highest = chart.span("y")
            axes.set_ylim(0, HEADROOM * highest)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    # Room for a second line: what is fixed, or what stands above the bars' ends.
    raised = 20 if chart.fixed or chart.bars else None
    axes.set_title(f"{chart.title}: {about}", fontsize="medium", pad=raised)
    if chart.fixed:
        axes.annotate(
            chart.fixed,
            (0.5, 1),
            xytext=(0, 6),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="center",
            fontsize="small",
        )
    columns = 3 if len(chart.series) > 2 else 2
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
    return figure


def _draw_series(axes: "Axes", series: Series) -> None:
    line_only = series.symbol in ("x", "cross")
    axes.plot(
        series.x,
        series.y,
        label=series.name or "_nolegend_",
        color=series.colour,
        marker=MARKERS.get(series.symbol, "none"),
        markersize=series.size * 0.75,
        markerfacecolor="none" if series.hollow else series.colour,
        markeredgewidth=1.2 if series.hollow or line_only else 0,
        linestyle=LINES[series.line],
        linewidth=1.2,
        drawstyle="steps-post" if series.line == "stairs" else "default",
        zorder=3 if series.symbol else 2,
        # Symbols at the edge, such as those at 0, are whole.
        clip_on=not series.symbol,
    )


def _draw_bars(axes: "Axes", chart: Chart) -> None:
    left = [0.0] * len(chart.bars)
    for series in chart.series:
        axes.barh(series.y, series.x, left=left, color=series.colour, label=series.name, height=0.7)
        left = [start + length for start, length in zip(left, series.x, strict=True)]
    axes.set_yticks(range(len(chart.bars)), [wrapped(name) for name in chart.bars])
    axes.tick_params(axis="y", labelsize="small")
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    for place, text in enumerate((chart.bar_end_label, *chart.bar_ends), -1):
        axes.annotate(
            text,
            (100, max(place, -0.5)),
            xytext=(4, 0),
            textcoords="offset points",
            va="bottom" if place < 0 else "center",
            fontsize="small",
            annotation_clip=False,
        )


def wrapped(name: str) -> str:
    """A bar's name in two lines if it is long."""
    words = name.split(", ")
    if len(name) < 30 or len(words) < 2:
        return name
    half = (len(words) + 1) // 2
    return ", ".join(words[:half]) + ",\n" + ", ".join(words[half:])


def _scale(axes: "Axes", which: str, chart: Chart) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    axis, base = getattr(axes, f"{which}axis"), getattr(chart, f"{which}_base")
    if base:
        getattr(axes, f"set_{which}scale")("log", base=base)
        axis.set_major_locator(FixedLocator(log_ticks(*chart.span(which), base)))
        axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
