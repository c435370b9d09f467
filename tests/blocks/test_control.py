"""The life of jobs: what the control has the blocks around it do, and in which order."""

import random

import pytest

from hw.axi import bus_size
from hw.config import HeadConfig
from hw.control import JobControl
from hw.reader import BEATS_BITS
from hw.register_map import Flag
from hw.results import trailer_beats
from hw.status import Status

from .job_machine import Machine, arguments, expected_reads
from .streams import simulate, wait, wait_until

BASE = HeadConfig()
FULL = HeadConfig(
    bus_bits=64, batch=3, channels=2, mask=True, all_logits=True, logsumexp=True, bias=True
)
QUEUE = HeadConfig(
    bus_bits=64, batch=3, channels=2, mask=True, all_logits=True, logsumexp=True, job_queue=True
)
PLAIN_QUEUE = HeadConfig(job_queue=True)
CONFIGS = {"base": BASE, "full": FULL, "queue": QUEUE, "plain queue": PLAIN_QUEUE}
EVERY_CONFIG = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
EVERY_QUEUE = pytest.mark.parametrize("config", [QUEUE, PLAIN_QUEUE], ids=["queue", "plain queue"])


def run(testbench, config, deadline=40000, **options):
    """Simulate `testbench(ctx, dut, machine)`."""
    dut = JobControl(config)
    machine = Machine(dut, **options)

    async def bench(ctx):
        await testbench(ctx, dut, machine)

    simulate(dut, bench, background=[machine.run], deadline=deadline)
    return machine


async def offer(ctx, dut, job):
    """Have a job accepted."""
    ctx.set(dut.job.payload, job)
    ctx.set(dut.job.valid, 1)
    await ctx.tick().until(dut.job.ready)
    ctx.set(dut.job.valid, 0)
    ctx.set(dut.job.payload, dict.fromkeys(job, 0))


async def until_done(ctx, machine, count, deadline=3000):
    """Let clocks pass until `count` jobs have ended; the status of the last."""
    for _ in range(deadline):
        if len(machine.happened("done")) >= count:
            return machine.happened("done")[count - 1][1]
        await ctx.tick()
    raise TimeoutError(f"jobs: {machine.log[-20:]}")


def results(config, job, status=Status.OK):
    """The writes of a job that was not dropped."""
    beats, size = Machine.RECORD_BEATS, bus_size(config.bus_bits)

    def place(vector):
        return (job["result_address"] + (vector * beats << size)) % 2**64

    vectors = range(job["vectors"] if status in (Status.OK, Status.WRITE) else 0)
    return [("write", "records", place(vector), beats) for vector in vectors] + [
        ("write", "trailer", place(job["vectors"]), trailer_beats(config))
    ]


def check_job(config, job, log, tiles=None):
    """A job on its own that went well did everything once and in order."""
    for (kind, channel), commands in expected_reads(config, job, tiles).items():
        found = [event[2:] for event in log if event[:2] == (kind, channel)]
        assert found == commands, (kind, channel)
    assert [event for event in log if event[0] == "write"] == results(config, job)
    drains = [event[1:] for event in log if event[0] == "drain"]
    assert [(vector, k) for vector, _, k in drains] == [
        (vector, job["k"]) for vector in range(job["vectors"])
    ]
    flush = [("flush",)] if config.all_logits and job["flags"] & Flag.LOGITS else []
    order = [event[0] for event in log if event[0] in ("begin", "flush", "hand over", "done")]
    assert order == ["begin", *(kind for (kind,) in flush), "hand over", "done"]


@EVERY_CONFIG
@pytest.mark.parametrize("seed", range(2))
def test_a_job_reads_what_it_asks_for_and_writes_its_results(config, seed):
    rng = random.Random(seed)

    async def bench(ctx, dut, machine):
        for number in range(6):
            job = arguments(config, rng)
            first = len(machine.log)
            await offer(ctx, dut, job)
            assert await until_done(ctx, machine, number + 1) == Status.OK
            check_job(config, job, machine.log[first:])
            await wait(ctx, rng.randrange(4))
            assert ctx.get(dut.idle)

    run(bench, config, seed=seed)


