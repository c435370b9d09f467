"""Jobs for a ranker, what must come of them, and a bench that runs them."""

import random

import numpy as np

from hw.config import ceil_div
from hw.header import term_names
from hw.logsumexp import WINDOW, LogSumExp
from hw.ranker import Ranker
from sim import golden_logsumexp

from .streams import StreamMonitor, receive, simulate, stalls, wait_until

TERM_LIMIT = 1 << 15


class Job:
    """A job as one ranker sees it.

    Parameters
    ----------
    dut : Ranker
    rows : int
        Rows of the channel.
    vectors, k : int
    allowed : float
        Probability that a row takes part, where there is a mask.
    scores : "random", "ties", "ascending" or "descending"
        "ascending" puts every row into the top-k, "descending" only the first ones.
    drop_after : int, optional
        Clocks after the start in which the job is dropped.
    drop_drain_after : int, optional
        Entries after which its results are dropped.
    """

    def __init__(
        self,
        dut: Ranker,
        rows: int,
        vectors: int | None = None,
        k: int | None = None,
        *,
        seed: int = 0,
        allowed: float = 0.5,
        scores: str = "random",
        logits: bool = True,
        drop_after: int | None = None,
        drop_drain_after: int | None = None,
    ):
        config = dut.config
        rng = random.Random(f"ranker {seed}")
        self.rows = rows
        self.vectors = config.batch if vectors is None else vectors
        self.k = config.k if k is None else k
        self.logits = logits
        self.drop_after = drop_after
        self.drop_drain_after = drop_drain_after
        self.dropped = False
        self.given = False
        self.active = ceil_div(max(0, self.vectors - dut.ranker), config.rankers)
        self.blocks = ceil_div(rows, config.units)
        slots, padded = dut.vectors_here, self.blocks * config.units
        self.ids = [self._id(dut, row) for row in range(rows)]

        def score(row):
            if scores == "ties":
                return 5 + rng.randrange(2)
            if scores == "ascending":
                return row * 4
            if scores == "descending":
                return -row * 4
            return rng.choice((config.sum_bound, 0, rng.randint(-9999, 9999)))

        self.sums = [[score(row) for row in range(padded)] for _ in range(slots)]
        spread = 1 if scores != "random" else TERM_LIMIT
        self.terms = {
            name: [rng.randrange(-spread, spread) for _ in range(padded)]
            for name in term_names(config)
        }
        # With equal multipliers, ties may be broken by terms in the same way.
        self.parameters = [
            {
                "bias": rng.randrange(3) if scores != "random" else rng.randrange(2**32),
                "bound": rng.randrange(3) if scores != "random" else rng.randrange(2**32),
                "multiplier": rng.randrange(2**31, 2**32),
                "shift": rng.randrange(10, 50),
            }
            for _ in range(slots)
        ]
        density = allowed if config.mask else 1
        self.allowed = [[rng.random() < density for _ in range(rows)] for _ in range(slots)]

    @staticmethod
    def _id(dut, row):
        config = dut.config
        tile, place = divmod(row, config.tile_rows)
        return (tile * config.channels + dut.channel) * config.tile_rows + place

    def sets(self, config):
        """The sums of each clock of the farm."""
        for block in range(self.blocks):
            for way in range(config.fold_units):
                first = block * config.units + way * config.lane_units
                yield [sums[first : first + config.lane_units] for sums in self.sums]

    @property
    def masks(self):
        """A word per row."""
        return [
            sum(bit << s for s, bit in enumerate(bits)) for bits in zip(*self.allowed, strict=True)
        ]

    def _term(self, name, slot, row):
        return self.terms[name][row] * self.parameters[slot][name] if name in self.terms else 0

    def scores(self, slot):
        return [self.sums[slot][row] + self._term("bias", slot, row) for row in range(self.rows)]

    def ranked(self, slot):
        """(rank, id, term) of all rows that take part, in their order of arrival."""
        bounds = self.terms.get("bound", [None] * self.rows)
        return [
            (score + self._term("bound", slot, row), self.ids[row], bounds[row])
            for row, score in enumerate(self.scores(slot))
            if self.allowed[slot][row]
        ]

    def entries(self, slot):
        best = sorted(self.ranked(slot), key=lambda row: (-row[0], row[1]))[: self.k]
        return [None] * (self.k - len(best)) + best[::-1]

    @property
    def insertions(self):
        count = 0
        for slot in range(self.active):
            kept = []
            for rank, row, _ in self.ranked(slot):
                kept = sorted([*kept, (-rank, row)])
                count += kept.index((-rank, row)) < self.k
                kept = kept[: self.k]
        return count

    @property
    def all_scores(self):
        """As they are written to memory."""
        scores = [self.scores(slot) for slot in range(self.active)]
        return [of_slot[row] for row in range(self.rows) for of_slot in scores]

    def logsumexp(self, slot):
        own = self.parameters[slot]
        return golden_logsumexp.accumulate(
            np.array(self.scores(slot), np.int64),
            own["multiplier"],
            own["shift"],
            np.array(self.allowed[slot], bool),
        )


