"""Puts what the jobs of a run have left together to the results of its states."""

from typing import TYPE_CHECKING

import numpy as np

from host.errors import UserError
from host.jobs.logsumexp import logsumexp
from host.jobs.parameters import Vectors
from host.jobs.runner import Outcome
from host.masks import allowed_rows
from host.results import FILLER_ID, FILLER_SCORE, Results, of_channels
from hw.counters import CHANNEL_COUNTERS, JOB_COUNTERS

if TYPE_CHECKING:
    from host.image import Image


def logits_of(scores: np.ndarray, weight_scale: float, hidden_scales: np.ndarray) -> np.ndarray:
    """Logits of scores int64 [N, ...], float64: rounded in this order and no other."""
    return scores * weight_scale * hidden_scales.reshape(-1, *[1] * (scores.ndim - 1))


def read_bounds(image: "Image") -> np.ndarray:
    """The stored bounds of all rows of an image with a bound, int16 [V]."""
    parts = [image.read_terms(start, stop)[:, -1] for start, stop in image.chunks()]
    return np.concatenate(parts)


class Gatherer:
    """Results of a run in the making.

    Parameters
    ----------
    image : Image
    vectors : Vectors
        All states of the run.
    k : int
    mask : int32 [N, words] or None
        Checked.
    all_logits, logsumexp : bool
        What was asked for.
    """

    def __init__(
        self,
        image: "Image",
        vectors: Vectors,
        k: int,
        mask: np.ndarray | None,
        all_logits: bool,
        logsumexp: bool,
    ):
        self.image = image
        self.channels = image.layout.config.channels
        self.vectors = vectors
        self.mask = mask
        total = len(vectors)
        self.ids = np.full((total, k), FILLER_ID, np.int32)
        self.scores = np.full((total, k), FILLER_SCORE, np.int64)
        self.job_of = np.zeros(total, np.int64)
        self.exponents = np.zeros(total, np.int32)
        self.sums = np.zeros(total, np.uint64)
        self.logsumexp = logsumexp
        self.all_logits = np.empty((total, image.rows)) if all_logits else None
        self.outcomes: list[Outcome] = []

    def __len__(self) -> int:
        """States of the run."""
        return len(self.vectors)

    def add(self, outcome: Outcome) -> None:
        """Take over what the next job has left."""
        states = outcome.job.states
        for state, vector in zip(states, outcome.block.vectors, strict=True):
            count = len(vector.ids)
            self.ids[state, :count] = vector.ids
            self.scores[state, :count] = vector.scores
            self.exponents[state] = vector.exponent
            self.sums[state] = vector.sum
        part = slice(states.start, states.stop)
        self.job_of[part] = len(self.outcomes)
        if outcome.all_scores is not None:
            scales = self.vectors.scales[part]
            logits = logits_of(outcome.all_scores, self.image.weight_scale, scales)
            if self.mask is not None:
                logits[~allowed_rows(self.mask[part], self.image.rows)] = -np.inf
            self.all_logits[part] = logits
        # The scores are not needed again, and many.
        self.outcomes.append(outcome.without_scores())

    def results(self) -> Results:
        """The results of all states; every job was added.

        Raises
        ------
        UserError
            A log-sum-exp is out of the accelerator's range.
        """
        channel_counters = self._counters("channel_counters", CHANNEL_COUNTERS, self.channels)
        counters = self._counters("counters", JOB_COUNTERS) | of_channels(channel_counters)
        logits = logits_of(self.scores, self.image.weight_scale, self.vectors.scales)
        logits[self.ids == FILLER_ID] = -np.inf
        return Results(
            ids=self.ids,
            scores=self.scores,
            logits=logits,
            hidden_scales=self.vectors.scales,
            counters=counters,
            channel_counters=channel_counters,
            job_of=self.job_of,
            bounds=self._bounds() if self.image.config_fields["bound"] else None,
            logsumexp=self._logsumexp() if self.logsumexp else None,
            all_logits=self.all_logits,
        )

    def _counters(self, kind: str, counters, *shape: int) -> dict[str, np.ndarray]:
        """Counters of all jobs, int64 [J, *shape] by name."""
        values = [getattr(outcome, kind) for outcome in self.outcomes]
        return {
            name: np.array([value[name] for value in values], np.int64).reshape(-1, *shape)
            for name, _ in counters
        }

    def _bounds(self) -> np.ndarray:
        present = self.ids != FILLER_ID
        terms = np.where(present, read_bounds(self.image)[self.ids], 0).astype(np.int64)
        products = terms * self.vectors.parameters["bound"].astype(np.int64)[:, np.newaxis]
        return logits_of(products, self.image.weight_scale, self.vectors.scales)

    def _logsumexp(self) -> np.ndarray:
        try:
            return logsumexp(self.exponents, self.sums)
        except ValueError as error:
            raise UserError("logsumexp", str(error)) from None
