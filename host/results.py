"""Results: the block the accelerator writes, and what the driver returns."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hw.counters import COUNTERS

COUNTER_NAMES = tuple(counter.name for counter in COUNTERS)

VECTOR_BYTES = 16
RECORD = np.dtype([("score", "<i8"), ("id", "<u4"), ("zero", "<u4")])
TRAILER_WORDS = 16
TRAILER_BYTES = 8 * TRAILER_WORDS

FILLER_ID = -1
"""Id in places for which no row exists."""
FILLER_SCORE = np.iinfo(np.int64).min
"""Score in places for which no row exists; the logit there is -inf."""


@dataclass(frozen=True)
class ResultBlock:
    """The result block of a job with one vector."""

    ids: np.ndarray
    """uint32 [count], best first."""
    scores: np.ndarray
    """int64 [count]."""
    counters: dict[str, int]
    """Counters as of the time the block was written; the registers hold the final values."""
    status: int
    job: int
    """JOBS register after this job."""


def trailer_offset(k: int, bus_bytes: int) -> int:
    """Byte offset of the trailer in the block of a job that asks for k results."""
    return -(-(VECTOR_BYTES + k * RECORD.itemsize) // bus_bytes) * bus_bytes


def result_bytes(k: int, bus_bytes: int) -> int:
    """Size of the block of a job that asks for k results."""
    return trailer_offset(k, bus_bytes) + TRAILER_BYTES


def parse_results(block: np.ndarray, k: int, bus_bytes: int) -> ResultBlock:
    """Read a result block.

    Parameters
    ----------
    block : uint8 [result_bytes(k, bus_bytes)]

    Raises
    ------
    ValueError
        The count exceeds k.
    """
    count = int(block[:4].view("<u4")[0])
    if count > k:
        raise ValueError(f"the result block counts {count} records of at most {k}")
    records = block[VECTOR_BYTES : VECTOR_BYTES + count * RECORD.itemsize].view(RECORD)
    offset = trailer_offset(k, bus_bytes)
    trailer = block[offset : offset + TRAILER_BYTES].view("<u8")
    return ResultBlock(
        ids=records["id"].copy(),
        scores=records["score"].copy(),
        counters=dict(zip(COUNTER_NAMES, map(int, trailer), strict=False)),
        status=int(trailer[-1]) & 0xFFFF_FFFF,
        job=int(trailer[-1]) >> 32,
    )


@dataclass(frozen=True)
class Results:
    """What the accelerator found for N hidden states."""

    ids: np.ndarray
    """int32 [N, K], best first, -1 where fewer than K rows exist."""
    scores: np.ndarray
    """int64 [N, K], the smallest int64 where fewer than K rows exist."""
    logits: np.ndarray
    """float64 [N, K], -inf where fewer than K rows exist."""
    hidden_scales: np.ndarray
    """float64 [N]; ``logit == (score * weight_scale) * hidden_scale``."""
    counters: dict[str, np.ndarray]
    """int64 [N] per counter of the hardware (`hw.counters.COUNTERS`)."""

    @property
    def counts(self) -> np.ndarray:
        """Results that exist, int64 [N]."""
        return (self.ids != FILLER_ID).sum(axis=1)

    def save(self, path: Path) -> None:
        """Write ids, scores, logits and every counter as an .npz, complete or not at all."""
        path = Path(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "wb") as file:
                np.savez(
                    file, ids=self.ids, scores=self.scores, logits=self.logits, **self.counters
                )
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
