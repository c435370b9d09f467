"""Tasks for the tests of `host.explore.workers`, which worker processes import."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from host.errors import UserError
from host.explore.store import Task


@dataclass(frozen=True)
class Answer:
    """What `Square` computes."""

    value: int


@dataclass(frozen=True)
class Square(Task):
    """Squares a number; each time that it does, it leaves a file."""

    kind: ClassVar[str] = "square"
    result: ClassVar[type] = Answer

    number: int
    log: Path

    def compute(self) -> Answer:
        (self.log / f"{self.number}-{os.getpid()}-{time.time_ns()}").touch()
        if self.number < 0:
            raise UserError("number", "must be at least 0", found=self.number)
        return Answer(self.number**2)


@dataclass(frozen=True)
class WaitingSquare(Square):
    """Says by a file `pid` who begins with it, and waits for a file `go`."""

    kind: ClassVar[str] = "waiting-square"

    def compute(self) -> Answer:
        (self.log / "pid").write_text(str(os.getpid()))
        while not (self.log / "go").exists():
            time.sleep(0.01)
        return super().compute()