def test_a_channel_without_tiles_reads_nothing():
    config = HeadConfig(channels=4, mask=True)
    rng = random.Random(1)

    async def bench(ctx, dut, machine):
        for number, has_mask in enumerate((0, 1, 1)):
            job = arguments(config, rng, machine.tiles, flags=has_mask * Flag.MASK)
            first = len(machine.log)
            await offer(ctx, dut, job)
            assert await until_done(ctx, machine, number + 1) == Status.OK
            check_job(config, job, machine.log[first:], machine.tiles)

    run(bench, config, tiles=[True, False, True, False])


def wrong_arguments(config):
    """Changes of a good job and the status that they must give."""
    size = bus_size(config.bus_bits)
    yield {"rows": 0}, Status.ROWS
    yield {"rows": config.max_rows + 1, "dim": 0}, Status.ROWS
    yield {"dim": 0}, Status.DIM
    yield {"dim": config.max_dim + 1}, Status.DIM
    yield {"dim": 1 << 31}, Status.DIM
    yield {"k": 0}, Status.K
    yield {"k": config.k + 1, "format": 0}, Status.K
    yield {"vectors": 0}, Status.VECTORS
    yield {"vectors": config.batch + 1}, Status.VECTORS
    for name in ("hidden_address", "result_address"):
        yield {name: (1 << size) - 1}, Status.ALIGNMENT
    yield {"format": config.format_word ^ 1 << 31}, Status.FORMAT
    yield {"image0_bytes": 0}, Status.LENGTH
    for channel in range(config.channels):
        yield {f"image{channel}_address": 1 << size - 1}, Status.ALIGNMENT
        yield {f"image{channel}_bytes": (5 << size) + 1}, Status.LENGTH
        yield {f"image{channel}_bytes": 1 << size + BEATS_BITS}, Status.LENGTH
        if config.mask:
            yield {f"mask{channel}_address": 1, "flags": Flag.MASK}, Status.ALIGNMENT
        if config.all_logits:
            yield {f"logits{channel}_address": 1, "flags": Flag.LOGITS}, Status.ALIGNMENT
    if config.mask:
        yield {"flags": 1 << 2}, Status.FEATURE
        yield {"flags": 1 << 31 | Flag.MASK}, Status.FEATURE


@EVERY_CONFIG
def test_a_bad_argument_ends_the_job_without_traffic(config):
    rng = random.Random(2)

    async def bench(ctx, dut, machine):
        for number, (changes, status) in enumerate(wrong_arguments(config)):
            first = len(machine.log)
            await offer(ctx, dut, arguments(config, rng, **changes))
            assert await until_done(ctx, machine, number + 1) == status, changes
            kinds = {event[0] for event in machine.log[first:]}
            assert kinds == {"begin", "hand over", "done"}
        job = arguments(config, rng)
        first = len(machine.log)
        await offer(ctx, dut, job)
        assert await until_done(ctx, machine, number + 2) == Status.OK
        check_job(config, job, machine.log[first:])

    run(bench, config)


@pytest.mark.parametrize("flag", Flag)
def test_an_address_that_no_flag_asks_for_is_not_looked_at(flag):
    rng = random.Random(3)
    name = {Flag.MASK: "mask1_address", Flag.LOGITS: "logits1_address"}[flag]

    async def bench(ctx, dut, machine):
        await offer(ctx, dut, arguments(FULL, rng, flags=3 & ~flag, **{name: 1}))
        assert await until_done(ctx, machine, 1) == Status.OK

    run(bench, FULL)


@pytest.mark.parametrize("built", Flag)
def test_a_flag_of_a_function_that_is_not_built_is_an_error(built):
    config = HeadConfig(mask=built == Flag.MASK, all_logits=built == Flag.LOGITS)
    rng = random.Random(4)

    async def bench(ctx, dut, machine):
        await offer(ctx, dut, arguments(config, rng, flags=3))
        assert await until_done(ctx, machine, 1) == Status.FEATURE
        await offer(ctx, dut, arguments(config, rng, flags=built))
        assert await until_done(ctx, machine, 2) == Status.OK

    run(bench, config)


def failures(config):
    """What may go wrong, and the status."""
    for channel in range(config.channels):
        yield {"read": channel}, Status.READ
        yield {"short": channel}, Status.LENGTH
        if config.all_logits:
            yield {"logits": channel}, Status.WRITE
    yield {"excess": 0}, Status.LENGTH
    yield {"write": 0}, Status.WRITE


