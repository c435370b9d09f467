"""A device in plain Python: the register map and result block, with scores from integers."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from host.results import COUNTER_NAMES, RECORD, TRAILER_BYTES, VECTOR_BYTES, trailer_offset
from hw.config import HeadConfig
from hw.layout import ImageLayout
from hw.register_map import OFFSETS, Control, counter_registers, identification
from hw.status import Status


def image_of(config: HeadConfig, rows: int, dim: int, weight_scale: float = 0.3):
    """What the driver uses of an image; its bytes are no weights, the fake device has its own."""
    layout = ImageLayout(config, rows, dim)
    return SimpleNamespace(
        path=Path("head.safetensors"),
        config_fields=config.image_fields(),
        rows=rows,
        dim=dim,
        weight_scale=weight_scale,
        layout=layout,
        verify=lambda: None,
        data=np.arange(layout.bytes, dtype=np.uint32).astype(np.uint8),
    )


class FakeDevice:
    """Runs a job when start is written; faults are attributes that a test sets.

    Parameters
    ----------
    config : HeadConfig
    weights : int [V, d]
        Scales are 1.
    """

    name = "fake"
    clock_hz = 1e6
    memory_base = 0x4000_0000

    def __init__(self, config: HeadConfig, weights, memory_bytes: int = 1 << 20):
        self.config = config
        self.weights = np.asarray(weights, np.int64)
        self.memory_bytes = memory_bytes
        self.memory = np.zeros(memory_bytes, np.uint8)
        self.registers = dict.fromkeys(OFFSETS, 0) | identification(config)
        self.registers["CONTROL"] = int(Control.IDLE)
        self.status = Status.OK
        self.hang = False
        self.lose_results = False
        self.mapped = []
        self.deadlines = []
        self.resets = 0

    def read_register(self, offset):
        return self.registers[self._name(offset)]

    def write_register(self, offset, value):
        name = self._name(offset)
        assert 0 <= value < 2**32
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
        if not (self.registers["GIE"] and self.registers["ISR"]):
            raise TimeoutError("no interrupt")

    @staticmethod
    def _name(offset):
        return next(name for name, value in OFFSETS.items() if value == offset)

    def _address(self, name):
        return self.registers[f"{name}_LO"] | self.registers[f"{name}_HI"] << 32

    def _start(self):
        control = self.registers["CONTROL"]
        assert control & Control.IDLE and not control & Control.DONE
        if self.hang:
            self.registers["CONTROL"] = 0
            return
        self.registers["JOBS"] += 1
        self.registers["STATUS"] = int(self.status)
        if self.status:
            self.registers["ERRORS"] |= 1 << self.status
        elif not self.lose_results:
            self._answer()
        self.registers["CONTROL"] = int(Control.IDLE | Control.DONE)
        self.registers["ISR"] = self.registers["IER"] & 1

    def _answer(self):
        k, dim = self.registers["K"], self.registers["DIM"]
        kind = np.dtype(f"<i{self.config.hidden_bits // 8}")
        raw = self.read_memory(self._address("HIDDEN_ADDR"), dim * kind.itemsize)
        scores = self.weights @ raw.view(kind).astype(np.int64)
        order = sorted(range(len(scores)), key=lambda v: (-scores[v], v))[:k]
        bus_bytes = self.config.bus_bytes
        block = np.zeros(trailer_offset(k, bus_bytes) + TRAILER_BYTES, np.uint8)
        block[:4].view("<u4")[0] = len(order)
        records = block[VECTOR_BYTES : VECTOR_BYTES + len(order) * RECORD.itemsize].view(RECORD)
        records["id"], records["score"] = order, scores[order]
        block[-8:].view("<u8")[0] = self.registers["JOBS"] << 32
        self.write_memory(self._address("RESULT_ADDR"), block)
        for index, name in enumerate(COUNTER_NAMES):
            value = (index + 1 << 32) + self.registers["JOBS"]
            low, high = counter_registers(name)
            self.registers[low], self.registers[high] = value & 0xFFFF_FFFF, value >> 32
