"""What the driver returns: the best rows of every state, and what was counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from host.errors import UserError
from host.files.output import Output
from hw.counters import CHANNEL_COUNTERS, JOB_COUNTERS

COUNTER_NAMES = tuple(counter.name for counter in JOB_COUNTERS + CHANNEL_COUNTERS)

LARGEST_OF_CHANNELS = ("first_data_latency_cycles", "max_outstanding_bytes")
"""Counters of which a job has the largest of its channels'; others are added up."""

FILLER_ID = -1
"""Id in places for which no row exists or is allowed."""
FILLER_SCORE = np.iinfo(np.int64).min
"""Score in places for which no row exists or is allowed; the logit there is -inf."""


@dataclass(frozen=True)
class Results:
    """What the accelerator found for N hidden states, in J jobs.

    A job serves up to as many states as the hardware has vectors, in order; what is counted, is
    counted per job. With one vector J is N.
    """

    ids: np.ndarray
    """int32 [N, K], best first, -1 where fewer than K rows exist or are allowed."""
    scores: np.ndarray
    """int64 [N, K], the smallest int64 there; without the bound."""
    logits: np.ndarray
    """float64 [N, K], -inf there."""
    hidden_scales: np.ndarray
    """float64 [N]; ``logit == (score * weight_scale) * hidden_scale``."""
    counters: dict[str, np.ndarray]
    """int64 [J] per counter of the hardware (`hw.counters`). Those that each channel has are added
    up, but for `LARGEST_OF_CHANNELS`."""
    channel_counters: dict[str, np.ndarray]
    """int64 [J, C] per counter that each channel has."""
    job_of: np.ndarray
    """int64 [N], ascending: the job that served each state."""
    bounds: np.ndarray | None = None
    """float64 [N, K], of images with a bound: how far the exact logit may be from `logits`; rows
    are ordered by their sum. 0 where no row is."""
    logsumexp: np.ndarray | None = None
    """float64 [N], if asked for: log(sum(exp(logit / temperature))) over all rows allowed, -inf
    without any."""
    all_logits: np.ndarray | None = None
    """float64 [N, V], if asked for; -inf for rows that are not allowed."""

    @property
    def counts(self) -> np.ndarray:
        """Results that exist, int64 [N]."""
        return (self.ids != FILLER_ID).sum(axis=1)

    @property
    def vectors(self) -> np.ndarray:
        """States of each job, int64 [J]."""
        return np.bincount(self.job_of, minlength=len(self.counters["cycles"]))

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by the names they are saved under.

        ids, scores, logits, job_of, every counter, what was asked for of bounds, logsumexp and
        all_logits, and with several channels ``channel_`` with the name of a counter, [J, C].
        """
        arrays = {"ids": self.ids, "scores": self.scores, "logits": self.logits}
        arrays |= {"job_of": self.job_of} | self.counters
        for name in ("bounds", "logsumexp", "all_logits"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        for name, values in self.channel_counters.items():
            if values.shape[1] > 1:
                arrays[f"channel_{name}"] = values
        return arrays

    def save(self, path: Path, more: Mapping[str, np.ndarray] | None = None) -> None:
        """Write `arrays`, and `more` of them, as an .npz, complete or not at all.

        Raises
        ------
        UserError
            No file can be written there: see `host.files.output.check_output`.
        """
        with Output(Path(path)) as output:
            try:
                with open(output.partial, "wb") as file:
                    np.savez(file, **self.arrays(), **(more or {}))
            except OSError as error:
                raise UserError(path, f"cannot be written: {error.strerror}") from None
            output.commit()


def of_channels(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Counters [J, C] that each channel has, as those of jobs, [J]."""
    return {
        name: counts.max(axis=1) if name in LARGEST_OF_CHANNELS else counts.sum(axis=1)
        for name, counts in values.items()
    }


def join(parts: Sequence[Results]) -> Results:
    """Results of the same hardware and k, one behind the other, as if they were of one run."""
    jobs = [len(part.counters["cycles"]) for part in parts]
    starts = np.cumsum([0, *jobs[:-1]])

    def joined(name):
        values = [getattr(part, name) for part in parts]
        return None if any(value is None for value in values) else np.concatenate(values)

    def joined_counters(name):
        values = [getattr(part, name) for part in parts]
        return {key: np.concatenate([value[key] for value in values]) for key in values[0]}

    return Results(
        ids=joined("ids"),
        scores=joined("scores"),
        logits=joined("logits"),
        hidden_scales=joined("hidden_scales"),
        counters=joined_counters("counters"),
        channel_counters=joined_counters("channel_counters"),
        job_of=np.concatenate(
            [part.job_of + start for part, start in zip(parts, starts, strict=True)]
        ),
        bounds=joined("bounds"),
        logsumexp=joined("logsumexp"),
        all_logits=joined("all_logits"),
    )
