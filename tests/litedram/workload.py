"""Jobs on LiteDRAM's controllers, and what a reader alone gets from the same port."""

import asyncio

from hw.config import HeadConfig
from hw.register_map import OFFSETS, Control
from tests.cosim import jobs
from tests.cosim.heads import RandomHead
from tests.litedram.controller import Controller
from tests.litedram.device import BUS_BITS, LiteDramDevice, Traffic

CONFIG = HeadConfig(bus_bits=BUS_BITS, k=16, max_dim=256, max_rows=4000, all_logits=True)
CONTROLLERS = {
    "ddr3": Controller("MT41K64M16", "DDR3", 2, "A7DDRPHY", 200_000_000),
    "ddr3_without_refresh": Controller("MT41K64M16", "DDR3", 2, "A7DDRPHY", 200_000_000, False),
    "ddr4": Controller("EDY4016A", "DDR4", 2, "USDDRPHY", 300_000_000),
    "sdr": Controller("AS4C16M16", "SDR", 16, "GENSDRPHY", 100_000_000),
}
ADDRESSES = {
    "HIDDEN_ADDR": 0x1000, "IMAGE0_ADDR": 0x10_0000, "RESULT_ADDR": 0x400_0000,
    "LOGITS0_ADDR": 0x500_0000,
}  # fmt: skip
BURST_BYTES = 4096


class Bench:
    """The device as `tests.cosim.jobs` takes it, of which the port's traffic is kept."""

    def __init__(self, device: LiteDramDevice):
        self.device = device
        self.config = device.config
        self.read_memory = device.read_memory
        self.write_memory = device.write_memory
        self.traffic: Traffic | None = None

    async def read(self, offset):
        return self.device.read_register(offset)

    async def write(self, offset, value):
        if (offset, value) == (OFFSETS["CONTROL"], Control.START):
            self.device.clear_traffic()
        self.device.write_register(offset, value)

    async def interrupted(self, cycles):
        self.device.wait_interrupt(cycles)
        # Later on the port is the host's as well, which reads the results.
        self.traffic = self.device.traffic()
        return True


def placed(head: RandomHead, k: int, logits: bool = False) -> jobs.Job:
    """A job within the memory of any of the controllers."""
    return jobs.Job(head, k, logits=logits).changed(**ADDRESSES)


def run(device: LiteDramDevice, job: jobs.Job) -> Traffic:
    """Run a job and check all it leaves behind; what it read over the port."""
    bench = Bench(device)
    outcome = asyncio.run(jobs.run(bench, job))
    jobs.check(bench, job, outcome)
    assert bench.traffic.beats == job.read_beats(0) == outcome.counters["data_beats0"]
    return bench.traffic


def read_alone(device: LiteDramDevice, job: jobs.Job) -> Traffic:
    """Read the image of a job with the sequential reader."""
    size = job.head.layout.channel_bytes(0) // BURST_BYTES * BURST_BYTES
    return device.read_sequentially(job.argument("IMAGE0_ADDR"), size)
