"""Job hand-over, status, interrupt and soft reset, through the AXI4-Lite pins."""

import random

import pytest

from hw.axi import RESP_OKAY, RESP_SLVERR
from hw.config import HeadConfig
from hw.register_map import OFFSETS, Control, Error, Event, registers
from hw.registers import Registers, job_layout
from hw.status import Status

from .lite_master import ORDERS, Master, handshake, run
from .streams import simulate, wait

ARGUMENTS = {
    "rows": ("ROWS",),
    "dim": ("DIM",),
    "k": ("K",),
    "vectors": ("VECTORS",),
    "format": ("IMAGE_FORMAT",),
    "hidden_address": ("HIDDEN_ADDR_LO", "HIDDEN_ADDR_HI"),
    "result_address": ("RESULT_ADDR_LO", "RESULT_ADDR_HI"),
    "image0_address": ("IMAGE0_ADDR_LO", "IMAGE0_ADDR_HI"),
    "image0_bytes": ("IMAGE0_BYTES_LO", "IMAGE0_BYTES_HI"),
}
"""Registers of each field of a job, the low word first."""

MORE_ARGUMENTS = {
    "flags": ("FLAGS",),
    "image1_address": ("IMAGE1_ADDR_LO", "IMAGE1_ADDR_HI"),
    "image1_bytes": ("IMAGE1_BYTES_LO", "IMAGE1_BYTES_HI"),
    "mask0_address": ("MASK0_ADDR_LO", "MASK0_ADDR_HI"),
    "mask1_address": ("MASK1_ADDR_LO", "MASK1_ADDR_HI"),
    "logits0_address": ("LOGITS0_ADDR_LO", "LOGITS0_ADDR_HI"),
    "logits1_address": ("LOGITS1_ADDR_LO", "LOGITS1_ADDR_HI"),
}
"""Those that two channels, masks and logits add."""

FULL = HeadConfig(channels=2, mask=True, all_logits=True, job_queue=True)


async def pulse(ctx, signal):
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def accept(ctx, dut):
    """Take the job on offer."""
    ctx.set(dut.start.ready, 1)
    (job,) = await ctx.tick().sample(dut.start.payload).until(dut.start.valid)
    ctx.set(dut.start.ready, 0)
    ctx.set(dut.idle, 0)
    return job


async def end(ctx, dut, status=Status.OK):
    """End the job that runs."""
    ctx.set(dut.status, status)
    await pulse(ctx, dut.done)
    ctx.set(dut.status, 0xFF)
    ctx.set(dut.idle, 1)


async def run_job(ctx, dut, master, status=Status.OK):
    """A whole job, DONE acknowledged."""
    await master.put(ctx, "CONTROL", Control.START)
    await accept(ctx, dut)
    await end(ctx, dut, status)
    await master.put(ctx, "CONTROL", Control.CONTINUE)


@pytest.mark.parametrize(
    "config, fields",
    [(HeadConfig(), ARGUMENTS), (FULL, ARGUMENTS | MORE_ARGUMENTS)],
    ids=["base", "full"],
)
def test_a_job_carries_every_argument_in_its_field(config, fields):
    rng = random.Random(7)
    assert set(fields) == set(job_layout(config).members)
    names = [register.name for register in registers(config).arguments]
    assert sorted(sum(fields.values(), ())) == sorted(names)

    async def bench(ctx, dut, master):
        words = {name: rng.getrandbits(32) for name in names}
        for name, value in words.items():
            await master.put(ctx, name, value)
        await master.put(ctx, "CONTROL", Control.START)
        job = await accept(ctx, dut)
        for field, parts in fields.items():
            value = sum(words[name] << 32 * index for index, name in enumerate(parts))
            assert job[field] == value, field
        # The next job's arguments may be written while this one runs.
        await master.put(ctx, "ROWS", 5)
        assert await master.get(ctx, "ROWS") == 5
        assert await master.get(ctx, names[-1]) == words[names[-1]]

    run(bench, config)


