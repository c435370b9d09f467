"""Results of a run as tables and JSON."""

import numpy as np
from rich.table import Table

from host.console import print_table
from host.reports.figures import Figures
from host.reports.model_results import ModelResults

SHOWN_STATES = 16
CYCLE_NAMES = {
    "data": "data",
    "waiting": "waiting for memory",
    "refused": "refused",
    "start": "start",
    "tail": "tail",
}
LIMIT_NAMES = {
    "port": "ports",
    "memory": "memory, read in order by anyone",
    "dram": "DRAM pins",
}
WIDEST_LOGIT = 1e9
"""From this magnitude on a logit is shown with an exponent."""


def document(results: ModelResults, figures: Figures) -> dict:
    """Results and figures as JSON has them."""
    transform = results.transform
    perplexity = results.perplexity
    return {
        "states": len(results.ids),
        "k": results.ids.shape[1],
        "logit_scale": transform.scale,
        "softcap": transform.softcap,
        **({} if perplexity is None else {"perplexity": _finite(perplexity)}),
        "figures": figures.as_dict(),
        "counters": {name: values.tolist() for name, values in results.counters.items()},
        "channel_counters": {
            name: values.tolist() for name, values in results.channel_counters.items()
        },
        "results": _state_reports(results),
    }


def _state_reports(results: ModelResults) -> list[dict]:
    """The results of every state; JSON has no -inf, null is in its place."""
    logprobs = results.id_logprobs
    reports = [_state_report(results, n) for n in range(len(results.ids))]
    if logprobs is not None:
        for report, values in zip(reports, logprobs, strict=True):
            report["id_logprobs"] = _finite_list(values)
    return reports


def _state_report(results: ModelResults, state: int) -> dict:
    transform = None if results.transform.is_identity else results.transform
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
        report["all_logits"] = _finite_list(results.all_logits[state])
    if results.given is not None:
        report["id_scores"] = results.given.scores[state].tolist()
        report["id_logits"] = _finite_list(results.given.logits[state])
    if transform is not None:
        for name in ("logits", "all_logits", "id_logits"):
            if name in report:
                values = np.array(report[name], np.float64)  # null becomes NaN, and null again
                report[f"model_{name}"] = _finite_list(transform.apply(values))
    return report


def _finite_list(values: np.ndarray) -> list[float | None]:
    return list(map(_finite, values))


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def print_results(results: ModelResults, figures: Figures) -> None:
    """The best row of the first states, and the figures of all."""
    table = Table(box=None, padding=(0, 3, 0, 0))
    logits, logprobs = results.model_logits, results.id_logprobs
    # One given id of each state is that of a text's next token.
    text = results.given is not None and results.given.ids.shape[1] == 1
    columns = ["state", "best id", "logit" if results.transform.is_identity else "model logit"]
    if results.logsumexp is not None:
        columns.append("log-sum-exp")
    if text:
        columns += ["given id", "logprob" if logprobs is not None else "its logit"]
        own = results.transform.apply(results.given.logits) if logprobs is None else logprobs
    columns += ["cycles", "bus", "waiting", "refused", "bytes read"]
    for name in columns:
        table.add_column(name, justify="right")
    for n in range(min(SHOWN_STATES, len(results.ids))):
        found = results.counts[n] > 0
        cells = [str(n), str(results.ids[n, 0]) if found else "none", _logit(logits[n, 0])]
        if results.logsumexp is not None:
            cells.append(_logit(results.logsumexp[n]))
        if text:
            cells += [str(results.given.ids[n, 0]), _logit(own[n, 0])]
        table.add_row(*cells, *_job_cells(results, figures, n))
    print_table(table)
    if len(results.ids) > SHOWN_STATES:
        print(f"... and {len(results.ids) - SHOWN_STATES} more states")
    if not results.transform.is_identity:
        print(f"model logits: those of the projection {results.transform}")
    if results.perplexity is not None:
        at = "" if results.temperature == 1 else f" at temperature {results.temperature:g}"
        print(f"perplexity of the given ids: {_logit(results.perplexity)}{at}")
    print(figures.line())
    if figures.layouts:
        for name, text in details(figures).items():
            print(f"{name:<9}{text}")


def details(figures: Figures) -> dict[str, str]:
    """Where cycles and bytes of a job went, and how the rate compares with its limits.

    Cycles and bytes are means over jobs, cycles over channels as well.
    """
    cycles, payload = figures.cycles.means(), figures.payload
    total, size = sum(cycles.values()), sum(payload.values())
    shares = figures.as_dict()["shares_of_limits"]
    return {
        "cycles": ", ".join(
            f"{_count(count)} {CYCLE_NAMES[name]}"
            + (f" ({100 * count / total:.2f} %)" if name == "data" else "")
            for name, count in cycles.items()
        ),
        "rate": f"{figures.gigabytes_per_second:.2f} GB/s: "
        + ", ".join(
            f"{100 * shares[name]:.2f} % of {figures.limits[name]:.2f} ({text})"
            for name, text in LIMIT_NAMES.items()
            # Without a DRAM memory gives what the ports carry.
            if name in shares and ("dram" in shares or name == "port")
        ),
        "payload": ", ".join(
            f"{100 * part / size:.2f} % {name.replace('_', ' ')}"
            for name, part in payload.items()
            if part
        ),
    }


def _count(value: float) -> str:
    """A mean of counts."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _job_cells(results: ModelResults, figures: Figures, state: int) -> list[str]:
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
    for name in ("all_logits", "logsumexp", "id_scores"):
        if name in check:
            compared, wrong = check[name]["compared"], check[name]["mismatches"]
            print(f"golden model: {compared:,} of {name} compared, {wrong:,} mismatches")
