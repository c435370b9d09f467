"""A sweep in the terminal and as JSON."""

from rich.table import Table

from host.console import print_table
from host.explore.columns import row
from host.explore.outcome import Outcome
from host.explore.plan import Sweep
from host.explore.values import shown

HEADINGS = {
    "bus_bits": "bus",
    "weight_bits": "weights",
    "scale_bits": "scales",
    "hidden_bits": "states",
    "tile_rows": "tile rows",
    "insert_interval": "interval",
    "clock_mhz": "MHz",
    "max_burst": "burst",
    "outstanding_bytes": "buffer",
    "all_logits": "logits",
    "job_queue": "queue",
}
"""Of columns whose names are long."""
MOST_REASONS = 8


def heading(name: str) -> str:
    """A swept parameter as the head of a column."""
    return HEADINGS.get(name, name.replace("_", " "))


def chosen(sweep: Sweep, rows: int) -> list[Outcome]:
    """The front, and behind it the fastest others: so many in all."""
    others = [outcome for outcome in sweep.outcomes if not outcome.front]
    others.sort(key=lambda outcome: (-outcome.tokens_per_s, outcome.lut4 or 0))
    return [*sweep.front, *others][:rows]


def print_sweep(sweep: Sweep, rows: int) -> None:
    """The head, the best points, and how many were left out for what reason."""
    outcomes = chosen(sweep, rows)
    placed = any(outcome.placed for outcome in outcomes)
    judged = any(outcome.quality for outcome in outcomes)
    simulated = sum(outcome.simulated is not None for outcome in sweep.outcomes)
    print(
        f"{sweep.head.name}: {len(sweep.outcomes):,} points, {len(sweep.front)} of them on the "
        f"front, {simulated} simulated"
        + (f"; {sweep.reused} results from before" if sweep.reused else "")
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("", "point", *map(heading, sweep.swept), "tokens/s", "estimate", "LUT4", "DSP"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for name in ("RAM", *(("clock", "at it") if placed else ()), *(("top 1", "KL") * judged)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    for outcome in outcomes:
        table.add_row(*_cells(outcome, sweep, placed, judged))
    print_table(table)
    left = len(sweep.outcomes) - len(outcomes)
    if left:
        print(f"{left:,} further points: --rows N shows more, --out DIR writes all")
    print(
        "* on the front: none is better in tokens/s, LUT4"
        + (", DSP or top 1" if judged else " or DSP")
        + " and as good otherwise"
    )
    print_invalid(sweep)


def print_invalid(sweep: Sweep) -> None:
    """How many combinations make no point, and why."""
    if sweep.repeated:
        print(f"{sweep.repeated:,} combinations make a point that is there")
    if not sweep.invalid:
        return
    print(f"{sum(sweep.invalid.values()):,} combinations make no hardware:")
    for reason, count in list(sweep.invalid.items())[:MOST_REASONS]:
        print(f"  {count:,} x {reason}")
    left = len(sweep.invalid) - MOST_REASONS
    if left > 0:
        print(f"  and {left} further reasons (--json has all)")


def _cells(outcome: Outcome, sweep: Sweep, placed: bool, judged: bool) -> list[str]:
    area, quality, simulated = outcome.area, outcome.quality, outcome.simulated
    cells = ["*" if outcome.front else "", str(outcome.number)]
    cells += [shown(name, outcome.settings[name]) for name in sweep.swept]
    cells.append(f"{outcome.tokens_per_s:,.1f}")
    error = outcome.estimate.cycles / simulated.cycles - 1 if simulated else 0
    cells.append(f"{error:+.2%}" if simulated else "only")
    lut4 = f"{'' if outcome.placed else '~'}{outcome.lut4:,}" if area else ""
    cells += [lut4, f"{outcome.dsp:,}" if area else "", f"{area.ram:,}" if area else ""]
    if placed:
        cells += placed_cells(outcome)
    if judged:
        cells += [f"{quality.top1:.1%}", f"{quality.kl:.2g}"] if quality else ["", ""]
    return [*cells, outcome.estimate.bound_by]


def placed_cells(outcome: Outcome) -> list[str]:
    """The clock of a point, MHz, and tokens per second at it; empty where it was not placed."""
    placed = outcome.placed
    if placed is None or placed.achieved is None:
        return ["", ""]
    return [f"{placed.fmax_mhz:.1f}", f"{placed.tokens_per_s:,.1f}"]


def document(sweep: Sweep) -> dict[str, object]:
    """A sweep as JSON has it."""
    return {
        "head": {"name": sweep.head.name, "rows": sweep.head.rows, "dim": sweep.head.dim},
        "points": [row(outcome) for outcome in sweep.outcomes],
        "front": [outcome.number for outcome in sweep.front],
        "invalid": dict(sweep.invalid),
        "repeated": sweep.repeated,
        "reused": sweep.reused,
    }
