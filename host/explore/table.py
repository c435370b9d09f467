"""A sweep in the terminal and as JSON."""

from collections.abc import Sequence

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
CLOCK_COLUMNS = ("MHz achieved", "tokens/s at it")
AMD_COLUMNS = ("LUT6", "DSP48", "RAMB36")
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
    synthesis = synthesis_columns(sweep, outcomes)
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
    for name in ("RAM", *synthesis, *(("top 1", "KL") * judged)):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    for outcome in outcomes:
        table.add_row(*_cells(outcome, sweep, synthesis, judged))
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
        print(f"combinations that repeat a point: {sweep.repeated:,}")
    if not sweep.invalid:
        return
    print(f"combinations that make no hardware: {sum(sweep.invalid.values()):,}")
    for reason, count in list(sweep.invalid.items())[:MOST_REASONS]:
        print(f"  {count:,} x {reason}")
    left = len(sweep.invalid) - MOST_REASONS
    if left > 0:
        print(f"  and {left} further reasons (--json has all)")


def _cells(outcome: Outcome, sweep: Sweep, synthesis: Sequence[str], judged: bool) -> list[str]:
    quality, simulated = outcome.quality, outcome.simulated
    cells = ["*" if outcome.front else "", str(outcome.number)]
    cells += [shown(name, outcome.settings[name]) for name in sweep.swept]
    cells.append(f"{outcome.tokens_per_s:,.1f}")
    error = outcome.estimate.cycles / simulated.cycles - 1 if simulated else 0
    cells.append(f"{error:+.2%}" if simulated else "only")
    cells += area_cells(outcome)
    cells += synthesis_cells(outcome, synthesis)
    if judged:
        cells += [f"{quality.top1:.1%}", f"{quality.kl:.2g}"] if quality else ["", ""]
    return [*cells, outcome.estimate.bound_by]


def area_cells(outcome: Outcome) -> list[str]:
    """LUT4, with `~` where they are estimated, DSP and RAM of an ECP5; empty where not known."""
    if outcome.area is None:
        return [""] * 3
    about = "" if outcome.ecp5_design else "~"
    return [f"{about}{outcome.lut4:,}", f"{outcome.dsp:,}", f"{outcome.area.ram:,}"]


def synthesis_columns(sweep: Sweep, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Names of the columns of `synthesis_cells`; none where none of the points was synthesised."""
    if not any(outcome.placed for outcome in outcomes):
        return ()
    return CLOCK_COLUMNS if sweep.plan.target.is_placed else AMD_COLUMNS


def synthesis_cells(outcome: Outcome, columns: Sequence[str]) -> list[str]:
    """The clock of a point, MHz, and tokens per second at it, or without place and route what the
    synthesised design takes; empty where it was not synthesised.
    """
    placed = outcome.placed
    if placed is None:
        return [""] * len(columns)
    if placed.achieved is None:
        design = placed.design
        return [f"{design.lut:,}", f"{design.dsp:,}", f"{design.ram:,.4g}"]
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