def test_a_waiting_job_cannot_be_changed():
    async def bench(ctx, dut, master):
        await master.put(ctx, "DIM", 576)
        await master.put(ctx, "CONTROL", Control.START)
        assert await master.write(ctx, "DIM", 1) == RESP_SLVERR
        assert await master.get(ctx, "DIM") == 576
        assert (await accept(ctx, dut)).dim == 576
        assert await master.write(ctx, "DIM", 1) == RESP_OKAY

    run(bench)


@pytest.mark.parametrize("order", ORDERS)
def test_an_idle_accelerator_accepts_at_the_third_edge_after_the_write(order):
    edges = {}

    def watch(dut):
        async def run(ctx):
            pins = [*handshake(dut, "aw"), *handshake(dut, "w")]
            cycle = 0
            async for _, _, aw, awready, w, wready, valid in ctx.tick().sample(
                *pins, dut.start.valid
            ):
                for name, happens in (("aw", aw and awready), ("w", w and wready)):
                    if happens:
                        edges[name] = cycle
                if valid:
                    edges.setdefault("start", cycle)
                cycle += 1

        return run

    async def bench(ctx, dut, master):
        ctx.set(dut.start.ready, 1)
        await master.write(ctx, "CONTROL", Control.START, order=order)
        await wait(ctx, 3)
        assert edges["start"] == max(edges["aw"], edges["w"]) + 3

    run(bench, kind="random", background=[watch])


@pytest.mark.parametrize("delay", range(12))
def test_a_polled_done_bit_is_clear_from_the_start_until_this_job_ends(delay):
    """Case 31: after an earlier job, polling that begins at any clock around the start."""
    dut = Registers(HeadConfig())
    started = []
    ended = []

    async def driver(ctx):
        ctx.set(dut.idle, 1)
        master = Master(dut)
        await master.put(ctx, "CONTROL", Control.START)
        await accept(ctx, dut)
        await end(ctx, dut)
        # Acknowledging the last job and starting the next is one write.
        assert await master.get(ctx, "CONTROL") & Control.DONE
        started.append(True)
        await master.put(ctx, "CONTROL", Control.START | Control.CONTINUE)
        await accept(ctx, dut)
        await wait(ctx, 25)
        ended.append(True)
        await end(ctx, dut)

    async def poll(ctx):
        while not started:
            await ctx.tick()
        master = Master(dut)
        await wait(ctx, 1 + delay)
        polls = 0
        while not await master.get(ctx, "CONTROL") & Control.DONE:
            polls += 1
        assert ended and polls >= 3

    simulate(dut, driver, poll)


def test_done_is_held_until_continue_and_holds_back_the_next_job():
    async def bench(ctx, dut, master):
        await master.put(ctx, "CONTROL", Control.START)
        assert await master.get(ctx, "CONTROL") == Control.START
        await accept(ctx, dut)
        assert await master.get(ctx, "CONTROL") == Control.READY
        await master.put(ctx, "CONTROL", Control.CONTINUE)  # nothing to acknowledge yet
        await master.put(ctx, "CONTROL", Control.START)  # queues behind the job that runs
        assert await master.get(ctx, "CONTROL") == Control.START
        ctx.set(dut.start.ready, 1)
        await wait(ctx, 5)
        assert ctx.get(dut.start.valid) == 0
        await end(ctx, dut)
        await wait(ctx, 5)
        assert ctx.get(dut.start.valid) == 0
        assert await master.get(ctx, "CONTROL") == Control.START | Control.DONE
        ctx.set(dut.start.ready, 0)
        await master.put(ctx, "CONTROL", Control.CONTINUE)
        assert await master.get(ctx, "CONTROL") == Control.START
        await accept(ctx, dut)
        await end(ctx, dut)
        control = Control.DONE | Control.IDLE | Control.READY
        assert await master.get(ctx, "CONTROL") == control
        assert await master.get(ctx, "JOBS") == 2

    run(bench)


