"""Jobs on the accelerator's registers, and heads to run them on, without the host driver."""

import heapq
import struct
from dataclasses import dataclass, field, replace

import numpy as np

from host.tiles import encode_rows, row_chunks
from hw.config import HeadConfig
from hw.counters import COUNTERS
from hw.layout import ImageLayout
from hw.register_map import OFFSETS, Control, counter_registers
from hw.results import TRAILER_WORDS, record_beats
from sim import golden

HIDDEN_ADDRESS = 0x1_0000_0000
IMAGE_ADDRESS = 0x1_0010_0000
RESULT_ADDRESS = 0x2_0000_0000
MEMORY_BYTES = 1 << 36


@dataclass(frozen=True)
class RandomHead:
    """Integer weights and scales of a head, and hidden states for it.

    `weights` int [V, d], `scales` int [V, groups], `hidden` int [d].
    """

    config: HeadConfig
    weights: np.ndarray
    scales: np.ndarray
    hidden: np.ndarray

    @property
    def layout(self) -> ImageLayout:
        return ImageLayout(self.config, *self.weights.shape)

    def image(self) -> np.ndarray:
        """The packed image, uint8."""
        layout = self.layout
        padding = layout.padded_dim - layout.dim
        weights = np.pad(self.weights, ((0, 0), (0, padding))).astype(np.int8)
        image = np.zeros(layout.bytes, np.uint8)
        for start, stop in row_chunks(layout):
            for offset, piece in encode_rows(
                layout, start, weights[start:stop], self.scales[start:stop]
            ):
                image[offset : offset + piece.size] = piece
        return image

    def hidden_bytes(self) -> bytes:
        """The hidden state as it lies in DRAM, padded to whole beats."""
        kind = f"<i{self.config.hidden_bits // 8}"
        state = np.zeros(self.layout.padded_dim, kind)
        state[: len(self.hidden)] = self.hidden
        size = self.config.bus_bytes
        return state.tobytes().ljust(-(-state.nbytes // size) * size, b"\0")

    def scores(self) -> np.ndarray:
        """The golden model's scores, int64 [V]."""
        (scores,) = golden.scores(self.weights, self.scales, self.hidden[None], self.config.group)
        return scores

    def best(self, k: int) -> list[tuple[int, int]]:
        """(score, id) of the k best rows."""
        ids, scores = golden.topk(self.scores()[None], k)
        return [(int(s), int(i)) for s, i in zip(scores[0], ids[0], strict=True) if i >= 0]

    def insertions(self, k: int) -> int:
        """Rows that enter the list of the k best, rows taken in the order of their ids."""
        kept = []
        count = 0
        for row, score in enumerate(self.scores().tolist()):
            entry = (score, -row)
            if len(kept) < k:
                heapq.heappush(kept, entry)
                count += 1
            elif entry > kept[0]:
                heapq.heapreplace(kept, entry)
                count += 1
        return count


def integers(rng, bits: int, shape, signed: bool = True) -> np.ndarray:
    """Random integers over the full range of a format, its ends frequent."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    values = rng.integers(low, high + 1, shape)
    pick = rng.random(shape)
    return np.where(pick < 0.05, low, np.where(pick > 0.95, high, values))


def random_head(config: HeadConfig, rows: int, dim: int, rng, *, ties: bool = False) -> RandomHead:
    """A head over the full ranges of its formats or, with `ties`, one of few distinct scores."""
    groups = config.groups(dim)
    if ties:
        weights = rng.integers(-1, 2, (rows, dim)) * (rng.random((rows, dim)) < 2 / dim)
        scales = np.ones((rows, groups), int)
    else:
        weights = integers(rng, config.weight_bits, (rows, dim))
        scales = integers(rng, config.scale_bits, (rows, groups), config.scale_signed)
    return RandomHead(config, weights, scales, integers(rng, config.hidden_bits, dim))


def head_of_scores(config: HeadConfig, scores, row_scales=None) -> RandomHead:
    """A head of one column whose scores are as given (times `row_scales`)."""
    weights = np.array(scores)[:, None]
    scales = np.ones_like(weights) if row_scales is None else np.array(row_scales)[:, None]
    return RandomHead(config, weights, scales, np.array([1]))


@dataclass(frozen=True)
class Job:
    """Arguments of a job as the registers take them."""

    head: RandomHead
    k: int
    arguments: dict[str, int] = field(default_factory=dict)

    def values(self) -> dict[str, int]:
        """Registers to write; `arguments` overrides what follows from the head."""
        wide = {
            "HIDDEN_ADDR": HIDDEN_ADDRESS,
            "RESULT_ADDR": RESULT_ADDRESS,
            "IMAGE_ADDR": IMAGE_ADDRESS,
            "IMAGE_BYTES": self.head.layout.bytes,
        }
        values = {
            "ROWS": self.head.layout.rows,
            "DIM": self.head.layout.dim,
            "K": self.k,
            "VECTORS": 1,
            "IMAGE_FORMAT": self.head.config.format_word,
        }
        for name, value in (values | wide | self.arguments).items():
            if name in wide:
                values[f"{name}_LO"] = value & 0xFFFF_FFFF
                values[f"{name}_HI"] = value >> 32
            else:
                values[name] = value
        return values

    def changed(self, **arguments: int) -> "Job":
        return replace(self, arguments=self.arguments | arguments)


@dataclass(frozen=True)
class Outcome:
    """What a job left behind."""

    status: int
    records: list[tuple[int, int]]
    """(score, id), best first."""
    rest: bytes
    """Bytes between the last record and the trailer."""
    trailer: tuple[int, ...]
    """Counters and zeros, 15 words."""
    trailer_status: int
    trailer_job: int
    counters: dict[str, int]


async def load(device, head: RandomHead, image_address: int = IMAGE_ADDRESS) -> None:
    """Put the image and the hidden state into memory."""
    device.write_memory(image_address, head.image())
    device.write_memory(HIDDEN_ADDRESS, head.hidden_bytes())


async def start(device, job: Job) -> None:
    """Write the arguments and start; the interrupt is enabled."""
    for name, value in job.values().items():
        await device.write(OFFSETS[name], value)
    await device.write(OFFSETS["GIE"], 1)
    await device.write(OFFSETS["IER"], 1)
    await device.write(OFFSETS["CONTROL"], Control.START)


async def finish(device, job: Job, cycles: int = 1_000_000) -> Outcome:
    """Wait for the interrupt, collect the outcome and acknowledge it."""
    assert await device.interrupted(cycles), "no interrupt"
    status = await device.read(OFFSETS["STATUS"])
    counters = {}
    for counter in COUNTERS:
        low, high = (OFFSETS[name] for name in counter_registers(counter.name))
        counters[counter.name] = await device.read(low) | await device.read(high) << 32
    await device.write(OFFSETS["ISR"], 1)
    await device.write(OFFSETS["CONTROL"], Control.CONTINUE)
    return outcome(device, job, status, counters)


def outcome(device, job: Job, status: int, counters: dict[str, int]) -> Outcome:
    """Parse the result block; a job that failed has no records."""
    config = job.head.config
    # An argument error is reported with the arguments as they were.
    k = min(job.values()["K"], config.k)
    size = record_beats(config, k) * config.bus_bytes
    block = bytes(device.read_memory(RESULT_ADDRESS, size + 8 * TRAILER_WORDS))
    count = 0 if status else struct.unpack_from("<I", block)[0]
    records = [struct.unpack_from("<qII", block, 16 + 16 * n) for n in range(min(count, k))]
    assert all(zero == 0 for _, _, zero in records)
    *trailer, trailer_status, trailer_job = struct.unpack_from("<15QII", block, size)
    return Outcome(
        status=status,
        records=[(score, row) for score, row, _ in records],
        rest=block[4:16] + block[16 + 16 * count : size],
        trailer=tuple(trailer),
        trailer_status=trailer_status,
        trailer_job=trailer_job,
        counters=counters,
    )


async def run(device, job: Job, cycles: int = 1_000_000) -> Outcome:
    """A whole job: load, start, finish."""
    await load(device, job.head, job.arguments.get("IMAGE_ADDR", IMAGE_ADDRESS))
    # What an earlier job wrote must not pass for this one's result.
    device.write_memory(RESULT_ADDRESS, b"\xa5" * 8192)
    await start(device, job)
    return await finish(device, job, cycles)


def check(job: Job, result: Outcome) -> None:
    """The result block is complete and bit-exact."""
    assert result.status == result.trailer_status == 0
    assert result.records == job.head.best(job.k)
    assert not any(result.rest)
    values = dict(zip((counter.name for counter in COUNTERS), result.trailer, strict=False))
    assert not any(result.trailer[len(COUNTERS) :])
    # Final when the trailer was made, but for those that go on until the job's end.
    for name in values.keys() - {"cycles", "bytes_written"}:
        assert values[name] == result.counters[name], name
