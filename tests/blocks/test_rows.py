"""The row queue against the rows of a channel, counted tile by tile."""

import random

import pytest

from hw.config import HeadConfig, ceil_div
from hw.rows import RowQueue

from .streams import STALLS, StreamMonitor, receive, send, simulate, stalls, wait_until

SHAPE = {
    "bus_bits": 64,
    "weight_bits": 4,
    "scale_bits": 8,
    "hidden_bits": 8,
    "width": 4,
    "max_dim": 32,
    "max_rows": 1000,
    "k": 1,
}


def make(channel=0, ranker=0, **options) -> RowQueue:
    return RowQueue(HeadConfig(**SHAPE | options), channel, ranker)


class Job:
    """Rows of a channel for a row queue: sums as the farm would give them, and what must come."""

    def __init__(self, dut: RowQueue, rows: int, vectors: int = 1, seed: int = 0):
        rng = random.Random(seed)
        config = dut.config
        self.rows = rows
        self.vectors = vectors
        self.active = ceil_div(max(0, vectors - dut.ranker), config.rankers)
        self.blocks = ceil_div(rows, config.units)
        limit = (1 << config.sum_bits - 1) - 1
        self.sums = [
            [rng.choice((-limit, limit, rng.randint(-limit, limit))) for _ in range(config.units)]
            for _ in range(self.blocks * dut.vectors_here)
        ]
        self.masks = [rng.randrange(1 << dut.vectors_here) for _ in range(rows)]
        self.expected = []
        for row in range(rows):
            block, unit = divmod(row, config.units)
            tile, place = divmod(row, config.tile_rows)
            row_id = (tile * config.channels + dut.channel) * config.tile_rows + place
            for slot in range(self.active):
                found = {"score": self.sums[block * dut.vectors_here + slot][unit], "id": row_id}
                found["slot"] = slot
                if config.mask:
                    found["allowed"] = self.masks[row] >> slot & 1
                if config.terms and dut.vectors_here > 1:
                    found["last"] = int(slot == self.active - 1)
                self.expected.append(found)

    def sets(self, dut):
        """The sums of each clock of the farm."""
        lanes, vectors = dut.config.lane_units, dut.vectors_here
        for block in range(self.blocks):
            of_block = self.sums[block * vectors : (block + 1) * vectors]
            for way in range(dut.config.fold_units):
                yield [sums[way * lanes : (way + 1) * lanes] for sums in of_block]


class Farm:
    """Gives the sums of jobs to a row queue as the farm does, and never more than it has room for.

    Attributes
    ----------
    released : int
        Blocks that have left the queue.
    """

    def __init__(self, dut: RowQueue):
        self.dut = dut
        self.begun = 0
        self.released = 0

    async def count_releases(self, ctx):
        async for _, _, event in ctx.tick().sample(self.dut.release):
            self.released += event

    async def give(self, ctx, job, go):
        dut, config = self.dut, self.dut.config
        for index, sums in enumerate(job.sets(dut)):
            if index % config.fold_units == 0:
                while self.begun - self.released >= config.row_queue_blocks or not next(go):
                    await ctx.tick()
                self.begun += 1
            ctx.set(dut.scores, sums)
            ctx.set(dut.valid, 1)
            await ctx.tick()
            ctx.set(dut.valid, 0)


def run(dut, jobs, give="none", take="none", mask="none"):
    """Run `jobs`, each as soon as the one before is done, and compare; the monitor of `o`."""
    left = StreamMonitor(dut.o, "o")
    farm = Farm(dut)
    masked = [job for job in jobs if job.active] * dut.config.mask
    begun = [0]

    async def run_jobs(ctx):
        expected = 0
        for job in jobs:
            ctx.set(dut.rows, job.rows)
            ctx.set(dut.vectors, job.vectors)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            begun[0] += bool(job.active)
            assert len(left.words) == expected, "done at the wrong time"
            await farm.give(ctx, job, stalls(give, 1))
            await wait_until(ctx, dut.done)
            expected += len(job.expected)
            if not job.active:
                # Another ranker says when such a job is over.
                while farm.released < farm.begun:
                    await ctx.tick()
        await ctx.tick()

    async def take_rows(ctx):
        await receive(ctx, dut.o, sum(len(job.expected) for job in jobs), stalls(take, 2))
        # What comes beyond would be seen.
        ctx.set(dut.o.ready, 1)

    async def give_masks(ctx):
        for number, job in enumerate(masked, 1):
            while begun[0] < number:
                await ctx.tick()
            await send(ctx, dut.mask, job.masks, stalls(mask, 3))

    background = [left.run, farm.count_releases]
    simulate(dut, run_jobs, take_rows, give_masks, background=background)
    names = list(dut.o.payload.shape().members)
    found = [{name: int(word[name]) for name in names} for word in left.words]
    assert found == [row for job in jobs for row in job.expected]
    assert farm.released == sum(job.blocks for job in jobs)
    return left


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("batch", [1, 3])
def test_stalls_change_nothing(batch, give, take):
    dut = make(batch=batch, rankers=1)
    run(dut, [Job(dut, 30, batch, 1), Job(dut, 5, 1, 2), Job(dut, 70, batch, 3)], give, take)


