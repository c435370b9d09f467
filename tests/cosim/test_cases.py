"""Known faults of such systems on the accelerator under cocotb, in several builds and memories."""

import pytest

from hw.config import HeadConfig
from sim import cosim
from sim.memory import MemoryModel
from sim.memory.model import Stalls

CONFIG = HeadConfig(
    bus_bits=64, width=4, tile_rows=4, k=8, max_dim=4096, max_rows=65536, max_burst=16
)
EVERYTHING = {
    "bias": True, "bound": True, "mask": True, "all_logits": True, "logsumexp": True,
}  # fmt: skip
SMALL = {"bus_bits": 64, "width": 4, "k": 8, "max_burst": 16}
ONE = HeadConfig(**SMALL, **EVERYTHING, tile_rows=12, max_dim=64, max_rows=500, batch=3)
TWO = HeadConfig(
    **SMALL, **EVERYTHING, tile_rows=4, max_dim=4096, max_rows=65536, channels=2, batch=3,
    rankers=2, job_queue=True,
)  # fmt: skip
EIGHT = HeadConfig(
    **SMALL, **EVERYTHING, tile_rows=4, max_dim=64, max_rows=500, channels=8, batch=2, rankers=1
)
QUEUES = {
    "one_channel": HeadConfig(
        bus_bits=64, width=8, tile_rows=4, k=64, max_dim=64, max_rows=500, job_queue=True
    ),
    "two_channels": HeadConfig(
        **{**SMALL, "k": 64}, **EVERYTHING, tile_rows=4, max_dim=64, max_rows=600, channels=2,
        batch=3, job_queue=True,
    ),
}  # fmt: skip
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


@pytest.mark.parametrize("memory", ["ideal", "slow_responses"])
def test_cases_with_two_channels_and_everything_built(memory, tmp_path):
    cosim.run("tests.cosim.bench_cases", TWO, tmp_path, memory=MEMORIES[memory], quick=True)


@pytest.mark.parametrize("memory", ["ideal", "slow_responses"])
@pytest.mark.parametrize(
    "config",
    [
        pytest.param(ONE, id="one"),
        pytest.param(TWO, id="two"),
        pytest.param(EIGHT, id="eight", marks=pytest.mark.long),
    ],
)
def test_functions(config, memory, tmp_path):
    cosim.run("tests.cosim.bench_functions", config, tmp_path, memory=MEMORIES[memory], quick=True)


@pytest.mark.parametrize("memory", ["ideal", "slow_responses"])
@pytest.mark.parametrize("config", QUEUES)
def test_queued_jobs(config, memory, tmp_path):
    cosim.run(
        "tests.cosim.bench_queue",
        QUEUES[config],
        tmp_path,
        memory=MEMORIES[memory],
        parameters={"ideal": memory == "ideal" and config == "one_channel"},
        quick=True,
    )


def test_the_host_driver_runs_within_a_testbench(tmp_path):
    cosim.run("tests.cosim.bench_driver", CONFIG, tmp_path, memory=MEMORIES["ideal"])
