"""Where the cycles of jobs went, from their counters."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from host.results import Results
from hw.layout import ImageLayout
from hw.stream_control import start_clocks


@dataclass(frozen=True)
class Cycles:
    """The cycles of J jobs on C channels, int64 [J, C] each; they add up to the cycles of the job.

    A clock belongs to what the channel's reader then does with its stream of hidden states and
    image.
    """

    data: np.ndarray
    """A beat goes on to the data path."""
    waiting: np.ndarray
    """There is none: memory has not delivered, or delivers the mask."""
    refused: np.ndarray
    """There is one that the data path does not take: it is the slower side."""
    start: np.ndarray
    """Before the first read address: arguments are checked, the plan is made."""
    tail: np.ndarray
    """After the last beat: the last rows are ranked and results written; other channels, or
    another accelerator's shard, still read; the job before writes its results."""

    @classmethod
    def of(cls, results: Results, layouts: Sequence[ImageLayout]) -> "Cycles":
        """From counters; `layouts` are of the hardware, one for each shard, in their order."""
        vectors = results.vectors
        start = np.array(
            [
                [start_clocks(layout.config, count, channel) for count in vectors.tolist()]
                for layout in layouts
                for channel in range(layout.config.channels)
            ],
            np.int64,
        ).T
        counters = results.channel_counters
        data, waiting, refused = (
            counters[name] for name in ("stream_beats", "wait_cycles", "refused_cycles")
        )
        tail = results.counters["cycles"][:, np.newaxis] - start - data - waiting - refused
        return cls(data, waiting, refused, start, tail)

    def means(self) -> dict[str, float]:
        """Cycles of a job by name, the mean over jobs and channels."""
        return {field.name: float(getattr(self, field.name).mean()) for field in fields(self)}