@EVERY_CONFIG
@pytest.mark.parametrize("seed", range(2))
def test_a_failure_leaves_a_trailer_and_the_next_job_is_right(config, seed):
    rng = random.Random(seed)
    flag = {"flags": Flag.LOGITS} if config.all_logits else {}

    async def bench(ctx, dut, machine):
        ended = 0
        for errors, status in failures(config):
            machine.errors = dict(errors)
            job = arguments(config, rng, **flag)
            first = len(machine.log)
            await offer(ctx, dut, job)
            assert await until_done(ctx, machine, ended + 1) == status, errors
            assert not machine.errors
            log = machine.log[first:]
            writes = [event for event in log if event[0] == "write"]
            if "write" in errors:
                assert writes == results(config, job, status)
                assert ("clear",) not in log
            else:
                assert writes == results(config, job, Status.READ)
                kinds = [event[0] for event in log if event[0] in ("clear", "hand over", "drain")]
                assert kinds == ["clear", "hand over"]
            job = arguments(config, rng)
            first = len(machine.log)
            await offer(ctx, dut, job)
            assert await until_done(ctx, machine, ended + 2) == Status.OK
            check_job(config, job, machine.log[first:])
            ended += 2

    run(bench, config, seed=seed)


@pytest.mark.parametrize("config", [BASE, FULL], ids=["base", "full"])
def test_without_a_queue_a_job_is_only_taken_when_the_one_before_has_ended(config):
    rng = random.Random(5)

    async def bench(ctx, dut, machine):
        for _ in range(6):
            await offer(ctx, dut, arguments(config, rng))
        await until_done(ctx, machine, 6)
        order = [event[0] for event in machine.log if event[0] in ("begin", "done")]
        assert order == ["begin", "done"] * 6

    run(bench, config)


@EVERY_QUEUE
def test_a_queued_job_streams_while_the_one_before_is_written(config):
    rng = random.Random(6)
    flag = {"flags": 0} if config.mask else {}

    async def bench(ctx, dut, machine):
        jobs = [arguments(config, rng, **flag) for _ in range(8)]
        for job in jobs:
            await offer(ctx, dut, job)
        await until_done(ctx, machine, 8)
        assert machine.happened("done") == [("done", Status.OK)] * 8
        writes = [write for job in jobs for write in results(config, job)]
        assert machine.happened("write") == writes
        banks = [bank for _, bank in machine.happened("hand over")]
        assert banks == [0, 1] * 4
        drained = [(vector, job["k"]) for job in jobs for vector in range(job["vectors"])]
        assert [(vector, k) for _, vector, _, k in machine.happened("drain")] == drained
        owners = [number % 2 for number, job in enumerate(jobs) for _ in range(job["vectors"])]
        assert [bank for _, _, bank, _ in machine.happened("drain")] == owners
        order = [event[0] for event in machine.log if event[0] in ("begin", "hand over", "done")]
        overlapped = "".join(kind[0] for kind in order)
        assert overlapped.count("hb") >= 6  # taken before the one just handed over has ended

    run(bench, config)


@EVERY_QUEUE
def test_the_next_job_ends_only_when_the_one_before_is_acknowledged(config):
    rng = random.Random(7)
    flag = {"flags": 0} if config.mask else {}

    async def bench(ctx, dut, machine):
        await offer(ctx, dut, arguments(config, rng, **flag))
        await offer(ctx, dut, arguments(config, rng, rows=0))
        await until_done(ctx, machine, 1)
        ctx.set(dut.hold, 1)
        await offer(ctx, dut, arguments(config, rng, **flag))
        await wait(ctx, 500)
        assert machine.happened("done") == [("done", Status.OK)]
        for ended in (2, 3):
            ctx.set(dut.hold, 0)
            await until_done(ctx, machine, ended)
            ctx.set(dut.hold, 1)
        assert [status for _, status in machine.happened("done")] == [0, Status.ROWS, 0]

    run(bench, config)


