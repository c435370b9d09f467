"""cocotb tests on a random configuration; run by test_random.py."""

import cocotb
import numpy as np

from sim.cosim import CocotbDevice, bench
from tests.cosim.jobs import IMAGE_ADDRESS, Job, check, random_head, run
from tests.cosim.monitor import Monitor


@cocotb.test()
async def every_job_is_bit_exact_and_every_counter_recounted(dut):
    setup = bench().parameters["setup"]
    config = setup.config
    rng = np.random.default_rng(setup.seed)
    shapes = [
        (setup.rows, setup.dim, config.k, False),
        (int(rng.integers(1, setup.rows + 1)), int(rng.integers(1, setup.dim + 1)), 1, True),
        (min(setup.rows, 40), min(setup.dim, 70), int(rng.integers(1, config.k + 1)), True),
    ]
    async with CocotbDevice(dut) as device:
        for number, (rows, dim, k, ties) in enumerate(shapes, 1):
            head = random_head(config, rows, dim, rng, ties=ties)
            # Anywhere on the bus's own alignment, so that bursts meet 4 KiB boundaries.
            address = IMAGE_ADDRESS + config.bus_bytes * int(rng.integers(0, 4096))
            job = Job(head, k, {"IMAGE_ADDR": address})
            monitor = Monitor(device)
            # At worst a burst is one beat and the next waits for it.
            deadline = 100_000 + 4 * head.layout.beats * (bench().memory.latency_cycles + 20)
            result = await run(device, job, deadline)
            check(job, result)
            assert result.trailer_job == number
            recounted = await monitor.counters()
            recounted |= {"rows": rows, "insertions": head.insertions(k)}
            assert recounted == result.counters
            assert monitor.rready_low == 0
            image_beats = len(head.hidden_bytes()) // config.bus_bytes + head.layout.beats
            assert monitor.beats == image_beats
            assert device.port.violations() == []
