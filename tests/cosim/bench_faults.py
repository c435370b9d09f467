"""Jobs that a reset, a wrong length or a bus error ends at any clock, and those behind them."""

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from hw.register_map import OFFSETS, Control
from hw.status import Status
from sim.cosim import CocotbDevice, bench
from tests.cosim.heads import random_head
from tests.cosim.jobs import Job, check, load, run, start, write_arguments

CONFIG = bench().config
RESETS, FAULTS = 200, 120
POLLS = 3000
DEADLINE = 60_000
NOWHERE = 1 << 62


def some_job(seed: int) -> Job:
    """A small job of random size, with a mask and all scores where they are built."""
    rng = np.random.default_rng(seed)
    rows, dim = (int(size) for size in rng.integers(1, 40, 2))
    vectors = int(rng.integers(1, CONFIG.batch + 1))
    head = random_head(CONFIG, rows, dim, rng, vectors=vectors)
    masked = CONFIG.mask and rng.random() < 0.7
    return Job(
        head,
        int(rng.integers(1, CONFIG.k + 1)),
        allowed=rng.random((vectors, rows)) < rng.random() if masked else None,
        logits=CONFIG.all_logits and bool(rng.random() < 0.7),
    ).placed(seed % 8)


async def until_low(device, register: str, bits: int, what: str) -> None:
    for _ in range(POLLS):
        if not await device.read(OFFSETS[register]) & bits:
            return
    raise AssertionError(what)


async def the_next_job_is_right(device, job: Job, what: str) -> None:
    await device.write(OFFSETS["ERRORS"], 0xFFFF)
    try:
        check(device, job, await run(device, job, DEADLINE))
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error
    for port in device.ports:
        assert port.violations() == [], what


@cocotb.test()
async def a_soft_reset_at_any_clock_leaves_nothing_behind(dut):
    async with CocotbDevice(dut) as device:
        rng = np.random.default_rng(5)
        for number in range(RESETS):
            jobs = [some_job(3 * number + index) for index in range(3)]
            for job in jobs:
                await load(device, job)
            for job in jobs[: 2 if CONFIG.job_queue else 1]:
                await until_low(device, "CONTROL", Control.START, "a job is not accepted")
                await write_arguments(device, job)
                await device.write(OFFSETS["CONTROL"], Control.START)
            longest = int(rng.choice([40, 200, 900]))
            await ClockCycles(dut.ap_clk, int(rng.integers(1, longest)))
            await device.write(OFFSETS["RESET"], 1)
            await until_low(device, "RESET", 1, f"reset {number} does not end")
            assert await device.read(OFFSETS["CONTROL"]) == Control.IDLE
            await the_next_job_is_right(device, jobs[2], f"behind reset {number}")


def faulty(job: Job, rng) -> tuple[Job, Status] | None:
    """The job with a wrong length or address, and the status it ends with; None if it has none."""
    channel = int(rng.integers(CONFIG.channels))
    name = f"IMAGE{channel}_BYTES"
    beats = job.argument(name) // CONFIG.bus_bytes
    kind = rng.integers(3)
    if kind == 0:
        return job.changed(**{name: (beats + int(rng.integers(1, 40))) * CONFIG.bus_bytes}), (
            Status.LENGTH
        )
    if kind == 1:
        if beats < 2:
            return None
        fewer = int(rng.integers(0 if channel else 1, beats))
        return job.changed(**{name: fewer * CONFIG.bus_bytes}), Status.LENGTH
    read = [f"IMAGE{c}" for c in range(CONFIG.channels) if job.argument(f"IMAGE{c}_BYTES")]
    if job.allowed is not None:
        layout = job.head.layout
        read += [f"MASK{c}" for c in range(CONFIG.channels) if layout.mask_beats(c, job.count)]
    return job.changed(**{f"{rng.choice(['HIDDEN', *read])}_ADDR": NOWHERE}), Status.READ


@cocotb.test()
async def a_wrong_length_or_address_does_not_touch_the_next_job(dut):
    async with CocotbDevice(dut) as device:
        rng = np.random.default_rng(6)
        for number in range(FAULTS):
            job, following = some_job(1000 + number), some_job(5000 + number)
            await load(device, job)
            await load(device, following)
            found = faulty(job, rng)
            if found is None:
                continue
            bad, status = found
            await start(device, bad)
            assert await device.interrupted(DEADLINE), f"fault {number} does not end"
            assert await device.read(OFFSETS["STATUS"]) == status, f"fault {number}"
            await device.write(OFFSETS["ISR"], 1)
            await device.write(OFFSETS["CONTROL"], Control.CONTINUE)
            await the_next_job_is_right(device, following, f"behind fault {number}")
