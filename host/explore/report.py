"""The report of a sweep: one HTML file that needs nothing else and no network."""

import html
import json
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from host.explore.chart import Chart, Series, log_ticks, number
from host.explore.charts import charts
from host.explore.figures import wrapped
from host.explore.outcome import Outcome
from host.explore.plan import Sweep
from host.explore.point import label
from host.explore.table import (
    HEADINGS,
    area_cells,
    heading,
    synthesis_cells,
    synthesis_columns,
)
from host.explore.values import shown
from host.files.output import Output

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TEMPLATE = "report.html"
FOLDER = "hardware"
MOST_FRONT = 60
BAR_PIXELS = 34


def write(path: Path, sweep: Sweep) -> None:
    """Write the report.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    from plotly.io import to_html
    from plotly.offline import get_plotlyjs

    shown_points = _shown_points(sweep)
    sections = []
    for chart in charts(sweep):
        picture = to_html(
            draw(chart, sweep),
            include_plotlyjs=False,
            full_html=False,
            div_id=chart.name,
            config={"responsive": True, "displayModeBar": False},
        )
        sections.append(
            f"<section><h2>{html.escape(chart.title)}</h2><p>{html.escape(_note(chart))}</p>"
            f"{picture}</section>"
        )
    template = Template((files("host.explore") / TEMPLATE).read_text(encoding="utf-8"))
    text = template.substitute(
        title=html.escape(f"Configurations of {sweep.head.name}"),
        summary=html.escape(_summary(sweep)),
        plotly=get_plotlyjs(),
        sections="\n".join(sections),
        front=_front_table(sweep),
        invalid=_invalid(sweep),
        points=_script_json(shown_points),
    )
    with Output(path) as output:
        output.partial.write_text(text, encoding="utf-8")
        output.commit()


def _note(chart: Chart) -> str:
    return f"{chart.note} Others: {chart.fixed}." if chart.fixed else chart.note


def _script_json(value: object) -> str:
    """JSON within a script element, which `</` would end."""
    return json.dumps(value).replace("</", "<\\/")


def _summary(sweep: Sweep) -> str:
    simulated = [outcome for outcome in sweep.outcomes if outcome.simulated]
    text = f"{len(sweep.outcomes):,} points, all estimated; {len(simulated)} simulated"
    if simulated:
        compared = sum(outcome.simulated.compared for outcome in simulated)
        wrong = sum(outcome.simulated.mismatches for outcome in simulated)
        text += f", of whose {compared:,} results {wrong} are unlike the golden model's"
    placed = sum(outcome.placed is not None for outcome in sweep.outcomes)
    if not placed:
        return text + "."
    how = "placed and routed" if sweep.plan.target.is_placed else "synthesised"
    return text + f"; {placed} {how} for {sweep.plan.target}."


def _shown_points(sweep: Sweep) -> dict[int, dict[str, str]]:
    """What the page shows of a point that is chosen."""
    return {
        outcome.number: {
            "about": hover(outcome, sweep).replace("<br>", "; "),
            "command": outcome.point.generate_command(FOLDER),
        }
        for outcome in sweep.outcomes
    }


def hover(outcome: Outcome, sweep: Sweep) -> str:
    """A point in a few lines."""
    settings = {name: outcome.settings[name] for name in sweep.swept}
    lines = [f"<b>point {outcome.number}</b>", *_two_a_line(settings)]
    source = "simulated" if outcome.simulated else "estimated"
    lines.append(
        f"{outcome.tokens_per_s:,.1f} tokens/s, {outcome.cycles_per_token:,.0f} cycles per token "
        f"({source})"
    )
    if outcome.area:
        lines.append("{} LUT4, {} DSP, {} RAM".format(*area_cells(outcome)))
    columns = synthesis_columns(sweep, [outcome])
    if columns:
        cells = zip(synthesis_cells(outcome, columns), columns, strict=True)
        lines.append("synthesised: " + ", ".join(f"{cell} {name}" for cell, name in cells))
    if outcome.quality:
        lines.append(f"best token kept in {outcome.quality.top1:.1%}, KL {outcome.quality.kl:.2g}")
    lines.append(f"bound by {outcome.estimate.bound_by}")
    return "<br>".join(lines)


def _two_a_line(settings: dict[str, object]) -> list[str]:
    words = [label({name: value}, HEADINGS) for name, value in settings.items()]
    return [", ".join(words[start : start + 2]) for start in range(0, len(words), 2)]


def draw(chart: Chart, sweep: Sweep) -> "Figure":
    """A chart that answers to the mouse."""
    from plotly.graph_objects import Figure

    by_number = {outcome.number: outcome for outcome in sweep.outcomes}
    figure = Figure()
    for series in chart.series:
        if not series.x and not series.name:
            continue
        texts = [hover(by_number[point], sweep) for point in series.numbers]
        figure.add_trace(_bar(series, texts) if chart.bars else _scatter(series, texts))
    legend = {
        "orientation": "h",
        "traceorder": "normal",
        "xref": "container",
        "x": 0,
        # Below the title of the axis, however many lines the legend takes.
        "yref": "container",
        "yanchor": "bottom",
        "y": 0,
    }
    figure.update_layout(
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        hovermode="closest",
        legend=legend,
        height=460,
        hoverlabel={"bgcolor": "white", "font": {"size": 12}, "align": "left"},
    )
    figure.update_xaxes(**_axis(chart, "x"))
    figure.update_yaxes(**_axis(chart, "y"))
    if chart.bars:
        _finish_bars(figure, chart)
    elif not chart.y_base:
        figure.update_yaxes(rangemode="tozero")
    return figure


def _axis(chart: Chart, which: str) -> dict[str, object]:
    base = getattr(chart, f"{which}_base")
    axis: dict[str, object] = {
        "title": {"text": getattr(chart, f"{which}_label")},
        "automargin": True,
        "showline": True,
        "linecolor": "#888",
        "ticks": "outside",
        "tickformat": ",",
    }
    if base:
        ticks = log_ticks(*chart.span(which), base)
        axis |= {"type": "log", "tickvals": ticks, "ticktext": [number(tick) for tick in ticks]}
    return axis


def _scatter(series: Series, texts: list[str]):
    from plotly.graph_objects import Scatter

    symbol = f"{series.symbol}-open" if series.hollow else series.symbol
    modes = [name for name, wanted in (("markers", symbol), ("lines", series.line)) if wanted]
    return Scatter(
        x=series.x or (None,),
        y=series.y or (None,),
        name=series.name,
        showlegend=bool(series.name),
        mode="+".join(modes),
        marker={
            "symbol": symbol or "circle",
            "size": series.size,
            "color": series.colour,
            "line": {"width": 1.5 if series.hollow else 0, "color": series.colour},
        },
        line={
            "color": series.colour,
            "width": 1.5,
            "dash": "solid" if series.line in ("", "solid") else "dash",
            "shape": "hv" if series.line == "stairs" else "linear",
        },
        customdata=series.numbers or None,
        text=texts or None,
        hovertemplate="%{text}<extra></extra>" if texts else None,
        hoverinfo=None if texts else ("name" if series.name else "skip"),
        cliponaxis=not symbol,
    )


def _bar(series: Series, texts: list[str]):
    from plotly.graph_objects import Bar

    details = [
        f"{text}<br><b>{series.name}: {share:.2f} %</b>"
        for text, share in zip(texts, series.x, strict=True)
    ]
    return Bar(
        x=series.x,
        y=series.y,
        name=series.name,
        orientation="h",
        marker={"color": series.colour, "line": {"width": 0}},
        customdata=series.numbers,
        text=details,
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
    )


def _finish_bars(figure: "Figure", chart: Chart) -> None:
    rows = list(range(len(chart.bars)))
    names = [wrapped(name).replace("\n", "<br>") for name in chart.bars]
    figure.update_layout(
        barmode="stack", bargap=0.3, height=200 + BAR_PIXELS * len(rows), margin={"r": 75, "t": 40}
    )
    figure.update_yaxes(
        tickvals=rows,
        ticktext=names,
        tickfont={"size": 11},
        autorange="reversed",
        ticks="",
        showgrid=False,
    )
    figure.update_xaxes(range=[0, 100])
    for place, text in enumerate((chart.bar_end_label, *chart.bar_ends), -1):
        figure.add_annotation(
            x=100,
            y=max(place, -0.5),
            text=text.replace("\n", "<br>"),
            xanchor="left",
            yanchor="bottom" if place < 0 else "middle",
            showarrow=False,
            font={"size": 11},
            xshift=4,
        )


def _front_table(sweep: Sweep) -> str:
    swept = sweep.swept
    names = ["point", *map(heading, swept), "tokens/s", "cycles per token", "LUT4", "DSP", "RAM"]
    judged = any(outcome.quality for outcome in sweep.front)
    synthesis = synthesis_columns(sweep, sweep.front)
    names += [*synthesis, *["top 1", "KL, nats"] * judged]
    names.append("bound by")
    lines = ["<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in names) + "</tr>"]
    for outcome in sweep.front[:MOST_FRONT]:
        cells = "".join(
            f"<td>{html.escape(text)}</td>" for text in _cells(outcome, swept, synthesis, judged)
        )
        lines.append(f'<tr data-point="{outcome.number}" tabindex="0">{cells}</tr>')
    left = len(sweep.front) - MOST_FRONT
    more = f"<p>{left} further points of the front are in the CSV file.</p>" if left > 0 else ""
    return f"<table>{''.join(lines)}</table>{more}"


def _cells(
    outcome: Outcome, swept: list[str], synthesis: tuple[str, ...], judged: bool
) -> list[str]:
    quality = outcome.quality
    cells = [str(outcome.number), *(shown(name, outcome.settings[name]) for name in swept)]
    cells += [f"{outcome.tokens_per_s:,.1f}", f"{outcome.cycles_per_token:,.0f}"]
    cells += [*area_cells(outcome), *synthesis_cells(outcome, synthesis)]
    if judged:
        cells += [f"{quality.top1:.1%}", f"{quality.kl:.2g}"] if quality else ["", ""]
    return [*cells, outcome.estimate.bound_by]


def _invalid(sweep: Sweep) -> str:
    if not sweep.invalid:
        return "<p>All combinations of the values are points.</p>"
    lines = "".join(
        f"<li>{count:,} × {html.escape(reason)}</li>" for reason, count in sweep.invalid.items()
    )
    total = sum(sweep.invalid.values())
    return f"<p>Combinations that make no hardware: {total:,}</p><ul>{lines}</ul>"