def test_a_byte_that_is_not_strobed_starts_nothing():
    async def bench(ctx, dut, master):
        for name in ("CONTROL", "RESET", "GIE", "IER", "ISR"):
            assert await master.write(ctx, name, 0xFFFF_FFFF, strobe=0b1110) == RESP_OKAY
        assert await master.get(ctx, "CONTROL") == Control.IDLE
        for name in ("RESET", "GIE", "IER", "ISR"):
            assert await master.get(ctx, name) == 0

    run(bench)


def test_a_start_while_start_is_set_is_ignored_with_a_sticky_error():
    async def bench(ctx, dut, master):
        await master.put(ctx, "CONTROL", Control.START)
        assert await master.get(ctx, "ERRORS") == 0
        await master.put(ctx, "CONTROL", Control.START)
        assert await master.get(ctx, "ERRORS") == Error.START
        await accept(ctx, dut)
        await end(ctx, dut)
        await master.put(ctx, "CONTROL", Control.CONTINUE)
        assert await master.get(ctx, "CONTROL") == Control.IDLE | Control.READY  # one job, not two
        assert await master.get(ctx, "ERRORS") == Error.START
        await master.put(ctx, "ERRORS", 0)
        assert await master.get(ctx, "ERRORS") == Error.START
        await master.put(ctx, "ERRORS", Error.START)
        assert await master.get(ctx, "ERRORS") == 0

    run(bench)


@pytest.mark.parametrize("delay", range(6))
def test_a_start_near_the_clock_of_acceptance_is_taken_or_reported(delay):
    """The waiting job is accepted at each clock around the write of another start."""

    async def bench(ctx, dut, master):
        await master.put(ctx, "CONTROL", Control.START)
        ctx.set(dut.bready, 1)
        ctx.set(dut.awaddr, OFFSETS["CONTROL"])
        ctx.set(dut.wdata, Control.START)
        ctx.set(dut.wstrb, 0xF)
        for clock in range(8):
            ctx.set(dut.awvalid, clock == 0)
            ctx.set(dut.wvalid, clock == 0)
            ctx.set(dut.start.ready, clock == delay)
            await ctx.tick()
        # The write acts at the edge of clock 2, when START is clear only if accepted before.
        again = delay < 2
        assert await master.get(ctx, "ERRORS") == (0 if again else Error.START)
        assert await master.get(ctx, "CONTROL") & Control.START == (Control.START if again else 0)

    run(bench)


def test_every_status_sets_its_sticky_error_bit():
    async def bench(ctx, dut, master):
        errors = 0
        for jobs, status in enumerate(Status):
            await run_job(ctx, dut, master, status)
            errors |= 1 << status if status else 0
            assert await master.get(ctx, "STATUS") == status
            assert await master.get(ctx, "ERRORS") == errors
            assert await master.get(ctx, "JOBS") == ctx.get(dut.jobs) == jobs + 1
        await master.put(ctx, "ERRORS", Error.DIM | Error.RESET)
        errors &= ~(Error.DIM | Error.RESET)
        # The upper byte alone.
        assert await master.write(ctx, "ERRORS", 0xFFFF, strobe=0b0010) == RESP_OKAY
        assert await master.get(ctx, "ERRORS") == errors & 0xFF

    run(bench)


@pytest.mark.parametrize("delay", range(4))
def test_events_win_over_writes_of_the_same_clock(delay):
    """A job ends at each clock around the write that clears its error and toggles its event."""

    async def bench(ctx, dut, master):
        await master.put(ctx, "IER", Event.DONE)
        await run_job(ctx, dut, master, Status.READ)
        await master.put(ctx, "ISR", Event.DONE)
        await run_job(ctx, dut, master, Status.READ)
        assert await master.get(ctx, "ERRORS") == Error.READ
        for name, value in (("ERRORS", Error.READ), ("ISR", Event.DONE)):
            await master.put(ctx, "CONTROL", Control.START)
            await accept(ctx, dut)
            ctx.set(dut.bready, 1)
            ctx.set(dut.awaddr, OFFSETS[name])
            ctx.set(dut.wdata, value)
            ctx.set(dut.wstrb, 0xF)
            for clock in range(8):
                ctx.set(dut.awvalid, clock == 0)
                ctx.set(dut.wvalid, clock == 0)
                ctx.set(dut.done, clock == delay)
                ctx.set(dut.status, Status.READ)
                await ctx.tick()
            ctx.set(dut.bready, 0)
            ctx.set(dut.idle, 1)
            # The write acts at the edge of clock 2: what has happened before is cleared.
            assert await master.get(ctx, name) == (value if delay >= 2 else 0)
            await master.put(ctx, name, await master.get(ctx, name))
            await master.put(ctx, "CONTROL", Control.CONTINUE)

    run(bench)


