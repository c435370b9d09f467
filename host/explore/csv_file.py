"""A sweep as a CSV file, one row a point."""

import csv
from pathlib import Path

from host.explore.columns import row
from host.explore.plan import Sweep
from host.files.output import Output


def write(path: Path, sweep: Sweep) -> None:
    """Write all points in their order.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    rows = [row(outcome) for outcome in sweep.outcomes]
    with Output(path) as output:
        with open(output.partial, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            for values in rows:
                writer.writerow({name: _text(value) for name, value in values.items()})
        output.commit()


def _text(value: object) -> object:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else value