@EVERY_QUEUE
@pytest.mark.parametrize("seed", range(4))
def test_an_error_ends_only_its_own_job(config, seed):
    """Random jobs one after the other, half of them with something wrong."""
    rng = random.Random(seed)

    async def bench(ctx, dut, machine):
        expected, writes = [], []
        for number in range(30):
            kind = rng.choice(["ok", "ok", "read", "short", "argument", "write"])
            flag = {"flags": rng.choice((0, Flag.MASK))} if config.mask else {}
            job = arguments(config, rng, **flag)
            status = {"read": Status.READ, "short": Status.LENGTH, "write": Status.WRITE}
            if kind == "argument":
                job["k"] = 0
            await offer(ctx, dut, job)
            if kind in ("read", "short"):
                machine.errors[kind] = rng.randrange(config.channels)
            if kind == "write":
                # Its writes are the next ones when it is handed over and the one before has ended.
                handed = number + 1
                while len(machine.happened("hand over")) < handed:
                    await ctx.tick()
                machine.errors["write"] = 0
            expected.append(status.get(kind, Status.OK) if kind != "argument" else Status.K)
            if expected[-1] != Status.K:
                writes += results(config, job, expected[-1])
        await until_done(ctx, machine, 30)
        assert [status for _, status in machine.happened("done")] == expected
        assert machine.happened("write") == writes
        assert not machine.happened("clear finish")

    run(bench, config, seed=seed)


def test_a_job_that_writes_all_scores_waits_for_the_one_before():
    config = QUEUE
    rng = random.Random(9)

    async def bench(ctx, dut, machine):
        wanted = [0, Flag.LOGITS, 0, Flag.LOGITS, Flag.LOGITS, 0]
        for flag in wanted:
            await offer(ctx, dut, arguments(config, rng, flags=flag))
        await until_done(ctx, machine, len(wanted))
        begun = ended = 0
        for event in machine.log:
            if event[0] == "begin":
                if wanted[begun]:
                    assert ended == begun
                begun += 1
            ended += event[0] == "done"
        assert len(machine.happened("flush")) == 3
        assert machine.happened("done") == [("done", Status.OK)] * len(wanted)

    run(bench, config)


@EVERY_CONFIG
def test_a_soft_reset_at_any_time_drops_every_job_and_writes_nothing_more(config):
    rng = random.Random(8)

    async def bench(ctx, dut, machine):
        for delay in [*range(12), *(rng.randrange(12, 300) for _ in range(16))]:
            first = len(machine.log)
            hold = rng.random() < 0.3
            ctx.set(dut.job.payload, arguments(config, rng))
            ctx.set(dut.job.valid, 1)
            for clock in range(delay):
                if ctx.get(dut.begin):
                    await ctx.tick()
                    ctx.set(dut.job.payload, arguments(config, rng))
                else:
                    await ctx.tick()
                ctx.set(dut.hold, hold and clock > delay // 2)
            ctx.set(dut.soft_reset, 1)
            ctx.set(dut.job.valid, 0)
            await ctx.tick()
            at_reset = len(machine.log)
            await wait_until(ctx, dut.reset_done)
            ctx.set(dut.hold, 0)
            await ctx.tick()
            ctx.set(dut.soft_reset, 0)
            log, after = machine.log[first:], machine.log[at_reset:]
            begun = sum(event[0] == "begin" for event in log)
            ended = [event[1] for event in log if event[0] == "done"]
            assert len(ended) == begun, (delay, log)
            dropped = [event[1] for event in after if event[0] == "done"]
            assert all(status == Status.RESET for status in dropped)
            assert not [event for event in after if event[0] in ("read", "write", "drain")]
            assert all(read.over for read in machine.reads)
            assert all(write.over for write in machine.writes)
            assert all(machine.unpacked)
            assert ctx.get(dut.idle)
            job = arguments(config, rng)
            first = len(machine.log)
            count = len(machine.happened("done"))
            await offer(ctx, dut, job)
            assert await until_done(ctx, machine, count + 1) == Status.OK
            check_job(config, job, machine.log[first:])

    run(bench, config, deadline=100000)


def test_an_idle_control_answers_a_soft_reset_at_once():
    async def bench(ctx, dut, machine):
        ctx.set(dut.soft_reset, 1)
        assert await wait_until(ctx, dut.reset_done) <= 1
        await ctx.tick()
        ctx.set(dut.soft_reset, 0)
        await ctx.tick()
        assert not machine.happened("done")

    run(bench, BASE)
