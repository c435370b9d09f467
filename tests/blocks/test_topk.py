"""The top-k against a sort of all rows."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from hw.config import HeadConfig
from hw.topk import TopK
from hw.topk_engine import engine_levels, heap_levels

from .streams import STALLS, StreamMonitor, receive, send, simulate, stalls

MAX_ROWS = 1024


def make(k: int, interval: int) -> TopK:
    return TopK(
        HeadConfig(
            bus_bits=64,
            weight_bits=4,
            scale_bits=8,
            group=32,
            hidden_bits=8,
            max_dim=32,
            max_rows=MAX_ROWS,
            k=k,
            insert_interval=interval,
        )
    )


@dataclass
class Job:
    scores: list[int]
    k: int
    ids: list[int] | None = None
    give: str = "none"
    take: str = "none"
    records: list = field(default_factory=list)
    """(rank, id, occupied) as they came; None for rank and id of a slot without a row."""
    insertions: int = 0

    def __post_init__(self):
        if self.ids is None:
            self.ids = list(range(len(self.scores)))

    @property
    def expected(self) -> list:
        order = np.lexsort((self.ids, -np.array(self.scores, dtype=np.int64)))[: self.k]
        best = [(self.scores[i], self.ids[i], 1) for i in order]
        return [(None, None, 0)] * (self.k - len(best)) + best[::-1]

    @property
    def expected_insertions(self) -> int:
        kept, count = [], 0
        for score, row in zip(self.scores, self.ids, strict=True):
            kept = sorted([*kept, (-score, row)])
            count += kept.index((-score, row)) < self.k
            kept = kept[: self.k]
        return count


async def pulse(ctx, signal):
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def begin(ctx, dut, k):
    ctx.set(dut.k, k)
    await pulse(ctx, dut.clear)


async def run_job(ctx, dut, job, seed=0):
    await begin(ctx, dut, job.k)
    rows = [{"rank": s, "id": i} for s, i in zip(job.scores, job.ids, strict=True)]
    await send(ctx, dut.i, rows, stalls(job.give, seed))
    await pulse(ctx, dut.drain)
    taken = await receive(ctx, dut.o, job.k, stalls(job.take, seed + 1))
    job.records = [(r.rank, r.id, 1) if r.occupied else (None, None, 0) for r in taken]


def run(dut, jobs, deadline=20000):
    """Run `jobs` one after the other and compare; returns the monitors of i and o."""
    entered, left = StreamMonitor(dut.i, "i"), StreamMonitor(dut.o, "o")
    inserted = [0]

    async def count(ctx):
        async for _, _, event in ctx.tick().sample(dut.inserted):
            inserted[0] += event

    async def all_jobs(ctx):
        for seed, job in enumerate(jobs):
            before = inserted[0]
            await run_job(ctx, dut, job, seed)
            job.insertions = inserted[0] - before

    simulate(dut, all_jobs, background=[entered.run, left.run, count], deadline=deadline)
    for job in jobs:
        assert job.records == job.expected
        assert job.insertions == job.expected_insertions
    assert len(left.words) == sum(job.k for job in jobs), "more records than asked for"
    return entered, left


def scores_in(order: str, rows: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    scores = [rng.randrange(-500, 500) for _ in range(rows)]
    if order == "ascending":
        scores.sort()
    elif order == "descending":
        scores.sort(reverse=True)
    elif order == "equal":
        scores = [7] * rows
    elif order == "one distinct":
        scores = [7] * rows
        scores[rows * 2 // 3] = 8
    return scores


ORDERS = ("ascending", "descending", "equal", "one distinct", "random")


@pytest.mark.parametrize("interval", [4, 6])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8])
def test_the_best_rows_come_out_worst_first_in_job_after_job(k, interval):
    jobs = [Job(scores_in(order, 40), k) for order in ORDERS]
    jobs += [Job(scores_in("random", 40, less), less) for less in range(1, k)]
    run(make(k, interval), jobs)


@pytest.mark.parametrize("interval", [4, 6])
def test_64_slots_in_every_order(interval):
    jobs = [Job(scores_in(order, 100), 64) for order in ORDERS]
    run(make(64, interval), jobs)


@pytest.mark.parametrize("k, interval, used", [(255, 4, 255), (256, 4, 201), (256, 6, 256)])
def test_as_many_slots_as_there_can_be(k, interval, used):
    order = "ascending" if used == k else "random"
    run(make(k, interval), [Job(scores_in(order, k + 40), used)])


@pytest.mark.parametrize("used", [1, 2, 31, 33, 62, 63])
def test_a_job_may_ask_for_less_than_there_are_slots(used):
    rows = used + 40
    run(make(63 if used % 2 else 64, 4), [Job(scores_in("random", rows), used)])


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("interval", [4, 6])
def test_stalls_change_nothing(interval, give, take):
    jobs = [Job(scores_in(order, 50), 17, None, give, take) for order in ("ascending", "random")]
    run(make(17, interval), jobs)


@pytest.mark.parametrize("k", [1, 2, 7, 16])
def test_ties_pick_the_lowest_id_whatever_the_order_of_arrival(k):
    ids = list(range(60))
    random.Random(k).shuffle(ids)
    scores = [3 if row % 3 else 2 for row in ids]
    run(make(k, 4), [Job(scores, k, ids), Job([7] * 60, k, ids), Job([7] * 60, k, ids[::-1])])


@pytest.mark.parametrize("k", [1, 3, 16, 20])
def test_slots_without_a_row_come_first(k):
    jobs = [Job(scores_in("random", rows), k) for rows in {1, k - 1, k} if rows]
    run(make(k, 4), jobs)


def test_no_row_at_all_gives_only_slots_without_a_row():
    dut = make(5, 4)
    occupied = []

    async def empty_job(ctx):
        await begin(ctx, dut, 5)
        await ctx.tick().until(dut.ready)
        await pulse(ctx, dut.drain)
        occupied.extend(r.occupied for r in await receive(ctx, dut.o, 5))

    simulate(dut, empty_job)
    assert occupied == [0] * 5


@pytest.mark.parametrize("k", [1, 4, 7])
def test_the_extreme_scores_and_ids_are_rows_like_any_other(k):
    config = make(k, 4).config
    bound = (1 << config.score_bits - 1) - 2
    scores = [bound, -bound - 1, 0, -1, -bound - 1, bound, 1]
    ids = [MAX_ROWS - 1, MAX_ROWS - 1, 0, 5, 0, 0, MAX_ROWS - 2]
    ids[1] = MAX_ROWS - 3
    ids[4] = 1
    ids[5] = 2
    run(
        make(k, 4),
        [
            Job(scores, k, ids),
            Job([-bound - 1] * 3, k, [MAX_ROWS - 1, 0, 1]),
            Job([bound] * 3, k, [0, 1, MAX_ROWS - 1]),
        ],
    )


@pytest.mark.parametrize("k, interval", [(2, 4), (7, 4), (7, 6), (64, 4), (63, 6)])
def test_ascending_rows_go_in_at_the_interval(k, interval):
    entered, left = run(make(k, interval), [Job(scores_in("ascending", 80), k)])
    # The first rows fill the registers before the heap.
    accepted = np.diff(entered.cycles[2:])
    assert set(accepted) == {interval}
    assert set(np.diff(left.cycles)) == {interval}


@pytest.mark.parametrize("k, interval", [(1, 4), (7, 4), (7, 6)])
def test_rejected_rows_take_one_clock_or_two(k, interval):
    entered, _ = run(make(k, interval), [Job(scores_in("descending", 80), k)])
    assert set(np.diff(entered.cycles[k + 2 :])) == {1 if interval == 4 else 2}


def test_the_first_record_comes_soon_after_drain():
    for interval in (4, 6):
        dut = make(7, interval)
        entered, left = run(dut, [Job(scores_in("ascending", 20), 7)])
        assert left.cycles[0] - entered.cycles[-1] <= 2 * interval + 1


def test_ready_to_take_a_row_does_not_depend_on_the_offer_nor_on_the_taker():
    dut = make(4, 4)

    async def look(ctx):
        await begin(ctx, dut, 4)
        rng = random.Random(1)
        for number in range(300):
            ctx.set(dut.i.payload, {"rank": number, "id": number})
            seen = set()
            for valid, ready in ((0, 0), (0, 1), (1, 1), (1, 0)):
                ctx.set(dut.i.valid, valid)
                ctx.set(dut.o.ready, ready)
                seen.add(ctx.get(dut.i.ready))
            assert len(seen) == 1
            ctx.set(dut.i.valid, rng.random() < 0.7)
            ctx.set(dut.drain, number == 100)
            await ctx.tick()

    simulate(dut, look)


@pytest.mark.parametrize("after", [1, 9, 40])
@pytest.mark.parametrize("draining", [False, True])
def test_clear_drops_what_is_left_of_a_job(after, draining):
    dut = make(8, 4)
    job = Job(scores_in("random", 30, 5), 6)

    async def two_jobs(ctx):
        await begin(ctx, dut, 8)
        rows = [{"rank": 1000 + i, "id": i} for i in range(12)]
        await send(ctx, dut.i, rows)
        if draining:
            await pulse(ctx, dut.drain)
            await ctx.tick().until(dut.o.valid)
            ctx.set(dut.o.ready, after > 1)
        await ctx.tick().repeat(after)
        ctx.set(dut.o.ready, 0)
        await run_job(ctx, dut, job)

    simulate(dut, two_jobs)
    assert job.records == job.expected


def test_no_row_is_taken_while_clearing_or_draining():
    dut = make(16, 4)
    closed = [0, 0]

    async def look(ctx):
        ctx.set(dut.i.valid, 1)
        await begin(ctx, dut, 16)
        for phase in range(2):
            while not ctx.get(dut.ready):
                assert not ctx.get(dut.i.ready)
                closed[phase] += 1
                await ctx.tick()
            await pulse(ctx, dut.drain)
            ctx.set(dut.o.ready, 1)

    simulate(dut, look)
    slots, engines = 16, len(engine_levels(16))
    assert closed[0] == slots // 2 + 2 * engines + 2
    assert closed[1] >= 16 * 4


def test_every_number_of_slots_has_a_heap_that_fits():
    for k in range(1, 257):
        levels = heap_levels(k)
        slots = 1 + sum(2 * level.pairs for level in levels)
        if levels and levels[0].first == 0:
            slots -= 1
        assert k <= slots < max(2, 2 * k)
        assert [level for engine in engine_levels(k) for level in engine] == list(levels)
        for above, below in zip(levels, levels[1:], strict=False):
            assert below.first == above.first + above.pairs