def test_the_interrupt_follows_enables_and_toggled_status():
    async def bench(ctx, dut, master):
        await run_job(ctx, dut, master)
        assert await master.get(ctx, "ISR") == 0  # events that are not enabled leave no trace
        await master.put(ctx, "IER", Event.DONE)
        await master.put(ctx, "CONTROL", Control.START)
        await accept(ctx, dut)
        assert await master.get(ctx, "ISR") == 0
        await end(ctx, dut)
        assert await master.get(ctx, "ISR") == Event.DONE
        assert ctx.get(dut.interrupt) == 0
        await master.put(ctx, "GIE", 1)
        await ctx.tick()
        assert ctx.get(dut.interrupt) == 1
        await master.put(ctx, "ISR", Event.DONE)
        await ctx.tick()
        assert ctx.get(dut.interrupt) == 0
        await master.put(ctx, "ISR", Event.READY)  # a toggle also sets
        assert await master.get(ctx, "ISR") == Event.READY
        await master.put(ctx, "ISR", Event.READY)
        await master.put(ctx, "IER", Event.DONE | Event.READY)
        await master.put(ctx, "CONTROL", Control.CONTINUE | Control.START)
        await accept(ctx, dut)
        assert await master.get(ctx, "ISR") == Event.READY

    run(bench)


def test_the_interrupt_rises_one_clock_after_done():
    async def bench(ctx, dut, master):
        await master.put(ctx, "IER", Event.DONE)
        await master.put(ctx, "GIE", 1)
        await master.put(ctx, "CONTROL", Control.START)
        await accept(ctx, dut)
        await end(ctx, dut)
        assert ctx.get(dut.interrupt) == 0
        await ctx.tick()
        assert ctx.get(dut.interrupt) == 1

    run(bench)


@pytest.mark.parametrize("drain", (1, 2, 7))
def test_a_soft_reset_ends_the_running_job_and_leaves_a_clean_state(drain):
    async def bench(ctx, dut, master):
        for name, value in (("GIE", 1), ("IER", 3), ("ROWS", 9)):
            await master.put(ctx, name, value)
        await master.put(ctx, "CONTROL", Control.START)
        await accept(ctx, dut)
        await master.put(ctx, "RESET", 1)
        await wait(ctx, drain)
        assert await master.get(ctx, "RESET") == 1
        assert ctx.get(dut.soft_reset) == 1
        await end(ctx, dut, Status.RESET)
        ctx.set(dut.idle, 1)
        await pulse(ctx, dut.reset_done)
        assert ctx.get(dut.soft_reset) == 0
        await wait(ctx, 2)
        assert ctx.get(dut.interrupt) == 0
        expected = {"RESET": 0, "CONTROL": Control.IDLE, "ISR": 0, "GIE": 1, "IER": 3, "ROWS": 9}
        expected |= {"STATUS": Status.RESET, "ERRORS": Error.RESET, "JOBS": 1}
        assert {name: await master.get(ctx, name) for name in expected} == expected
        await run_job(ctx, dut, master)
        assert await master.get(ctx, "STATUS") == Status.OK

    run(bench)


