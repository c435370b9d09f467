"""What a point does in simulation: computed on whatever machine, and kept."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from host.checks.check import check_results
from host.driver import Head
from host.explore.head import SweptHead
from host.explore.point import Point
from host.explore.store import Task
from host.masks import WORD, mask_words
from host.reports.figures import Figures
from hw.layout import ImageLayout
from sim.device import SimDevice

STATES_SEED = 1


@dataclass(frozen=True)
class Simulated:
    """One job, as the hardware counted it; `start` to `tail` add up to `cycles`."""

    cycles: int
    start: float
    data: float
    waiting: float
    refused: float
    tail: float
    bytes_read: int
    bytes_written: int
    max_outstanding_bytes: int
    compared: int
    """Results compared with the golden model's."""
    mismatches: int


@dataclass(frozen=True)
class SimulationTask(Task):
    """A point to simulate, with one job.

    Parameters
    ----------
    head : SweptHead
    point : Point
    states : tuple of bytes
        Hidden states float32 [d], as many as the batch; empty for random ones.
    """

    kind: ClassVar[str] = "simulated"
    result: ClassVar[type] = Simulated

    head: SweptHead
    point: Point
    states: tuple[bytes, ...] = ()

    def _hidden(self) -> np.ndarray:
        batch, dim = self.point.config.batch, self.head.dim
        if not self.states:
            return np.random.default_rng(STATES_SEED).normal(size=(batch, dim)).astype(np.float32)
        return np.stack([np.frombuffer(state, np.float32) for state in self.states])

    def compute(self) -> Simulated:
        """Simulate it.

        Raises
        ------
        UserError, DeviceError, ToolError
            It cannot be simulated.
        """
        config = self.point.config
        image, hidden = self.head.image(config), self._hidden()
        mask = None
        if config.mask:
            mask = np.full((len(hidden), mask_words(image.rows)), -1, WORD)
        # The driver warns of 8-bit states, whose ranking quality is a result of the sweep.
        with (
            warnings.catch_warnings(action="ignore"),
            SimDevice(config, self.point.memory, self.point.clock_hz) as device,
        ):
            results = Head(device, image).run(
                hidden,
                config.k,
                mask=mask,
                all_logits=config.all_logits,
                logsumexp=config.logsumexp,
            )
        check, _ = check_results(results, image, hidden, config.hidden_bits, mask)
        layouts = [ImageLayout(config, image.rows, image.dim)]
        figures = Figures(results, config.bus_bytes, float(self.point.clock_hz), layouts)
        counters = {name: int(values[0]) for name, values in results.counters.items()}
        return Simulated(
            cycles=counters["cycles"],
            **figures.cycles.means(),
            bytes_read=int(figures.bytes_read[0]),
            bytes_written=counters["bytes_written"],
            max_outstanding_bytes=counters["max_outstanding_bytes"],
            compared=_total(check, "compared"),
            mismatches=_total(check, "mismatches"),
        )


def _total(check: dict, name: str) -> int:
    """Of the results themselves and of what else was returned."""
    others: Sequence[dict] = [part for part in check.values() if isinstance(part, dict)]
    return check[name] + sum(part[name] for part in others)
