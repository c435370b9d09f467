"""Compares the DRAM model with DRAMsim3 and Ramulator 2 and writes the table of its page.

python -m tests.bench.memory
"""

import sys
from itertools import groupby
from pathlib import Path

from host.console import stages
from tests.dram_reference import TOLERANCE, Reference, references

PAGE = Path(__file__).parents[2] / "sim" / "memory" / "README.md"
BEGIN, END = "<!-- comparison: begin -->\n", "<!-- comparison: end -->\n"

PATTERNS = {
    "idle_latency_row_hit": "idle latency, row open",
    "idle_latency_row_closed": "idle latency, no row open",
    "idle_latency_row_conflict": "idle latency, other row open",
    "seq_unlimited": "sequential",
    "seq_limited": "sequential, 64 bytes",
    "seq_bursts": "sequential, bursts",
    "streams_diffbank": "streams in different banks",
    "rand4096": "random 4 KiB",
    "seq_with_writes": "sequential, one write to n reads",
}


def row(name: str, lines: list[tuple[Reference, float]]) -> str:
    """One line of the table: a device and pattern, over all of its parameters."""
    latency = lines[0][0].is_latency

    def span(values):
        ends = (min(values), max(values))
        texts = [f"{value:.0f}" if latency else f"{100 * value:.1f}" for value in ends]
        return " to ".join(dict.fromkeys(texts))

    worst = max(outside(reference, value) for reference, value in lines)
    difference = f"{worst:.0f}" if latency else f"{100 * worst:.1f} %"
    cells = [
        name,
        "all" if latency else lines[0][0].mapping,
        str(len(lines)),
        span([reference.dramsim3 for reference, _ in lines]),
        span([reference.ramulator2 for reference, _ in lines]),
        span([value for _, value in lines]),
        difference,
    ]
    return f"| {' | '.join(cells)} |"


def outside(reference: Reference, value: float) -> float:
    """How far the model is outside the range of the simulators: clocks, or relative."""
    low, high = sorted((reference.dramsim3, reference.ramulator2))
    distance = max(low - value, value - high, 0.0)
    return distance if reference.is_latency else distance / (low if value < low else high)


def tables(results: list[tuple[Reference, float]]) -> str:
    """The comparison as Markdown, a table for each device."""
    text = ""
    for device, lines in groupby(results, key=lambda line: line[0].device):
        text += (
            f"\n{device}:\n\n| Pattern | Map | Cases | DRAMsim3 | Ramulator 2 | Model | "
            "Outside their range |\n| --- | --- | --- | --- | --- | --- | --- |\n"
        )
        groups = {}
        for reference, value in lines:
            key = (reference.pattern, "" if reference.is_latency else reference.mapping)
            groups.setdefault(key, []).append((reference, value))
        ordered = sorted(groups.items(), key=lambda item: list(PATTERNS).index(item[0][0]))
        for (pattern, _), group in ordered:
            text += row(PATTERNS[pattern], group) + "\n"
    return text + "\n"


def main() -> None:
    found = references()
    results = []
    with stages() as progress:
        for index, reference in enumerate(found):
            results.append((reference, reference.measure()))
            progress("measuring", index + 1, len(found))
    text = tables(results)
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    PAGE.write_text(before + begin + text + end + after)
    print(text)
    wrong = [reference.name for reference, value in results if not reference.agrees(value)]
    print(
        f"{len(results)} cases, {len(wrong)} more than {TOLERANCE:.0%} outside of both simulators"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
