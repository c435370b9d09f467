"""Jobs on the accelerator's registers, without the host driver."""

import struct
from dataclasses import dataclass, field, replace

import numpy as np

from hw.config import HeadConfig
from hw.layout import LOGIT_BYTES, LOGITS_BEATS
from hw.register_map import OFFSETS, Control, Flag
from tests.cosim.heads import RandomHead

HIDDEN_ADDRESS = 0x1_0000_0000
IMAGE_ADDRESS = 0x1_0100_0000
MASK_ADDRESS = 0x1_8000_0000
RESULT_ADDRESS = 0x2_0000_0000
LOGITS_ADDRESS = 0x3_0000_0000
CHANNEL_STEP = 0x400_0000
"""Between the image, mask or logits of one channel and the next."""
PLACE_STEP = 0x10_0000
"""Between the memory of one job and that of the next."""
MEMORY_BYTES = 1 << 36

JOB_COUNTERS = ("cycles", "rows", "insertions", "bytes_written")
CHANNEL_COUNTERS = (
    "data_beats",
    "stream_beats",
    "refused_cycles",
    "wait_cycles",
    "address_wait_cycles",
    "first_data_latency_cycles",
    "max_outstanding_bytes",
)
UNTOUCHED = b"\xa5"
"""What memory holds where a job is to write."""


def counter_names(config: HeadConfig) -> list[str]:
    """All counters in the order of the trailer; those of a channel end in its number."""
    channels = range(config.channels)
    return [*JOB_COUNTERS, *(f"{name}{c}" for c in channels for name in CHANNEL_COUNTERS)]


