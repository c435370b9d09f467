"""The accelerator on a controller of others: LiteDRAM's, with LiteDRAM's model of the memory.

What is read, what comes out and how fast must not depend on a memory model of our own.
"""

import asyncio

import numpy as np
import pytest

from host.checks.verify import golden_results, mismatches
from host.device import Device
from host.driver import Head
from host.image import save_image
from hw.config import HeadConfig
from hw.register_map import OFFSETS
from tests.cosim import jobs
from tests.cosim.heads import random_head
from tests.litedram.device import LiteDramDevice
from tests.litedram.workload import (
    BURST_BYTES,
    CONFIG,
    CONTROLLERS,
    Bench,
    placed,
    read_alone,
    run,
)

pytestmark = pytest.mark.litedram

LEAST_SHARE = 0.99
"""Of what the sequential reader gets from the same port."""


# A device for each test, so that refreshes fall the same whichever tests are run.
@pytest.fixture(params=CONTROLLERS)
def device(request):
    with LiteDramDevice(CONFIG, CONTROLLERS[request.param]) as device:
        yield device


def test_the_memory_keeps_what_is_written(device):
    rng = np.random.default_rng(3)
    # The range crosses rows and banks, and the writes begin and end within beats.
    base, size = 0x20_0000 - 0x1_0000, 0x2_0000
    content = rng.integers(0, 256, size, np.uint8)
    device.write_memory(base, content)
    for _ in range(40):
        start = int(rng.integers(0, size))
        data = rng.integers(0, 256, int(rng.integers(1, min(9000, size - start + 1))), np.uint8)
        device.write_memory(base + start, data)
        content[start : start + data.size] = data
        start = int(rng.integers(0, size))
        stop = int(rng.integers(start, size)) + 1
        assert (device.read_memory(base + start, stop - start) == content[start:stop]).all()
    assert (device.read_memory(base, size) == content).all()


@pytest.mark.parametrize(
    ("rows", "dim", "k", "ties"), [(3000, 256, 16, False), (4000, 160, 8, True)]
)
def test_jobs_are_exact_and_as_fast_as_reading(device, rows, dim, k, ties):
    head = random_head(CONFIG, rows, dim, np.random.default_rng(rows), ties=ties)
    job = placed(head, k)
    traffic = run(device, job)
    alone = read_alone(device, job)
    assert traffic.rate >= LEAST_SHARE * alone.rate, (traffic, alone)


def test_every_score_is_exact_while_they_are_written(device):
    run(device, placed(random_head(CONFIG, 2000, 128, np.random.default_rng(9)), 16, logits=True))


def test_the_driver_runs_on_it(device, tmp_path):
    rng = np.random.default_rng(5)
    weights, scales = rng.integers(-128, 128, (700, 96)), rng.integers(1, 1 << 16, (700, 3))
    hidden = rng.normal(size=(2, 96))
    image = save_image(tmp_path / "head.safetensors", CONFIG, weights, scales, 1e-6)
    assert isinstance(device, Device)
    results = Head(device, image).run(hidden, 16)
    assert not len(mismatches(results, *golden_results(image, hidden, 16, CONFIG.hidden_bits)))


def test_the_port_is_not_taken_from_a_job(device):
    job = placed(random_head(CONFIG, 500, 64, np.random.default_rng(7)), 4)
    bench = Bench(device)
    asyncio.run(jobs.load(bench, job))
    asyncio.run(jobs.start(bench, job))
    for _ in range(5):
        device.read_register(OFFSETS["STATUS"])
    with pytest.raises(RuntimeError, match="a job is reading or writing"):
        device.read_memory(job.argument("IMAGE0_ADDR"), 16)
    outcome = asyncio.run(jobs.finish(bench, job))
    jobs.check(bench, job, outcome)


def test_an_address_beyond_the_memory_is_noticed(device):
    with pytest.raises(RuntimeError, match="beyond the end of the memory"):
        device.read_sequentially(device.memory_bytes, BURST_BYTES)
    with pytest.raises(ValueError, match="not in the memory"):
        device.read_memory(device.memory_bytes - 8, 16)


def test_the_port_has_128_bits():
    with pytest.raises(ValueError, match="one port of 128 bits is connected"):
        LiteDramDevice(HeadConfig(bus_bits=256), CONTROLLERS["ddr3"])
