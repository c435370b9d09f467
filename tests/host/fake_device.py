"""A device in plain Python: the register map and result block, with what the golden models give.

It takes weights and terms from the image in its memory, as the accelerator does.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from host.image.tiles import decode_rows, decode_terms
from hw.config import HeadConfig
from hw.counters import counter_names
from hw.layout import ImageLayout
from hw.register_map import OFFSETS, Control, Flag, counter_registers, identification, registers
from hw.status import Status
from sim import golden
from sim.golden_logsumexp import accumulate

NAMES = {offset: name for name, offset in OFFSETS.items()}


@dataclass
class Started:
    """A job that was started: its arguments as they were then."""

    arguments: dict[str, int]
    inputs: bytes
    """Digest of what it will read, which must not change until it ends."""


class FakeDevice:
    """Takes jobs when start is written, ends them in `wait_interrupt`.

    Without the job queue one is taken at a time, with it a second one is. Faults are attributes
    that a test sets.

    Parameters
    ----------
    config : HeadConfig
    memory_bytes : int
    """

    name = "fake"
    clock_hz = 1e6
    memory_base = 0x4000_0000

    def __init__(self, config: HeadConfig, memory_bytes: int = 1 << 20):
        self.config = config
        self.memory_bytes = memory_bytes
        self.memory = np.zeros(memory_bytes, np.uint8)
        built = {register.name for register in registers(config).all}
        self.registers = dict.fromkeys(built, 0) | identification(config)
        self.arguments = {register.name for register in registers(config).arguments}
        self.registers["CONTROL"] = int(Control.IDLE)
        self.accept_after = 2
        """Reads of CONTROL until a start is accepted."""
        self.jobs: list[Started] = []
        self.status = Status.OK
        self.failing = {}
        """Status of the job with a number, instead of `status`."""
        self.hang = False
        self.lose_results = False
        self.lose_record = False
        self.mapped = []
        self.deadlines = []
        self.resets = 0
        self.most_jobs = 0
        self._acceptance = 0

    # The device of the driver.

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        pass

    def read_register(self, offset):
        name = NAMES[offset]
        if name == "CONTROL":
            self._acceptance -= 1
            if self._acceptance <= 0:
                self.registers[name] &= ~Control.START
        return self.registers[name]

    def write_register(self, offset, value):
        name = NAMES[offset]
        assert name in self.registers, f"{name} is not mapped"
        assert 0 <= value < 2**32
        if name in self.arguments:
            assert not self.registers["CONTROL"] & Control.START, f"{name} is written too early"
        if name == "CONTROL":
            if value & Control.CONTINUE:
                self.registers[name] &= ~Control.DONE
            if value & Control.START:
                self._start()
        elif name == "ISR":
            self.registers[name] ^= value
        elif name == "ERRORS":
            self.registers[name] &= ~value
        elif name == "RESET":
            self.resets += value & 1
            self.jobs.clear()
            self.registers["CONTROL"] = int(Control.IDLE)
            self.registers["ISR"] = 0
        else:
            self.registers[name] = value

    def read_memory(self, address, size):
        start = address - self.memory_base
        assert 0 <= start <= start + size <= self.memory_bytes
        return self.memory[start : start + size].copy()

    def write_memory(self, address, data):
        data = np.frombuffer(data, np.uint8)
        start = address - self.memory_base
        assert 0 <= start <= start + len(data) <= self.memory_bytes
        self.memory[start : start + len(data)] = data

    def map_memory(self, address, array):
        assert address % 4096 == 0
        self.mapped.append(address)
        self.write_memory(address, array)

    def wait_interrupt(self, cycles):
        self.deadlines.append(cycles)
        self.registers["CONTROL"] &= ~Control.START
        if self.jobs and not self.hang and not self.registers["CONTROL"] & Control.DONE:
            self._end(self.jobs.pop(0))
        if not (self.registers["GIE"] and self.registers["ISR"]):
            raise TimeoutError("no interrupt")

    # Jobs.

    def _start(self):
        control = Control(self.registers["CONTROL"])
        assert not control & Control.START
        assert len(self.jobs) <= self.config.job_queue
        assert self.config.job_queue or control == Control.IDLE
        self.registers["CONTROL"] = int(control & ~Control.IDLE | Control.START)
        self._acceptance = self.accept_after
        job = Started({name: self.registers[name] for name in self.arguments}, b"")
        job.inputs = self._inputs(job)
        self.jobs.append(job)
        self.most_jobs = max(self.most_jobs, len(self.jobs))

    def _end(self, job: Started):
        self.registers["JOBS"] += 1
        number = self.registers["JOBS"]
        assert job.inputs == self._inputs(job), f"job {number} has lost its arguments"
        status = self.failing.get(number, self.status)
        self.registers["STATUS"] = int(status)
        if status:
            self.registers["ERRORS"] |= 1 << status
        elif not self.lose_results:
            self._answer(job.arguments, number)
        control = Control.DONE | (Control(0) if self.jobs else Control.IDLE)
        self.registers["CONTROL"] = int(control)
        self.registers["ISR"] = self.registers["IER"] & 1

    @staticmethod
    def _wide(arguments, name):
        return arguments[f"{name}_LO"] | arguments[f"{name}_HI"] << 32

    def _bytes(self, arguments, name, size):
        return self.read_memory(self._wide(arguments, name), size)

    def _layout(self, arguments) -> ImageLayout:
        return ImageLayout(self.config, arguments["ROWS"], arguments["DIM"])

    def _vector_bytes(self, layout) -> tuple[int, int]:
        """Sizes of a state and of its parameters, whole beats."""
        bus = self.config.bus_bytes
        state = -(-layout.padded_dim * self.config.hidden_bits // 8 // bus) * bus
        return state, max(16, bus) if self.config.has_parameters else 0

    def _inputs(self, job: Started) -> bytes:
        arguments, layout = job.arguments, self._layout(job.arguments)
        size = arguments["VECTORS"] * sum(self._vector_bytes(layout))
        digest = hashlib.sha256(self._bytes(arguments, "HIDDEN_ADDR", size))
        if arguments.get("FLAGS", 0) & Flag.MASK:
            for mask in self._masks(arguments, layout):
                digest.update(mask)
        return digest.digest()

    def _masks(self, arguments, layout):
        vectors = arguments["VECTORS"]
        return [
            self._bytes(
                arguments,
                f"MASK{c}_ADDR",
                layout.mask_beats(c, vectors) * self.config.bus_bytes,
            )
            for c in range(self.config.channels)
        ]

    def _answer(self, arguments, number):
        config, layout = self.config, self._layout(arguments)
        vectors = arguments["VECTORS"]
        assert 1 <= vectors <= config.batch and 1 <= arguments["K"] <= config.k
        hidden, parameters = self._vectors(arguments, layout)
        channels = [
            self._bytes(arguments, f"IMAGE{c}_ADDR", self._wide(arguments, f"IMAGE{c}_BYTES"))
            for c in range(config.channels)
        ]
        weights, scales = decode_rows(layout, channels, 0, layout.rows)
        terms = decode_terms(layout, channels, 0, layout.rows)
        bias, bounds = {}, None
        if config.bias:
            bias = {"bias": terms[:, 0], "bias_multipliers": parameters[:, 0]}
        if config.bound:
            bounds = golden.products(terms[:, -1], parameters[:, 1], layout.rows, vectors)
        weights = weights[:, : layout.dim]
        scores = golden.scores(weights, scales, hidden, config.group, **bias)
        flags = Flag(arguments.get("FLAGS", 0))
        allowed = np.ones(scores.shape, bool)
        if Flag.MASK in flags:
            allowed = self._allowed(layout, self._masks(arguments, layout), vectors)
        ids, best = golden.topk(scores, arguments["K"], allowed=allowed, bounds=bounds)
        block = []
        for n in range(vectors):
            sums = 0, 0
            if config.logsumexp:
                sums = accumulate(scores[n], *map(int, parameters[n, 2:]), allowed[n])
            found = ids[n][ids[n] >= 0]
            if self.lose_record:
                found = found[:-1]
            block += self._records(found, best[n], sums, arguments["K"])
        if Flag.LOGITS in flags:
            self._write_logits(arguments, layout, scores)
        self._write_counters(number)
        words = [self._counter(index, number) for index in range(len(counter_names(config)))]
        words += [0] * (-(len(words) + 1) % 8)
        block += np.array([*words, number << 32], "<u8").tobytes()
        self.write_memory(self._wide(arguments, "RESULT_ADDR"), bytes(block))

    def _vectors(self, arguments, layout):
        """Hidden states int64 [vectors, d] and parameters int64 [vectors, 4]."""
        kind = np.dtype(f"<i{self.config.hidden_bits // 8}")
        state, extra = self._vector_bytes(layout)
        size = arguments["VECTORS"] * (state + extra)
        data = self._bytes(arguments, "HIDDEN_ADDR", size).reshape(-1, state + extra)
        hidden = data[:, : layout.dim * kind.itemsize].copy().view(kind).astype(np.int64)
        parameters = data[:, state : state + 16].copy().view("<u4").astype(np.int64)
        return hidden, parameters

    @staticmethod
    def _allowed(layout, masks, vectors):
        allowed = np.zeros((vectors, layout.rows), bool)
        for vector in range(vectors):
            for row in range(layout.rows):
                place = layout.mask(row, vector, vectors)
                allowed[vector, row] = masks[place.channel][place.byte] >> place.bit & 1
        return allowed

    def _records(self, ids, scores, sums, k) -> bytes:
        exponent, total = sums
        data = len(ids).to_bytes(4, "little") + exponent.to_bytes(4, "little", signed=True)
        data += total.to_bytes(8, "little")
        for row, score in zip(ids, scores, strict=False):
            data += int(score).to_bytes(8, "little", signed=True)
            data += int(row).to_bytes(8, "little")
        bus = self.config.bus_bytes
        return data.ljust(-(-16 * (1 + k) // bus) * bus, b"\0")

    def _write_logits(self, arguments, layout, scores):
        vectors = len(scores)
        for (vector, row), score in np.ndenumerate(scores):
            place = layout.logit(row, vector, vectors)
            base = self._wide(arguments, f"LOGITS{place.channel}_ADDR")
            assert place.byte + 8 <= layout.logits_bytes(place.channel, vectors)
            self.write_memory(base + place.byte, np.array([score], "<i8").tobytes())

    @staticmethod
    def _counter(index, number):
        """A value that is the counter's and the job's own."""
        return (index + 1 << 32) + number

    def _write_counters(self, number):
        for index, name in enumerate(counter_names(self.config)):
            low, high = counter_registers(name)
            value = self._counter(index, number)
            self.registers[low], self.registers[high] = value & 0xFFFF_FFFF, value >> 32
