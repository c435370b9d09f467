"""The accelerator between cocotbext-axi's memory and master, which share no code with ours."""

import pytest

from hw.config import HeadConfig
from sim import cosim

CONFIGS = {
    "64_bits": HeadConfig(bus_bits=64, k=8, max_dim=200, max_rows=100, max_burst=16),
    "512_bits": HeadConfig(
        bus_bits=512, weight_bits=4, scale_signed=True, fold=2, k=17, max_dim=500, max_rows=70000
    ),
    "two_channels_that_write": HeadConfig(
        bus_bits=128, k=5, tile_rows=16, max_dim=200, max_rows=100, channels=2, batch=3, bias=True,
        mask=True, all_logits=True, logsumexp=True, job_queue=True,
    ),
    "two_channels": HeadConfig(
        bus_bits=128, k=5, tile_rows=16, max_dim=200, max_rows=100, channels=2, batch=2, bound=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_axi(name, tmp_path):
    cosim.run("tests.cosim.bench_axi", CONFIGS[name], tmp_path, connect_memory=False)