def trailer_words(config: HeadConfig) -> int:
    """Size of the trailer of a result block in words of 8 bytes."""
    return -(-(len(counter_names(config)) + 1) // 8) * 8


def vector_bytes(config: HeadConfig, k: int) -> int:
    """Size of the results of one vector."""
    return -(-(16 + 16 * k) // config.bus_bytes) * config.bus_bytes


@dataclass(frozen=True)
class Job:
    """Arguments of a job as the registers take them."""

    head: RandomHead
    k: int
    arguments: dict[str, int] = field(default_factory=dict)
    """Registers that are other than what follows from the rest."""
    vectors: int | None = None
    """Of the head's vectors the first ones; default: all."""
    allowed: np.ndarray | None = None
    """The mask, bool [vectors, V]; default: no mask."""
    logits: bool = False

    @property
    def config(self) -> HeadConfig:
        return self.head.config

    @property
    def count(self) -> int:
        """Vectors of the job."""
        return len(self.head.hidden) if self.vectors is None else self.vectors

    def changed(self, **arguments: int) -> "Job":
        return replace(self, arguments=self.arguments | arguments)

    def placed(self, number: int) -> "Job":
        """The same job with all of its memory elsewhere."""
        addresses = self.wide_arguments("ADDR")
        return self.changed(
            **{name: self.argument(name) + number * PLACE_STEP for name in addresses}
        )

    def wide_arguments(self, ending: str) -> list[str]:
        """Names of the arguments of 64 bits that end so."""
        return sorted(name for name in self._defaults()[1] if name.endswith(ending))

    def _defaults(self) -> tuple[dict[str, int], dict[str, int]]:
        """Registers of 32 bits, and those of a low and a high word."""
        config, layout = self.config, self.head.layout
        wide = {"HIDDEN_ADDR": HIDDEN_ADDRESS, "RESULT_ADDR": RESULT_ADDRESS}
        for channel in range(config.channels):
            offset = channel * CHANNEL_STEP
            wide[f"IMAGE{channel}_ADDR"] = IMAGE_ADDRESS + offset
            wide[f"IMAGE{channel}_BYTES"] = layout.channel_bytes(channel)
            if config.mask:
                wide[f"MASK{channel}_ADDR"] = MASK_ADDRESS + offset
            if config.all_logits:
                wide[f"LOGITS{channel}_ADDR"] = LOGITS_ADDRESS + offset
        values = {
            "ROWS": layout.rows,
            "DIM": layout.dim,
            "K": self.k,
            "VECTORS": self.count,
            "IMAGE_FORMAT": config.format_word,
        }
        if config.mask or config.all_logits:
            masked = self.allowed is not None
            values["FLAGS"] = Flag.MASK * masked | Flag.LOGITS * self.logits
        return values, wide

    def argument(self, name: str) -> int:
        """Value of an argument; of 64 bits without _LO and _HI."""
        values, wide = self._defaults()
        return (values | wide | self.arguments)[name]

    def registers(self) -> dict[str, int]:
        """Registers to write."""
        values, wide = self._defaults()
        registers = {}
        for name, value in (values | wide | self.arguments).items():
            if name in wide:
                registers[f"{name}_LO"] = value & 0xFFFF_FFFF
                registers[f"{name}_HI"] = value >> 32
            else:
                registers[name] = value
        return registers

    # Memory.

    def mask_bytes(self, channel: int) -> np.ndarray:
        """The mask of a channel as it lies in DRAM, uint8; bits that mean nothing are ones."""
        config, layout = self.config, self.head.layout
        tiles, tile_rows = layout.tiles, config.tile_rows
        missing = tiles * tile_rows - layout.rows
        bits = np.pad(self.allowed, ((0, 0), (0, missing)), constant_values=True)
        bits = bits.reshape(self.count, tiles, tile_rows)[:, channel :: config.channels]
        data = np.packbits(bits.transpose(1, 0, 2).reshape(-1), bitorder="little")
        if bits.size % 8:
            data[-1] |= 0xFF << bits.size % 8 & 0xFF
        size = layout.mask_beats(channel, self.count) * config.bus_bytes
        return np.pad(data, (0, size - len(data)), constant_values=0xFF)

    def result_bytes(self) -> int:
        """Size of the result block."""
        # An argument error is reported with the arguments as they were.
        k, vectors = min(self.argument("K"), self.config.k), min(self.count, self.config.batch)
        return vectors * vector_bytes(self.config, k) + 8 * trailer_words(self.config)

    def expected_logits(self, channel: int) -> bytes:
        """The range of a channel's scores as the job leaves it, and a bit of what follows."""
        config, layout = self.config, self.head.layout
        data = np.full(layout.logits_bytes(channel, self.count) + 4096, UNTOUCHED[0], np.uint8)
        if not self.logits:
            return data.tobytes()
        rows = np.arange(layout.rows)
        rows = rows[rows // config.tile_rows % config.channels == channel]
        chunk_bytes = LOGITS_BEATS * config.bus_bytes
        for vector in range(self.count):
            for row in rows.tolist():
                place = layout.logit(row, vector, self.count).byte
                data[place : place + LOGIT_BYTES] = 0
                score = self.head.scores[vector, row : row + 1]
                data[place : place + LOGIT_BYTES] = score.astype("<i8").view(np.uint8)
        # The rest of the last beat of each ranker is zero.
        for ranker in range(min(config.rankers, self.count)):
            slots = -(-(self.count - ranker) // config.rankers)
            size = len(rows) * slots * LOGIT_BYTES
            chunk, place = divmod(size, chunk_bytes)
            start = (chunk * config.rankers + ranker) * chunk_bytes + place
            data[start : start + -size % config.bus_bytes] = 0
        return data.tobytes()

    # What comes out of it.

    def allowed_rows(self, vector: int) -> np.ndarray | None:
        return None if self.allowed is None else self.allowed[vector]

    def insertions(self) -> int:
        return sum(
            self.head.insertions(vector, self.k, self.allowed_rows(vector))
            for vector in range(self.count)
        )

    def read_beats(self, channel: int) -> int:
        """Beats that a channel reads."""
        config, layout = self.config, self.head.layout
        beats = layout.channel_beats(channel)
        if channel == 0:
            beats += len(self.head.hidden_bytes(self.count)) // config.bus_bytes
        if self.allowed is not None:
            beats += layout.mask_beats(channel, self.count)
        return beats


@dataclass(frozen=True)
class VectorOutcome:
    """Results of one vector."""

    records: list[tuple[int, int]]
    """(score, id), best first."""
    logsumexp: tuple[int, int]
    """Exponent and sum."""
    rest: bytes
    """Bytes behind the last record."""


@dataclass(frozen=True)
class Outcome:
    """What a job left behind."""

    status: int
    vectors: list[VectorOutcome]
    """Empty if the job failed."""
    trailer: tuple[int, ...]
    """Counters and zeros."""
    trailer_status: int
    trailer_job: int
    counters: dict[str, int]

    def trailer_counters(self, config: HeadConfig) -> dict[str, int]:
        return dict(zip(counter_names(config), self.trailer, strict=False))

    @property
    def records(self) -> list[tuple[int, int]]:
        """(score, id) of a job of one vector, best first."""
        (vector,) = self.vectors
        return vector.records


async def load(device, job: Job) -> None:
    """Put the data of a job into memory; where it writes nothing of an earlier job is left."""
    for channel, image in enumerate(job.head.images()):
        device.write_memory(job.argument(f"IMAGE{channel}_ADDR"), image)
    device.write_memory(job.argument("HIDDEN_ADDR"), job.head.hidden_bytes(job.count))
    prepare_results(device, job)
    for channel in range(job.config.channels):
        if job.allowed is not None:
            device.write_memory(job.argument(f"MASK{channel}_ADDR"), job.mask_bytes(channel))


def prepare_results(device, job: Job) -> None:
    """Make the memory that a job writes to `UNTOUCHED`."""
    layout = job.head.layout
    # Twice as much as is written: what lies behind must stay.
    device.write_memory(job.argument("RESULT_ADDR"), UNTOUCHED * (2 * job.result_bytes()))
    if job.config.all_logits:
        for channel in range(job.config.channels):
            size = layout.logits_bytes(channel, job.count) + 4096
            device.write_memory(job.argument(f"LOGITS{channel}_ADDR"), UNTOUCHED * size)


async def write_arguments(device, job: Job) -> None:
    """Write the arguments and enable the interrupt."""
    for name, value in job.registers().items():
        await device.write(OFFSETS[name], value)
    await device.write(OFFSETS["GIE"], 1)
    await device.write(OFFSETS["IER"], 1)


async def start(device, job: Job) -> None:
    """Write the arguments and start; the interrupt is enabled."""
    await write_arguments(device, job)
    await device.write(OFFSETS["CONTROL"], Control.START)


async def read_counters(device) -> dict[str, int]:
    """All counters of the last job, by the names of `counter_names`."""
    counters = {}
    for name in counter_names(device.config):
        low, high = (OFFSETS[f"{name.upper()}_{part}"] for part in ("LO", "HI"))
        counters[name] = await device.read(low) | await device.read(high) << 32
    return counters


async def acknowledge(device) -> None:
    """Make way for the end of the next job."""
    await device.write(OFFSETS["ISR"], 1)
    await device.write(OFFSETS["CONTROL"], Control.CONTINUE)


async def finish(device, job: Job, cycles: int = 1_000_000) -> Outcome:
    """Wait for the interrupt, collect the outcome and acknowledge it."""
    assert await device.interrupted(cycles), "no interrupt"
    status = await device.read(OFFSETS["STATUS"])
    counters = await read_counters(device)
    await acknowledge(device)
    return outcome(device, job, status, counters)


def outcome(device, job: Job, status: int, counters: dict[str, int]) -> Outcome:
    """Parse the result block; a job that failed has no results."""
    config = job.config
    k = min(job.argument("K"), config.k)
    size = job.result_bytes()
    block = bytes(device.read_memory(job.argument("RESULT_ADDR"), 2 * size))
    assert block[size:] == UNTOUCHED * size
    words = trailer_words(config)
    trailer_at = size - 8 * words
    vectors = []
    for start in range(0, 0 if status else trailer_at, vector_bytes(config, k)):
        part = block[start : start + vector_bytes(config, k)]
        count, exponent, total = struct.unpack_from("<IiQ", part)
        assert count <= k
        records = [struct.unpack_from("<qII", part, 16 + 16 * n) for n in range(count)]
        assert all(zero == 0 for _, _, zero in records)
        records = [(score, row) for score, row, _ in records]
        vectors.append(VectorOutcome(records, (exponent, total), part[16 + 16 * count :]))
    *trailer, trailer_status, trailer_job = struct.unpack_from(
        f"<{words - 1}QII", block, trailer_at
    )
    return Outcome(status, vectors, tuple(trailer), trailer_status, trailer_job, counters)


async def run(device, job: Job, cycles: int = 1_000_000) -> Outcome:
    """A whole job: load, start, finish."""
    await load(device, job)
    await start(device, job)
    return await finish(device, job, cycles)


def untouched(device, job: Job) -> bool:
    """Whether a job has written no results."""
    size = vector_bytes(job.config, min(job.argument("K"), job.config.k))
    return bytes(device.read_memory(job.argument("RESULT_ADDR"), size)) == UNTOUCHED * size


def check(device, job: Job, result: Outcome, alone: bool = True) -> None:
    """The result block and the scores in memory are complete and bit-exact.

    Of a job that was `alone` the counters in the trailer are those of the registers; otherwise the
    next one may have got there first.
    """
    assert result.status == result.trailer_status == 0, (result.status, result.trailer_status)
    assert len(result.vectors) == job.count
    for number, vector in enumerate(result.vectors):
        allowed = job.allowed_rows(number)
        assert vector.records == job.head.best(number, job.k, allowed), f"vector {number}"
        assert vector.logsumexp == job.head.logsumexp(number, allowed), f"vector {number}"
        assert not any(vector.rest)
    counted = result.trailer_counters(job.config)
    assert not any(result.trailer[len(counted) :])
    if alone:
        # Final when the trailer was made, but for those that go on until the job's end.
        for name in counted.keys() - {"cycles", "bytes_written"}:
            assert counted[name] == result.counters[name], name
    if job.config.all_logits:
        for channel in range(job.config.channels):
            expected = job.expected_logits(channel)
            address = job.argument(f"LOGITS{channel}_ADDR")
            written = bytes(device.read_memory(address, len(expected)))
            assert written == expected, f"logits of channel {channel}"
