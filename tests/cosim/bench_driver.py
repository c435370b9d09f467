"""cocotb test of the host driver, unchanged, within a testbench; run by test_cases.py."""

from pathlib import Path

import cocotb
import numpy as np

from host.checks.verify import golden_results, mismatches
from host.driver import Head, JobError, JobTimeout
from host.image import save_image
from hw.status import Status
from sim.cosim import CocotbDevice, bench
from sim.memory.model import Faults
from tests.cosim.heads import random_head

CONFIG = bench().config


@cocotb.test()
async def the_host_driver_runs_within_a_testbench(dut):
    packed = random_head(CONFIG, 30, 50, np.random.default_rng(0))
    path = Path("head.safetensors")
    image = save_image(path, CONFIG, packed.weights, packed.scales, weight_scale=2.0**-20)
    hidden = np.random.default_rng(3).normal(size=(3, packed.layout.dim))
    async with CocotbDevice(dut) as device:
        head = await device.call(Head, device, image)
        results = await device.call(head.run, hidden, 8)
        assert not len(mismatches(results, *golden_results(image, hidden, 8, CONFIG.hidden_bits)))
        device.port.set_faults(Faults(read_beats=(5,)))
        try:
            await device.call(head.run, hidden, 8)
        except JobError as error:
            assert error.status == Status.READ
        else:
            raise AssertionError("no error")
        device.port.set_faults(Faults(dead=("r",)))
        try:
            await device.call(lambda: head.run(hidden, 8, deadline_cycles=3000))
        except JobTimeout as error:
            assert "call soft_reset() before the next job" in str(error)
        else:
            raise AssertionError("no timeout")
        device.port.set_faults(Faults())
        await device.call(head.soft_reset)
        results = await device.call(head.run, hidden, 8)
        assert not len(mismatches(results, *golden_results(image, hidden, 8, CONFIG.hidden_bits)))
