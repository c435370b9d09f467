"""How well a weight format ranks: its logits against those of the exact head, on given states."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from host.checks.verify_sums import golden_scores
from host.explore.head import SweptHead
from host.explore.store import Task
from host.image import Image
from host.image.tiles import row_chunks
from host.jobs.gathering import logits_of
from host.jobs.parameters import prepare_vectors
from host.sampling import LogitTransform
from host.sources.open import open_source
from hw.config import HeadConfig
from hw.layout import ImageLayout

FIELDS = ("weight_bits", "scale_bits", "scale_signed", "group", "bias", "hidden_bits")
"""Parameters that decide the logits."""
PLACES = 8
HELD_LOGITS = 1 << 25
"""Held at a time, of each kind: 256 MiB."""


@dataclass(frozen=True)
class Quality:
    """Of one format, over all states."""

    states: int
    top1: float
    """Share of states whose best token is the exact one."""
    top8: float
    """Share of states whose 8 best are the exact ones in their order."""
    kl: float
    """Mean Kullback-Leibler divergence of the softmax over the vocabulary from the exact one, in
    nats."""


def quality_format(config: HeadConfig) -> HeadConfig:
    """A configuration with the same logits, equal for all that have the same."""
    values = {name: getattr(config, name) for name in FIELDS}
    return HeadConfig(**values, max_dim=config.max_dim, max_rows=config.max_rows)


@dataclass(frozen=True)
class QualityTask(Task):
    """A format to judge.

    Parameters
    ----------
    head : SweptHead
        With a file.
    config : HeadConfig
        From `quality_format`.
    states : tuple of bytes
        Hidden states float32 [d].
    """

    kind: ClassVar[str] = "quality"
    result: ClassVar[type] = Quality

    head: SweptHead
    config: HeadConfig
    states: tuple[bytes, ...]

    def compute(self) -> Quality:
        """Judge it.

        Raises
        ------
        UserError
            The head cannot be packed so.
        """
        image = self.head.image(self.config)
        hidden = np.stack([np.frombuffer(state, np.float32) for state in self.states])
        step = max(1, HELD_LOGITS // image.rows)
        parts = []
        for start in range(0, len(hidden), step):
            states = hidden[start : start + step]
            vectors = prepare_vectors(image, states, self.config.hidden_bits)
            scores = golden_scores(image, vectors)
            found = logits_of(scores, image.weight_scale, vectors.scales)
            exact = self._exact(image, states.astype(np.float64))
            parts.append(compare(exact, found, image.transform))
        top1, top8, kl = np.concatenate(parts, axis=1).mean(axis=1).tolist()
        return Quality(len(hidden), top1, top8, kl)

    def _exact(self, image: Image, hidden: np.ndarray) -> np.ndarray:
        """Logits of the head as it is in its file, float64 [N, V]."""
        logits = np.empty((len(hidden), image.rows))
        for start, rows, bias in self._rows(image):
            part = slice(start, start + len(rows))
            np.matmul(hidden, rows.T.astype(np.float64), out=logits[:, part])
            logits[:, part] += bias
        return logits

    def _rows(self, image: Image) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        if self.head.packed:
            for start, stop in image.chunks():
                yield start, image.dequantise(start, stop), image.bias(start, stop)
            return
        with open_source(self.head.path) as source:
            bias = np.zeros(image.rows)
            if self.config.bias:
                bias = source.read_bias(image.rows)
            for start, stop in row_chunks(ImageLayout(image.config, image.rows, image.dim)):
                yield start, source.read(start, stop), bias[start:stop]


def compare(exact: np.ndarray, found: np.ndarray, transform: LogitTransform) -> np.ndarray:
    """Two sets of logits of the projection, float64 [N, V].

    Parameters
    ----------
    exact, found : float64 [N, V]
    transform : LogitTransform
        What the model does to them before its softmax.

    Returns
    -------
    float64 [3, N]
        1 where the best is the same, 1 where the 8 best are the same in their order, and the
        Kullback-Leibler divergence in nats.
    """
    best = [np.argsort(-logits, axis=1, kind="stable")[:, :PLACES] for logits in (exact, found)]
    equal = best[0] == best[1]
    logs = [_log_softmax(transform.apply(logits)) for logits in (exact, found)]
    kl = (np.exp(logs[0]) * (logs[0] - logs[1])).sum(axis=1)
    # It cannot be below zero but for rounding.
    return np.stack([equal[:, 0], equal.all(axis=1), np.maximum(kl, 0)])


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