async def feed(ctx, stream, words, go, job):
    """Offer `words` until the job is dropped."""
    for word in words:
        while not next(go) and not job.dropped:
            await ctx.tick()
        ready = job.dropped
        ctx.set(stream.payload, word)
        ctx.set(stream.valid, not ready)
        while not ready and not job.dropped:
            _, _, ready = await ctx.tick().sample(stream.ready)
        ctx.set(stream.valid, 0)
        if job.dropped:
            return


async def pulse(ctx, signal):
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


class Bench:
    """Runs jobs on a ranker; with `job_queue` one gives up its results while the next streams.

    Parameters
    ----------
    dut : Ranker
    jobs : list of Job
    stall : str
        How the farm, the mask, the terms and the takers stall.
    """

    def __init__(self, dut: Ranker, jobs: list[Job], stall: str = "none"):
        self.dut = dut
        self.config = dut.config
        self.jobs = jobs
        self.stall = stall
        self.begun = self.streamed = self.finished = 0
        self.free_blocks = self.config.row_queue_blocks
        self.inserted = self.taken = 0
        self.taken_clocks = []
        self.marks = []
        """At every start and at the end: the logits, insertions and rows up to there."""
        self.overlaps = 0
        """Slots drained while another job streamed."""
        self.logits = StreamMonitor(dut.logits, "logits", dut.clear) if self._has_logits else None

    @property
    def _has_logits(self):
        return self.config.all_logits

    def _mark(self):
        logits = len(self.logits.words) if self._has_logits else 0
        self.marks.append((logits, self.inserted, self.taken))

    async def _until(self, ctx, condition):
        while not condition():
            await ctx.tick()

    def _bank(self, number):
        return number % 2 if self.config.job_queue else 0

    async def stream(self, ctx):
        dut = self.dut
        for number, job in enumerate(self.jobs):
            before = number - self.config.job_queue
            await self._until(ctx, lambda before=before: self.finished >= before)
            ctx.set(dut.bank, self._bank(number))
            for name in ("rows", "vectors", "k"):
                ctx.set(getattr(dut, name), getattr(job, name))
            ctx.set(dut.parameters, job.parameters)
            if self._has_logits:
                ctx.set(dut.write_logits, job.logits)
            await pulse(ctx, dut.start)
            self._mark()
            self.begun += 1
            if job.drop_after is None:
                await wait_until(ctx, dut.done, 5000)
                if not job.active:
                    # Another ranker says when such a job is over.
                    await self._until(ctx, lambda job=job: job.given)
                    await ctx.tick().repeat(10)
            else:
                await ctx.tick().repeat(job.drop_after)
                job.dropped = True
                await pulse(ctx, dut.clear)
                self.free_blocks = self.config.row_queue_blocks
            self.streamed += 1
        await ctx.tick().repeat(10)
        self._mark()

    async def finish(self, ctx):
        dut = self.dut
        go = stalls(self.stall, 5)
        for number, job in enumerate(self.jobs):
            await self._until(ctx, lambda number=number: self.streamed > number)
            ctx.set(dut.drain_bank, self._bank(number))
            for slot in range(job.active if not job.dropped else 0):
                ctx.set(dut.drain_slot, slot)
                await wait_until(ctx, dut.ready)
                await pulse(ctx, dut.drain)
                if job.drop_drain_after is not None:
                    await receive(ctx, dut.entries, job.drop_drain_after, go)
                    await pulse(ctx, dut.clear_finish)
                    assert not ctx.get(dut.entries.valid)
                    break
                found = [self._entry(e) for e in await receive(ctx, dut.entries, job.k, go)]
                assert found == job.entries(slot), f"job {number}, slot {slot}"
                if self.config.logsumexp:
                    assert await self._logsumexp(ctx) == job.logsumexp(slot)
                self.overlaps += self.begun > number + 1 and self.streamed == number + 1
            self.finished += 1

    def _entry(self, entry):
        if not entry.occupied:
            return None
        return int(entry.rank), int(entry.id), int(entry.term) if self.config.bound else None

    async def _logsumexp(self, ctx):
        """Of the slot that is drained, as the golden model defines it."""
        dut = self.dut
        await ctx.tick().repeat(LogSumExp.READ_LATENCY)
        top = ctx.get(dut.lse_top)
        if not top.valid:
            return 0, 0
        lowest = max(top.exponent - WINDOW + 1, -(1 << 12))
        total = 0
        for exponent in range(lowest, top.exponent + 1 + LogSumExp.READ_LATENCY):
            if exponent >= lowest + LogSumExp.READ_LATENCY:
                total = total // 2 + ctx.get(dut.lse_read_sum)
            ctx.set(dut.lse_read_exponent, min(exponent, top.exponent))
            await ctx.tick()
        return top.exponent, total

    async def give_sums(self, ctx):
        dut = self.dut
        for number, job in enumerate(self.jobs):
            go = stalls(self.stall, 1)
            await self._until(ctx, lambda number=number: self.begun > number)
            for index, sums in enumerate(job.sets(self.config)):
                if index % self.config.fold_units == 0:
                    while not job.dropped and (self.free_blocks == 0 or not next(go)):
                        await ctx.tick()
                    self.free_blocks -= 1
                if job.dropped:
                    break
                ctx.set(dut.scores, sums)
                await pulse(ctx, dut.scores_valid)
            if job.dropped:
                self.free_blocks = self.config.row_queue_blocks
            job.given = True

    def _giver(self, stream, words, seed):
        async def give(ctx):
            for number, job in enumerate(self.jobs):
                await self._until(ctx, lambda number=number: self.begun > number)
                if job.active:
                    await feed(ctx, stream, words(job), stalls(self.stall, seed), job)

        return give

    async def count(self, ctx):
        dut = self.dut
        clock = 0
        samples = ctx.tick().sample(dut.inserted, dut.taken, dut.release)
        async for _, _, more, row, block in samples:
            clock += 1
            if row:
                self.taken_clocks.append(clock)
            self.inserted += more
            self.taken += row
            self.free_blocks += block

    async def take_logits(self, ctx):
        go = stalls(self.stall, 7)
        while True:
            ctx.set(self.dut.logits.ready, next(go))
            await ctx.tick()

    def run(self, deadline: int = 30000):
        dut = self.dut
        givers = [self.stream, self.finish, self.give_sums]
        background = [self.count, StreamMonitor(dut.entries, "entries", dut.clear_finish).run]
        if self.config.mask:
            givers.append(self._giver(dut.mask, lambda job: job.masks, 2))
        for seed, name in enumerate(term_names(self.config)):
            values = lambda job, name=name: job.terms[name][: job.rows]  # noqa: E731
            givers.append(self._giver(getattr(dut, name), values, 3 + seed))
        if self._has_logits:
            background += [self.logits.run, self.take_logits]
        simulate(dut, *givers, background=background, deadline=deadline)
        for number, job in enumerate(self.jobs):
            self._check_counts(number, job)

    def _check_counts(self, number, job):
        begin, end = self.marks[number : number + 2]
        if self._has_logits:
            expected = job.all_scores if job.logits else []
            found = [word - (word >> 63 << 64) for word in self.logits.words[begin[0] : end[0]]]
            assert found == (expected[: len(found)] if job.dropped else expected)
        if not job.dropped:
            assert end[1] - begin[1] == job.insertions
            assert end[2] - begin[2] == job.rows * job.active
