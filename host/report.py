"""Results of a run as tables and JSON."""

import numpy as np
from rich.table import Table

from host.console import print_table
from host.figures import Figures
from host.results import Results

SHOWN_STATES = 16
WIDEST_LOGIT = 1e9
"""From this magnitude on a logit is shown with an exponent."""


def document(results: Results, figures: Figures) -> dict:
    """Results and figures as JSON has them."""
    return {
        "states": len(results.ids),
        "k": results.ids.shape[1],
        "figures": figures.as_dict(),
        "counters": {name: values.tolist() for name, values in results.counters.items()},
        "channel_counters": {
            name: values.tolist() for name, values in results.channel_counters.items()
        },
        "results": [_state_report(results, n) for n in range(len(results.ids))],
    }


def _state_report(results: Results, state: int) -> dict:
    """The results of a state; JSON has no -inf, null is in its place."""
    count = results.counts[state]
    report = {
        "job": int(results.job_of[state]),
        "ids": results.ids[state, :count].tolist(),
        "scores": results.scores[state, :count].tolist(),
        "logits": results.logits[state, :count].tolist(),
    }
    if results.bounds is not None:
        report["bounds"] = results.bounds[state, :count].tolist()
    if results.logsumexp is not None:
        report["logsumexp"] = _finite(results.logsumexp[state])
    if results.all_logits is not None:
        report["all_logits"] = list(map(_finite, results.all_logits[state]))
    return report


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def print_results(results: Results, figures: Figures) -> None:
    """The best row of the first states, and the figures of all."""
    table = Table(box=None, padding=(0, 3, 0, 0))
    columns = ["state", "best id", "logit"]
    if results.logsumexp is not None:
        columns.append("log-sum-exp")
    columns += ["cycles", "bus", "waiting", "refused", "bytes read"]
    for name in columns:
        table.add_column(name, justify="right")
    for n in range(min(SHOWN_STATES, len(results.ids))):
        found = results.counts[n] > 0
        cells = [str(n), str(results.ids[n, 0]) if found else "none", _logit(results.logits[n, 0])]
        if results.logsumexp is not None:
            cells.append(_logit(results.logsumexp[n]))
        table.add_row(*cells, *_job_cells(results, figures, n))
    print_table(table)
    if len(results.ids) > SHOWN_STATES:
        print(f"... and {len(results.ids) - SHOWN_STATES} more states")
    print(figures.line())


def _job_cells(results: Results, figures: Figures, state: int) -> list[str]:
    """What was counted of a state's job, in the line of its first state."""
    job = results.job_of[state]
    if state and job == results.job_of[state - 1]:
        return []
    counters = results.counters
    return [
        f"{counters['cycles'][job]:,}",
        f"{100 * figures.utilisation[job]:.2f} %",
        f"{counters['wait_cycles'][job]:,}",
        f"{counters['refused_cycles'][job]:,}",
        f"{figures.bytes_read[job]:,}",
    ]


def _logit(value: float) -> str:
    return f"{value:.4f}" if abs(value) < WIDEST_LOGIT else f"{value:.6g}"


def print_check(check: dict) -> None:
    """What was compared with the golden model."""
    print(
        f"golden model: {check['compared']:,} places compared, {check['mismatches']:,} mismatches"
    )
    for name in ("all_logits", "logsumexp"):
        if name in check:
            compared, wrong = check[name]["compared"], check[name]["mismatches"]
            print(f"golden model: {compared:,} of {name} compared, {wrong:,} mismatches")
