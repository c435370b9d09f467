"""How long a job takes from its acceptance to its first read address: `start_clocks`."""

import random

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring

from hw.config import HeadConfig
from hw.plan import TilePlan
from hw.reader import Reader
from hw.stream_control import StreamControl, start_clocks

from .job_machine import arguments
from .streams import simulate

SMALL = {"bus_bits": 64, "max_dim": 256, "max_rows": 5000}
CONFIGS = {
    "one": HeadConfig(**SMALL),
    "bias": HeadConfig(**SMALL, bias=True, logsumexp=True),
    "mask": HeadConfig(**SMALL, mask=True),
    "queue": HeadConfig(**SMALL, job_queue=True),
    "batch": HeadConfig(**SMALL, batch=5),
    "batch of tiles of no power of two": HeadConfig(**SMALL, batch=3, tile_rows=24),
    "channels": HeadConfig(**SMALL, channels=2),
    "channels, batch": HeadConfig(**SMALL, channels=4, batch=16),
    "channels, batch, tiles": HeadConfig(**SMALL, channels=2, batch=6, tile_rows=40, mask=True),
}


class Stage(Elaboratable):
    """The first stage of jobs with its plan and its readers."""

    def __init__(self, config):
        self.config = config
        self.control = StreamControl(config)
        self.plan = TilePlan(config)
        self.readers = [Reader(config) for _ in range(config.channels)]

    def elaborate(self, platform):
        m = Module()
        m.submodules.control = control = self.control
        m.submodules.plan = plan = self.plan
        m.d.comb += [
            control.finish_idle.eq(1),
            plan.start.eq(control.start_plan),
            control.hidden_ready.eq(plan.hidden_ready),
            control.plan_ready.eq(plan.ready),
            control.plan.eq(plan.plan),
        ]
        for name in ("rows", "dim", "vectors"):
            m.d.comb += getattr(plan, name).eq(getattr(control, name))
        for number, reader in enumerate(self.readers):
            m.submodules[f"reader{number}"] = reader
            wiring.connect(m, getattr(control, f"read{number}"), reader.command)
            m.d.comb += [reader.arready.eq(1), control.read_idle[number].eq(reader.idle)]
        return m


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_first_address_comes_after_start_clocks(config):
    rng = random.Random(3)
    for vectors in sorted({1, 2, config.batch // 2 + 1, config.batch} & {*range(config.batch + 1)}):
        stage = Stage(config)

        async def bench(ctx, stage=stage, vectors=vectors):
            control = stage.control
            job = arguments(config, rng, vectors=vectors) | ({"flags": 0} if config.mask else {})
            ctx.set(control.job.payload, job)
            ctx.set(control.job.valid, 1)
            await ctx.tick().until(control.job.ready)
            ctx.set(control.job.valid, 0)
            first = [None] * config.channels
            for clock in range(200):
                for number, reader in enumerate(stage.readers):
                    if first[number] is None and ctx.get(reader.arvalid):
                        first[number] = clock
                await ctx.tick()
            channels = range(config.channels)
            assert first == [start_clocks(config, vectors, channel) for channel in channels]

        simulate(stage, bench)