def test_a_soft_reset_drops_a_job_on_offer():
    async def bench(ctx, dut, master):
        await master.put(ctx, "CONTROL", Control.START)
        await master.put(ctx, "RESET", 1)
        assert ctx.get(dut.start.valid) == 0
        await pulse(ctx, dut.reset_done)
        await wait(ctx, 2)
        assert ctx.get(dut.start.valid) == 0
        expected = {"CONTROL": Control.IDLE, "STATUS": Status.RESET, "JOBS": 0}
        assert {name: await master.get(ctx, name) for name in expected} == expected

    run(bench)


def test_a_soft_reset_of_an_idle_accelerator_is_no_error():
    async def bench(ctx, dut, master):
        await run_job(ctx, dut, master)
        await master.put(ctx, "RESET", 1)
        await pulse(ctx, dut.reset_done)
        expected = {"CONTROL": Control.IDLE, "STATUS": 0, "ERRORS": 0, "JOBS": 1, "RESET": 0}
        assert {name: await master.get(ctx, name) for name in expected} == expected

    run(bench)


def test_with_a_queue_a_job_is_offered_while_another_runs_or_done_is_set():
    async def bench(ctx, dut, master):
        for rows in (1, 2):
            await master.put(ctx, "ROWS", rows)
            await master.put(ctx, "CONTROL", Control.START)
            assert (await accept(ctx, dut)).rows == rows
            assert await master.get(ctx, "CONTROL") == Control.READY
        await end(ctx, dut)
        ctx.set(dut.idle, 0)
        assert ctx.get(dut.hold) == 1
        assert await master.get(ctx, "CONTROL") == Control.READY | Control.DONE
        await master.put(ctx, "CONTROL", Control.START)
        await accept(ctx, dut)
        await master.put(ctx, "CONTROL", Control.CONTINUE)
        assert ctx.get(dut.hold) == 0
        for jobs in (2, 3):
            await end(ctx, dut, Status.READ)
            assert await master.get(ctx, "JOBS") == jobs
            # All blocks are idle, but the last job has not ended.
            expected = Control.READY | Control.DONE | (Control.IDLE if jobs == 3 else 0)
            assert await master.get(ctx, "CONTROL") == expected
            await master.put(ctx, "CONTROL", Control.CONTINUE)

    run(bench, FULL)


@pytest.mark.parametrize("waits", (False, True))
def test_a_soft_reset_counts_every_job_that_was_taken(waits):
    async def bench(ctx, dut, master):
        for _ in range(2):
            await master.put(ctx, "CONTROL", Control.START)
            await accept(ctx, dut)
        if waits:
            await master.put(ctx, "CONTROL", Control.START)
        await master.put(ctx, "RESET", 1)
        assert ctx.get(dut.start.valid) == 0
        for _ in range(2):
            await end(ctx, dut, Status.RESET)
        await pulse(ctx, dut.reset_done)
        expected = {"JOBS": 2, "STATUS": Status.RESET, "ERRORS": Error.RESET}
        expected |= {"CONTROL": Control.IDLE, "RESET": 0}
        assert {name: await master.get(ctx, name) for name in expected} == expected
        await run_job(ctx, dut, master)
        assert await master.get(ctx, "JOBS") == 3

    run(bench, FULL)


def test_a_job_that_ends_in_the_clock_in_which_another_is_taken_is_counted():
    async def bench(ctx, dut, master):
        await master.put(ctx, "CONTROL", Control.START)
        await accept(ctx, dut)
        await master.put(ctx, "CONTROL", Control.START)
        ctx.set(dut.start.ready, 1)
        ctx.set(dut.done, 1)
        await ctx.tick()
        ctx.set(dut.start.ready, 0)
        ctx.set(dut.done, 0)
        ctx.set(dut.idle, 1)
        assert await master.get(ctx, "CONTROL") == Control.READY | Control.DONE
        await pulse(ctx, dut.done)
        assert await master.get(ctx, "CONTROL") == Control.READY | Control.DONE | Control.IDLE
        assert await master.get(ctx, "JOBS") == 2

    run(bench, FULL)
