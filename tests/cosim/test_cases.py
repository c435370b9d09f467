"""Known faults of such systems on the accelerator under cocotb, in two memories."""

import pytest

from hw.config import HeadConfig
from sim import cosim
from sim.memory import MemoryModel
from sim.memory.model import Stalls

CONFIG = HeadConfig(
    bus_bits=64, width=4, tile_rows=4, k=8, max_dim=4096, max_rows=65536, max_burst=16
)
MEMORIES = {
    "ideal": MemoryModel(),
    "junk_while_idle_and_data_before_address": MemoryModel(
        latency_cycles=13, idle_garbage=True, write_order="data_first", max_outstanding=3
    ),
    "slow_responses": MemoryModel(
        latency_cycles=90, write_order="address_first", write_latency_cycles=60,
        stalls=Stalls.everywhere(0.2, 3, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("memory", MEMORIES)
def test_cases(memory, tmp_path):
    cosim.run("tests.cosim.bench_cases", CONFIG, tmp_path, memory=MEMORIES[memory])