@pytest.mark.parametrize("fold", [1, 2, 4, 8])
@pytest.mark.parametrize("batch", [1, 4])
def test_rows_of_every_last_block_are_told_from_its_padding(batch, fold):
    # The next job begins in the clock after `done`: nothing of the last block may be left then.
    dut = make(batch=batch, rankers=1, fold=fold)
    run(dut, [Job(dut, rows, batch, rows) for rows in (*range(1, 10), 64, 65)])


def test_padding_of_a_wide_block_is_gone_when_the_next_job_begins():
    dut = make(width=1, fold=1)
    assert dut.config.lane_units == 16
    run(dut, [Job(dut, rows, 1, rows) for rows in (1, 2, 17, 18)])


@pytest.mark.parametrize("channel", range(4))
def test_a_channel_has_every_fourth_tile(channel):
    dut = make(channel, channels=4, tile_rows=12)
    run(dut, [Job(dut, rows, 1, rows) for rows in (1, 12, 13, 30, 24)])


@pytest.mark.parametrize("ranker", [0, 1])
def test_a_channel_without_rows_is_done_at_once(ranker):
    dut = make(1, ranker, channels=2, batch=2, rankers=2)
    run(dut, [Job(dut, 0, 2), Job(dut, 9, 2), Job(dut, 0, 2), Job(dut, 3, 2)])


@pytest.mark.parametrize("ranker", range(4))
def test_a_ranker_takes_its_vectors_of_the_job(ranker):
    dut = make(0, ranker, batch=6, rankers=4)
    assert dut.vectors_here == (2, 2, 1, 1)[ranker]
    jobs = [Job(dut, 18, vectors, vectors) for vectors in range(1, 7)]
    left = run(dut, jobs)
    if ranker == 3:
        assert len(left.words) == 3 * 18, "vectors 3, of jobs with 4, 5 and 6"


def test_blocks_without_a_vector_of_the_ranker_never_hold_up_the_farm():
    dut = make(0, 1, batch=2, rankers=2)
    farm = Farm(dut)
    job = Job(dut, 400, 1)

    async def give(ctx):
        ctx.set(dut.rows, job.rows)
        ctx.set(dut.vectors, 1)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        assert ctx.get(dut.unused) and ctx.get(dut.done)
        # A block takes the vectors of the job, one clock for each row, elsewhere.
        for sums in job.sets(dut):
            assert farm.begun - farm.released < dut.config.row_queue_blocks
            farm.begun += 1
            ctx.set(dut.scores, sums)
            ctx.set(dut.valid, 1)
            await ctx.tick()
            ctx.set(dut.valid, 0)
            await ctx.tick().repeat(dut.config.lane_units - 1)
        await ctx.tick().repeat(8)

    simulate(dut, give, background=[farm.count_releases])
    assert farm.released == job.blocks


@pytest.mark.parametrize("mask", STALLS)
@pytest.mark.parametrize("batch, rankers, ranker", [(1, 1, 0), (5, 2, 0), (5, 2, 1)])
def test_a_row_waits_for_its_mask_and_carries_its_bits(batch, rankers, ranker, mask):
    dut = make(0, ranker, batch=batch, rankers=rankers, mask=True)
    jobs = [Job(dut, rows, vectors, rows) for rows, vectors in ((30, batch), (9, 1), (65, batch))]
    run(dut, jobs, mask=mask)


@pytest.mark.parametrize("term", ["bias", "bound"])
def test_the_last_slot_of_a_row_is_marked_for_its_terms(term):
    dut = make(batch=3, rankers=1, **{term: True})
    run(dut, [Job(dut, 20, vectors, vectors) for vectors in (3, 1, 2)])


@pytest.mark.parametrize("fold", [1, 4])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_row_of_a_vector_leaves_every_clock(batch, fold):
    dut = make(batch=batch, rankers=1, fold=fold)
    assert run(dut, [Job(dut, 100, batch)]).bubbles == 0
