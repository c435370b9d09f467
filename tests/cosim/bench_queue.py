"""cocotb tests of jobs that overlap, in a build with a job queue; run by test_cases.py."""

from dataclasses import replace

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from hw.register_map import OFFSETS, Control
from hw.status import Status
from sim.cosim import CocotbDevice, bench
from tests.cosim.heads import random_head
from tests.cosim.jobs import (
    Job,
    acknowledge,
    check,
    finish,
    load,
    run,
    untouched,
    write_arguments,
)

CONFIG = bench().config


def some_job(seed: int, rows: int | None = None, dim: int | None = None) -> Job:
    """A job of any shape with any functions."""
    rng = np.random.default_rng(seed)
    rows = rows or int(rng.integers(1, 100))
    dim = dim or int(rng.integers(1, 60))
    vectors = int(rng.integers(1, CONFIG.batch + 1))
    head = random_head(CONFIG, rows, dim, rng, vectors=vectors)
    masked = CONFIG.mask and rng.random() < 0.6
    return Job(
        head,
        int(rng.integers(1, CONFIG.k + 1)),
        allowed=rng.random((vectors, rows)) < rng.random() if masked else None,
        logits=CONFIG.all_logits and bool(rng.random() < 0.4),
    ).placed(seed % 8)


async def run_queue(device, jobs: list[Job], failing: int | None = None) -> list:
    """Outcomes of jobs that are offered as early as can be; of the one that fails its status."""
    waiting, running, outcomes = list(jobs), [], []
    while waiting or running:
        if waiting and not await device.read(OFFSETS["CONTROL"]) & Control.START:
            job = waiting.pop(0)
            await write_arguments(device, job)
            await device.write(OFFSETS["CONTROL"], Control.START)
            running.append(job)
        elif await device.interrupted(30 if waiting else 1_000_000):
            job = running.pop(0)
            if len(outcomes) == failing:
                outcomes.append(await device.read(OFFSETS["STATUS"]))
                await acknowledge(device)
            else:
                outcomes.append(await finish(device, job))
        else:
            assert waiting, "no interrupt"
    return outcomes


def check_all(device, jobs, outcomes) -> None:
    for number, (job, result) in enumerate(zip(jobs, outcomes, strict=True)):
        check(device, job, result, alone=False)
        counted = result.trailer_counters(CONFIG)
        assert counted["rows"] == job.head.layout.rows * job.count, number
        assert counted["insertions"] == job.insertions(), number
        for channel in range(CONFIG.channels):
            assert counted[f"data_beats{channel}"] == job.read_beats(channel), number
        assert result.trailer_job == outcomes[0].trailer_job + number
    for port in device.ports:
        assert port.violations() == []


@cocotb.test()
async def overlapping_jobs_are_all_right(dut):
    async with CocotbDevice(dut) as device:
        for first in range(0, 40, 8):
            jobs = [some_job(first + n) for n in range(8)]
            for job in jobs:
                await load(device, job)
            check_all(device, jobs, await run_queue(device, jobs))


@cocotb.test()
async def jobs_that_follow_each_other_take_no_longer_than_their_beats(dut):
    async with CocotbDevice(dut) as device:
        rng = np.random.default_rng(3)
        head = random_head(CONFIG, 64 * CONFIG.tile_rows, 60, rng)
        jobs = [Job(head, CONFIG.k).placed(n) for n in range(8)]
        for job in jobs:
            await load(device, job)
        before = device.cycles
        outcomes = await run_queue(device, jobs)
        cycles = device.cycles - before
        check_all(device, jobs, outcomes)
        if bench().parameters["ideal"]:
            beats = jobs[0].read_beats(0)
            # Or the results would take longer.
            assert CONFIG.k == 64 and beats > 1500
            assert cycles <= 8 * beats * 1.002 + 8 * 100 + 500, (cycles, beats)


@cocotb.test()
async def an_error_in_one_job_leaves_the_others_right(dut):
    async with CocotbDevice(dut) as device:
        ways = {
            Status.ROWS: {"ROWS": 0},
            Status.READ: {"IMAGE0_ADDR": 1 << 62},
            Status.LENGTH: {"IMAGE0_BYTES": 100 * CONFIG.bus_bytes},
            Status.WRITE: {"RESULT_ADDR": 1 << 62},
        }
        for status, wrong in ways.items():
            for place in range(4):
                jobs = [some_job(8 * place + n, rows=30 + n, dim=20) for n in range(4)]
                for job in jobs:
                    await load(device, job)
                offered = list(jobs)
                offered[place] = jobs[place].changed(**wrong)
                outcomes = await run_queue(device, offered, failing=place)
                assert outcomes.pop(place) == status, (status, place)
                assert untouched(device, jobs.pop(place))
                for job, result in zip(jobs, outcomes, strict=True):
                    check(device, job, result, alone=False)
                await device.write(OFFSETS["ERRORS"], 0xFFFF)


@cocotb.test()
async def a_soft_reset_drops_both_jobs(dut):
    async with CocotbDevice(dut) as device:
        for clocks in (1, 20, 60, 100, 150, 200, 300, 500, 800):
            jobs = [replace(some_job(clocks + n, rows=40, dim=30), k=CONFIG.k) for n in range(3)]
            for job in jobs:
                await load(device, job)
            for job in jobs[:2]:
                for _ in range(1000):
                    if not await device.read(OFFSETS["CONTROL"]) & Control.START:
                        break
                await write_arguments(device, job)
                await device.write(OFFSETS["CONTROL"], Control.START)
            await ClockCycles(dut.ap_clk, clocks)
            await device.write(OFFSETS["RESET"], 1)
            for _ in range(2000):
                if not await device.read(OFFSETS["RESET"]):
                    break
            else:
                raise AssertionError("the reset does not end")
            assert await device.read(OFFSETS["CONTROL"]) == Control.IDLE
            assert await device.read(OFFSETS["STATUS"]) == Status.RESET
            assert dut.irq.value == 0
            before = [port.statistics().read_beats for port in device.ports]
            await ClockCycles(dut.ap_clk, 500)
            assert [port.statistics().read_beats for port in device.ports] == before
            assert dut.irq.value == 0
            await device.write(OFFSETS["ERRORS"], 0xFFFF)
            check(device, jobs[2], await run(device, jobs[2]))
            for port in device.ports:
                assert port.violations() == []
