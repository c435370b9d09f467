"""Resets and faults at any clock on whole accelerators of unusual builds."""

import pytest

from hw.config import HeadConfig
from sim import cosim
from sim.memory import MemoryModel
from sim.memory.model import Stalls

EVERYTHING = {
    "bias": True,
    "bound": True,
    "mask": True,
    "all_logits": True,
    "logsumexp": True,
    "bus_bits": 64,
    "width": 4,
    "max_burst": 16,
    "max_dim": 64,
    "max_rows": 500,
    "batch": 3,
}
BUILDS = {
    "everything": HeadConfig(**EVERYTHING, k=8, tile_rows=12),
    "queued": HeadConfig(**EVERYTHING, k=5, tile_rows=4, channels=2, rankers=2, job_queue=True),
    "smallest-bursts": HeadConfig(
        bus_bits=64,
        weight_bits=16,
        width=4,
        group=0,
        k=1,
        max_burst=1,
        outstanding_bytes=64,
        mask=True,
        all_logits=True,
        tile_rows=1,
        max_dim=40,
        max_rows=40,
        channels=4,
        batch=2,
        rankers=2,
        fold=4,
    ),
    "folded": HeadConfig(
        bus_bits=128,
        weight_bits=4,
        width=4,
        k=256,
        fold=8,
        max_burst=256,
        outstanding_bytes=1 << 13,
        bias=True,
        logsumexp=True,
        tile_rows=16,
        max_dim=40,
        max_rows=40,
        batch=5,
        rankers=4,
        job_queue=True,
        insert_interval=6,
    ),
}
MEMORIES = {
    "ideal": MemoryModel(),
    "slow": MemoryModel(
        latency_cycles=20,
        idle_garbage=True,
        write_order="data_first",
        max_outstanding=3,
        write_latency_cycles=30,
        stalls=Stalls.everywhere(0.2, 3, 5),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("build", BUILDS)
def test_no_reset_or_fault_touches_the_next_job(build, memory, tmp_path):
    cosim.run(
        "tests.cosim.bench_faults", BUILDS[build], tmp_path, memory=MEMORIES[memory], quick=True
    )
