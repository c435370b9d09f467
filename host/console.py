"""What commands show: tables and text on stdout, progress on stderr."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

StageProgress = Callable[[str, int, int], None]
"""Called with what is being done, the steps done and the steps in all."""

PLAIN_SECONDS = 5.0
"""Without a terminal a stage that lasts is reported this often."""
LONG_SECONDS = 15.0
"""A stage that has lasted so long has its time left told."""
SPEED_SECONDS = 3600
"""Of a stage's latest part, whose speed tells the time left: its steps may take minutes each."""


def print_table(table: Table) -> None:
    """A table on stdout; where that is no terminal, 120 wide and without spaces at line ends."""
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(table)
        return
    console = Console(highlight=False, width=120)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().removesuffix("\n").split("\n"):
        print(line.rstrip())


def print_json(document: object) -> None:
    """A JSON document on stdout."""
    print(json.dumps(document, indent=2, allow_nan=False))


def time_left(seconds: float, done: int, left: int) -> str:
    """What to say of the time left when so many steps took so many seconds; may be nothing."""
    if seconds < LONG_SECONDS or done < 1 or left < 1:
        return ""
    more = seconds / done * left
    return f", {more:.0f} s left" if more < 100 else f", {more / 60:.0f} min left"


class _PlainStages:
    """Progress as lines: each stage once, and again every few seconds while it lasts."""

    def __init__(self):
        self.stage = None
        self.time = 0.0
        self.began = 0.0
        self.first = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage == self.stage and now - self.time < PLAIN_SECONDS:
            return
        if stage == self.stage:
            left = time_left(now - self.began, done - self.first, total - done)
            steps = f" {done}/{total}{left}"
        else:
            self.began, self.first, steps = now, done, ""
        print(f"{stage}{steps}", file=sys.stderr, flush=True)
        self.stage, self.time = stage, now


class _BarStages:
    """Progress as one bar per stage."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self.tasks = {}
        self.current = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self.current:
            if self.current is not None:
                self._end(self.current)
            if stage in self.tasks:
                self.progress.remove_task(self.tasks[stage])
            self.tasks[stage] = self.progress.add_task(stage, total=None)
            self.current = stage
        # A stage of one step has no measure: its bar pulses until the next stage.
        self.progress.update(
            self.tasks[stage], completed=done, total=total if total > 1 or done >= total else None
        )

    def _end(self, stage):
        task = self.tasks[stage]
        total = self.progress.tasks[self.progress.task_ids.index(task)].total or 1
        self.progress.update(task, completed=total, total=total)

    def end(self):
        if self.current is not None:
            self._end(self.current)


@contextmanager
def stages() -> Iterator[StageProgress]:
    """Progress on stderr: bars on a terminal, lines elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _PlainStages()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, speed_estimate_period=SPEED_SECONDS) as progress:
        bars = _BarStages(progress)
        yield bars
        bars.end()
