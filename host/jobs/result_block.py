"""The block of results that the accelerator writes for a job."""

from dataclasses import dataclass

import numpy as np

from hw.config import HeadConfig, ceil_div
from hw.counters import CHANNEL_COUNTERS, JOB_COUNTERS, counter_names

COUNT = np.dtype([("count", "<u4"), ("exponent", "<i4"), ("sum", "<u8")])
"""What the results of a vector begin with."""
RECORD = np.dtype([("score", "<i8"), ("id", "<u4"), ("zero", "<u4")])


@dataclass(frozen=True)
class VectorResult:
    """The results of one vector."""

    ids: np.ndarray
    """uint32 [count], best first."""
    scores: np.ndarray
    """int64 [count]."""
    exponent: int
    """Of the log-sum-exp, see `host.jobs.logsumexp`; 0 without it."""
    sum: int
    """Of the log-sum-exp; 0 without it, or where no row was allowed."""


@dataclass(frozen=True)
class ResultBlock:
    """The result block of a job."""

    vectors: tuple[VectorResult, ...]
    counters: dict[str, int]
    """Counters of the job as of the time the block was written; the registers hold the final
    values."""
    channel_counters: dict[str, tuple[int, ...]]
    """Likewise, of each channel."""
    status: int
    job: int
    """JOBS register after this job."""


def vector_bytes(config: HeadConfig, k: int) -> int:
    """Size of the results of one vector of a job that asks for k, whole beats."""
    return ceil_div(COUNT.itemsize + k * RECORD.itemsize, config.bus_bytes) * config.bus_bytes


def trailer_bytes(config: HeadConfig) -> int:
    """Size of the counters and the status at the end of a block, in whole 64 bytes."""
    return 64 * ceil_div(len(counter_names(config)) + 1, 8)


def trailer_offset(config: HeadConfig, k: int, vectors: int) -> int:
    """Byte offset of the trailer in the block of a job."""
    return vectors * vector_bytes(config, k)


def result_bytes(config: HeadConfig, k: int, vectors: int) -> int:
    """Size of the block of a job that asks for k results of each vector."""
    return trailer_offset(config, k, vectors) + trailer_bytes(config)


def parse_results(block: np.ndarray, config: HeadConfig, k: int, vectors: int) -> ResultBlock:
    """Read a result block.

    Parameters
    ----------
    block : uint8 [result_bytes(config, k, vectors)]

    Raises
    ------
    ValueError
        A count exceeds k.
    """
    size = vector_bytes(config, k)
    results = []
    for vector in range(vectors):
        part = block[vector * size : (vector + 1) * size]
        head = part[: COUNT.itemsize].view(COUNT)[0]
        count = int(head["count"])
        if count > k:
            raise ValueError(f"the result block counts {count} records of at most {k}")
        end = COUNT.itemsize + count * RECORD.itemsize
        records = part[COUNT.itemsize : end].view(RECORD)
        ids, scores = records["id"].copy(), records["score"].copy()
        results.append(VectorResult(ids, scores, int(head["exponent"]), int(head["sum"])))
    words = [int(word) for word in block[vectors * size :].view("<u8")]
    step = len(CHANNEL_COUNTERS)
    channels = words[len(JOB_COUNTERS) : len(JOB_COUNTERS) + step * config.channels]
    return ResultBlock(
        vectors=tuple(results),
        counters=dict(zip((name for name, _ in JOB_COUNTERS), words, strict=False)),
        channel_counters={
            name: tuple(channels[index::step]) for index, (name, _) in enumerate(CHANNEL_COUNTERS)
        },
        status=words[-1] & 0xFFFF_FFFF,
        job=words[-1] >> 32,
    )
