"""All scores of a job, as the accelerator writes them: back from the order of the memory."""

from collections.abc import Callable

import numpy as np

from hw.config import ceil_div
from hw.layout import LOGIT_BYTES, LOGITS_BEATS, ImageLayout

SCORE = np.dtype("<i8")


def channel_row_ids(layout: ImageLayout, channel: int) -> np.ndarray:
    """Ids of a channel's rows in the order in which it streams them, int64 [rows]."""
    config = layout.config
    tiles = np.arange(channel, layout.tiles, config.channels)
    ids = tiles[:, np.newaxis] * config.tile_rows + np.arange(config.tile_rows)
    return ids.reshape(-1)[: layout.channel_rows(channel)]


def channel_scores(layout: ImageLayout, channel: int, data: np.ndarray, vectors: int) -> np.ndarray:
    """The scores in the range that a channel has written, int64 [vectors, rows of the channel].

    Parameters
    ----------
    layout : ImageLayout
        Of a configuration with the hardware's `rankers`; see `ImageLayout.logit`.
    data : uint8 [layout.logits_bytes(channel, vectors)]
    """
    config = layout.config
    rows = layout.channel_rows(channel)
    chunk_words = LOGITS_BEATS * config.bus_bytes // LOGIT_BYTES
    chunks = data.view(SCORE).reshape(-1, config.rankers, chunk_words)
    scores = np.empty((vectors, rows), np.int64)
    for ranker in range(min(config.rankers, vectors)):
        slots = ceil_div(vectors - ranker, config.rankers)
        words = chunks[:, ranker].reshape(-1)[: rows * slots]
        scores[ranker :: config.rankers] = words.reshape(rows, slots).T
    return scores


def read_scores(
    layout: ImageLayout, read: Callable[[int, int], np.ndarray], vectors: int
) -> np.ndarray:
    """All scores of a job, int64 [vectors, V].

    Parameters
    ----------
    layout : ImageLayout
        As for `channel_scores`.
    read : callable (channel, size) -> uint8 [size]
        The first bytes of a channel's range.
    vectors : int
        Vectors of the job.
    """
    scores = np.empty((vectors, layout.rows), np.int64)
    for channel in range(layout.config.channels):
        if layout.channel_rows(channel):
            data = read(channel, layout.logits_bytes(channel, vectors))
            ids = channel_row_ids(layout, channel)
            scores[:, ids] = channel_scores(layout, channel, data, vectors)
    return scores
