"""cocotb tests on a random configuration; run by test_random.py."""

import cocotb
import numpy as np

from sim.cosim import CocotbDevice, bench
from tests.cosim.heads import random_head
from tests.cosim.jobs import (
    CHANNEL_STEP,
    HIDDEN_ADDRESS,
    IMAGE_ADDRESS,
    LOGITS_ADDRESS,
    MASK_ADDRESS,
    RESULT_ADDRESS,
    Job,
    check,
    run,
)
from tests.cosim.monitor import Monitor


def random_mask(rng, vectors: int, rows: int) -> np.ndarray:
    """A mask for each vector: empty, full, of one row, or of few, half or most rows."""
    densities = (0, 1, 1 / rows, 0.1, 0.5, 0.97)
    allowed = rng.random((vectors, rows)) < rng.choice(densities, (vectors, 1))
    if rng.random() < 0.5:
        allowed[:, rng.integers(rows)] = True
    return allowed


def random_job(setup, rng, rows: int, dim: int, k: int, vectors: int, ties: bool) -> Job:
    """A job with any of the functions that are built, its data anywhere on the bus's alignment."""
    config = setup.config
    head = random_head(config, rows, dim, rng, vectors=vectors, ties=ties)

    def near(address):
        # So that bursts meet 4 KiB boundaries.
        return address + config.bus_bytes * int(rng.integers(0, 4096))

    arguments = {"HIDDEN_ADDR": near(HIDDEN_ADDRESS), "RESULT_ADDR": near(RESULT_ADDRESS)}
    for channel in range(config.channels):
        offset = channel * CHANNEL_STEP
        arguments[f"IMAGE{channel}_ADDR"] = near(IMAGE_ADDRESS + offset)
        if config.mask:
            arguments[f"MASK{channel}_ADDR"] = near(MASK_ADDRESS + offset)
        if config.all_logits:
            arguments[f"LOGITS{channel}_ADDR"] = near(LOGITS_ADDRESS + offset)
    masked = config.mask and rng.random() < 0.8
    return Job(
        head,
        k,
        arguments,
        allowed=random_mask(rng, vectors, rows) if masked else None,
        logits=config.all_logits and bool(rng.random() < 0.7),
    )


def random_jobs(setup, rng):
    """A job of the largest shape and batch, then smaller ones."""
    config = setup.config
    yield random_job(setup, rng, setup.rows, setup.dim, config.k, config.batch, False)
    for ties in (True, True, False):
        yield random_job(
            setup,
            rng,
            rows=int(rng.integers(1, min(setup.rows, 120) + 1)),
            dim=int(rng.integers(1, min(setup.dim, 100) + 1)),
            k=int(rng.integers(1, config.k + 1)),
            vectors=int(rng.integers(1, config.batch + 1)),
            ties=ties,
        )


@cocotb.test()
async def every_job_is_bit_exact_and_every_counter_recounted(dut):
    setup = bench().parameters["setup"]
    config = setup.config
    rng = np.random.default_rng(setup.seed)
    async with CocotbDevice(dut) as device:
        for number, job in enumerate(random_jobs(setup, rng), 1):
            monitor = Monitor(device, job)
            # At worst a burst is one beat and the next waits for it.
            beats = sum(job.read_beats(channel) for channel in range(config.channels))
            words = job.head.layout.rows * job.count
            deadline = 200_000 + 4 * (beats + words) * (bench().memory.latency_cycles + 20)
            result = await run(device, job, deadline)
            check(device, job, result)
            assert result.trailer_job == number
            await monitor.check(job, result.counters)
            for channel, watched in enumerate(monitor.channels):
                assert watched.rready_low == 0
                assert watched.beats == job.read_beats(channel)
                assert device.ports[channel].violations() == []
