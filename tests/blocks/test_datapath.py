"""From the readers' beats to the sums of rows: plan, unpackers, hidden memories, buffers, farms."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hw.config import WHOLE_ROW, HeadConfig
from hw.datapath import DataPath
from hw.header import term_names
from hw.layout import ImageLayout
from hw.plan import TilePlan
from tests.blocks.heads import Head, exact_sums, hidden_region, image_beats, random_head
from tests.blocks.streams import STALLS, sender, simulate, stalls


class Channels(wiring.Component):
    """The data paths of all channels with their plan, connected as a head has them."""

    def __init__(self, config: HeadConfig):
        self.config = config
        self.plan = TilePlan(config)
        self.paths = [DataPath(config, channel) for channel in range(config.channels)]
        super().__init__({"start_data": In(1), "vectors": In(range(config.batch + 1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.plan = self.plan
        m.d.comb += self.plan.vectors.eq(self.vectors)
        for channel, path in enumerate(self.paths):
            m.submodules[f"path{channel}"] = path
            m.d.comb += [
                path.start_data.eq(self.start_data),
                path.plan.eq(self.plan.plan[channel]),
                path.plan_ready.eq(self.plan.ready),
                path.vectors.eq(self.vectors),
            ]
            if channel:
                m.d.comb += path.hidden_in.eq(self.paths[0].hidden_out)
        return m


class Collector:
    """Stands for the rankers of a channel: keeps the rows of each job and releases blocks."""

    def __init__(self, path: DataPath, stall: str):
        self.path = path
        self.config = path.config
        self.go = [stalls(stall, ranker) for ranker in range(self.config.rankers)]
        self.rows = []
        """By row of the job, padding included, the sums of all vectors of the build."""
        self.most_blocks = 0
        """Blocks that waited in one queue at once."""

    async def run(self, ctx):
        config = self.config
        ways = 0
        waiting = [0] * config.rankers
        while True:
            released = 0
            for ranker in range(config.rankers):
                if waiting[ranker] and next(self.go[ranker]):
                    waiting[ranker] -= 1
                    released |= 1 << ranker
            ctx.set(self.path.release, released)
            _, _, valid, scores = await ctx.tick().sample(self.path.scores_valid, self.path.scores)
            if valid:
                for unit in range(config.lane_units):
                    self.rows.append([scores[vector][unit] for vector in range(config.batch)])
                ways += 1
                if ways == config.fold_units:
                    ways = 0
                    waiting = [blocks + 1 for blocks in waiting]
                    self.most_blocks = max(self.most_blocks, *waiting)
                    assert self.most_blocks <= config.row_queue_blocks


class TermTaker:
    """Takes the values of one row term for one ranker, and leaves those of padding rows."""

    def __init__(self, stream, stall: str, seed: int):
        self.stream = stream
        self.go = stalls(stall, seed)
        self.values = []
        self.rows = 0
        """Rows of the channel in this job."""

    async def run(self, ctx):
        while True:
            ready = next(self.go) and len(self.values) < self.rows
            ctx.set(self.stream.ready, ready)
            _, _, valid, value = await ctx.tick().sample(self.stream.valid, self.stream.payload)
            if valid and ready:
                self.values.append(value)


def vocabulary_ids(layout: ImageLayout, channel: int) -> list[int | None]:
    """By row of a channel, its id, or None for padding."""
    ids = []
    for index in range(channel, layout.tiles, layout.config.channels):
        tile = layout.tile(index)
        ids += [
            tile.first_row + row if row < tile.rows else None
            for row in range(tile.blocks * layout.config.units)
        ]
    return ids


def check_job(dut: Channels, head: Head, collectors, takers, ctx):
    """Compare what came out with the definition."""
    config = dut.config
    layout = ImageLayout(config, *head.weights.shape)
    sums = exact_sums(config, head)
    for channel, path in enumerate(dut.paths):
        ids = vocabulary_ids(layout, channel)
        collector = collectors[channel]
        assert len(collector.rows) == len(ids)
        for row_id, row in zip(ids, collector.rows, strict=True):
            if row_id is not None:
                assert row[: len(sums)] == [of_vector[row_id] for of_vector in sums]
        for name, taker in takers[channel]:
            expected = [head.terms[name][row] for row in ids if row is not None]
            assert taker.values == expected, (channel, name)
        assert not ctx.get(path.excess)
    if config.has_parameters:
        for vector, (bias, bound, multiplier, shift) in enumerate(head.parameters.tolist()):
            found = ctx.get(dut.paths[0].parameters[vector])
            assert found.bias == bias * config.bias
            assert found.bound == bound * config.bound
            assert found.multiplier == multiplier * config.logsumexp
            assert found.shift == shift % 128 * config.logsumexp


async def start_job(ctx, dut: Channels, head: Head):
    """What the job control does."""
    rows, dim = head.weights.shape
    ctx.set(dut.plan.rows, rows)
    ctx.set(dut.plan.dim, dim)
    ctx.set(dut.vectors, len(head.hidden))
    ctx.set(dut.plan.start, 1)
    await ctx.tick()
    ctx.set(dut.plan.start, 0)
    await ctx.tick().repeat(3)
    while not ctx.get(dut.plan.hidden_ready):
        await ctx.tick()
    ctx.set(dut.start_data, 1)
    await ctx.tick()
    ctx.set(dut.start_data, 0)


def run_jobs(config, heads, in_stall="none", out_stall="none", deadline=60000):
    """Run jobs one after the other and check the rows, terms and parameters of each."""
    dut = Channels(config)
    collectors = [Collector(path, out_stall) for path in dut.paths]
    takers = [
        [
            (name, TermTaker(getattr(path, f"{name}{ranker}"), out_stall, ranker))
            for name in term_names(config)
            for ranker in range(config.rankers)
        ]
        for path in dut.paths
    ]
    feeds = [[] for _ in dut.paths]

    async def bench(ctx):
        for head in heads:
            layout = ImageLayout(config, *head.weights.shape)
            images = image_beats(config, head)
            images[0] = hidden_region(config, head) + images[0]
            await start_job(ctx, dut, head)
            for feed, beats in zip(feeds, images, strict=True):
                feed.append(beats)
            parts = [
                (collector.rows, vocabulary_ids(layout, channel))
                for channel, collector in enumerate(collectors)
            ]
            for channel, of_channel in enumerate(takers):
                for _, taker in of_channel:
                    taker.rows = layout.channel_rows(channel)
                    parts.append((taker.values, range(taker.rows)))
            while any(len(got) < len(expected) for got, expected in parts) or not all(
                ctx.get(path.unpacked) for path in dut.paths
            ):
                await ctx.tick()
            await ctx.tick().repeat(50)
            check_job(dut, head, collectors, takers, ctx)
            for of_channel in takers:
                for _, taker in of_channel:
                    taker.rows = 0
            for got, _ in parts:
                got.clear()

    def feeder(channel):
        async def feed(ctx):
            for number in range(len(heads)):
                while len(feeds[channel]) == number:
                    await ctx.tick()
                beats = feeds[channel][number]
                await sender(dut.paths[channel].i, beats, stalls(in_stall, number + channel))(ctx)

        return feed

    background = [collector.run for collector in collectors]
    background += [taker.run for of_channel in takers for _, taker in of_channel]
    background += [feeder(channel) for channel in range(config.channels)]
    simulate(dut, bench, background=background, deadline=deadline)


SHAPES = {
    "two_units": HeadConfig(bus_bits=64, width=4, tile_rows=4, max_dim=96, max_rows=64),
    "one_unit_of_a_group": HeadConfig(bus_bits=256, width=32, tile_rows=3, max_dim=100, max_rows=9),
    "one_column": HeadConfig(bus_bits=64, width=1, tile_rows=8, max_dim=40, max_rows=40),
    "int4_signed_scales": HeadConfig(
        bus_bits=64, weight_bits=4, scale_signed=True, width=8, tile_rows=6, max_dim=70, max_rows=40
    ),
    "scale_word_wider_than_bus": HeadConfig(
        bus_bits=64, weight_bits=4, width=1, tile_rows=16, max_dim=33, max_rows=50
    ),
    "whole_row": HeadConfig(
        bus_bits=64, group=WHOLE_ROW, width=8, tile_rows=5, max_dim=50, max_rows=30
    ),
    "narrow_values": HeadConfig(
        bus_bits=64, scale_bits=8, hidden_bits=8, width=2, tile_rows=4, max_dim=64, max_rows=30
    ),
    "group_of_128": HeadConfig(
        bus_bits=128, group=128, width=16, tile_rows=2, max_dim=200, max_rows=9
    ),
    "int16": HeadConfig(bus_bits=64, weight_bits=16, width=2, tile_rows=6, max_dim=70, max_rows=30),
    "int16_in_one_unit": HeadConfig(
        bus_bits=128, weight_bits=16, hidden_bits=8, width=8, tile_rows=5, max_dim=70, max_rows=30
    ),
    "pairs_of_rows": HeadConfig(
        bus_bits=64, weight_bits=4, width=1, tile_rows=16, max_dim=20, max_rows=50, dsp_pairs=True
    ),
    "pairs_of_vectors": HeadConfig(
        bus_bits=64, hidden_bits=8, width=2, tile_rows=8, max_dim=40, max_rows=50, batch=2,
        dsp_pairs=True,
    ),
}  # fmt: skip

OPTIONS = {
    "batch": {"batch": 3},
    "batch_on_rankers": {"batch": 5, "rankers": 4},
    "bias": {"bias": True},
    "bias_and_bound": {"bias": True, "bound": True, "batch": 2, "rankers": 2},
    "logsumexp": {"logsumexp": True, "batch": 2},
    "channels": {"channels": 2},
    "everything": {
        "batch": 3,
        "channels": 2,
        "bias": True,
        "bound": True,
        "mask": True,
        "logsumexp": True,
        "rankers": 2,
    },
}


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_exact_with_gaps_on_any_beat(shape, stall):
    config = SHAPES[shape]
    rows, dim = min(config.max_rows, 21), config.max_dim - 1
    head = random_head(config, rows, dim, 1, seed=len(shape))
    run_jobs(config, [head], in_stall=stall, out_stall=stall)


@pytest.mark.parametrize("fold", [2, 4, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_folding_changes_no_sum(shape, fold):
    config = replace(SHAPES[shape], fold=min(fold, SHAPES[shape].weights_per_beat))
    rows, dim = min(config.max_rows, 11), config.max_dim
    run_jobs(config, [random_head(config, rows, dim, 1, seed=fold)], in_stall="random")


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 9])
def test_partial_tiles_and_blocks_give_exactly_the_rows_of_the_vocabulary(rows):
    config = SHAPES["two_units"]
    run_jobs(config, [random_head(config, rows, 32, 1, seed=rows)])


@pytest.mark.parametrize(
    ("shape", "option"),
    [(shape, "everything") for shape in SHAPES]
    + [(shape, option) for shape in ("two_units", "int16_in_one_unit") for option in OPTIONS],
)
def test_every_vector_term_and_channel_gets_what_is_its_own(shape, option):
    config = replace(SHAPES[shape], **OPTIONS[option])
    rows, dim = min(config.max_rows, 23), config.max_dim - 1
    head = random_head(config, rows, dim, config.batch, seed=len(shape + option))
    run_jobs(config, [head], in_stall="random", out_stall="random")


@pytest.mark.parametrize(("fold", "stall"), [(1, "none"), (1, "long"), (4, "random")])
@pytest.mark.parametrize("shape", ["two_units", "scale_word_wider_than_bus", "whole_row"])
def test_jobs_of_different_shapes_follow_each_other(shape, fold, stall):
    config = replace(SHAPES[shape], fold=fold, **OPTIONS["everything"])
    jobs = [
        random_head(config, rows, dim, vectors, rows)
        for rows, dim, vectors in ((9, config.max_dim, 3), (1, 1, 1), (30, 33, 2), (17, 7, 3))
    ]
    run_jobs(config, jobs, in_stall=stall, out_stall=stall)


@pytest.mark.parametrize("rows", [1, 4, 5, 12, 13, 16, 17])
def test_a_channel_without_tiles_ends_at_once_and_takes_no_beat(rows):
    config = replace(SHAPES["two_units"], channels=4)
    run_jobs(config, [random_head(config, rows, 40, 1, seed=rows)] * 2, in_stall="random")


def test_extreme_values_are_exact():
    config = HeadConfig(
        bus_bits=64, hidden_bits=8, scale_bits=8, tile_rows=1, max_dim=4096, max_rows=2
    )
    weights = np.full((2, 4096), -128)
    hidden = np.full((1, 4096), -128)
    head = Head(weights, np.ones((2, 128), int), hidden, parameters=np.zeros((1, 4), int))
    assert exact_sums(config, head) == [[67_108_864, 67_108_864]]
    run_jobs(config, [head])


@pytest.mark.parametrize(
    "config",
    [
        HeadConfig(bus_bits=64, width=8, tile_rows=16, max_dim=96, max_rows=64),
        HeadConfig(
            bus_bits=64, width=8, tile_rows=15, max_dim=96, max_rows=64, batch=2, bias=True,
            bound=True,
        ),
        HeadConfig(
            bus_bits=128, width=4, tile_rows=12, max_dim=96, max_rows=64, bias=True, scale_bits=8
        ),
    ],
)  # fmt: skip
def test_the_image_is_taken_without_a_bubble(config):
    head = random_head(config, 61, 96, config.batch, seed=1)
    dut = Channels(config)
    path = dut.paths[0]
    (image,) = image_beats(config, head)
    collector = Collector(path, "none")
    takers = [
        TermTaker(getattr(path, f"{name}{ranker}"), "none", 0)
        for name in term_names(config)
        for ranker in range(config.rankers)
    ]

    for taker in takers:
        taker.rows = 61

    async def bench(ctx):
        await start_job(ctx, dut, head)
        await sender(path.i, hidden_region(config, head))(ctx)
        while not ctx.get(dut.plan.ready):
            await ctx.tick()
        await ctx.tick().repeat(8)
        for beat in image:
            ctx.set(path.i.payload, beat)
            ctx.set(path.i.valid, 1)
            assert ctx.get(path.i.ready)
            await ctx.tick()

    simulate(dut, bench, background=[collector.run, *(taker.run for taker in takers)])


@pytest.mark.parametrize("slow", [0, 1])
def test_the_slowest_row_queue_stops_the_farm_and_is_not_overrun(slow):
    config = replace(SHAPES["one_unit_of_a_group"], max_rows=64, batch=2, rankers=2)
    head = random_head(config, 60, 32, 2, seed=slow)
    dut = Channels(config)
    collector = Collector(dut.paths[0], "none")
    collector.go[slow] = (clock % 12 == 11 for clock in count())

    async def bench(ctx):
        await start_job(ctx, dut, head)
        (image,) = image_beats(config, head)
        await sender(dut.paths[0].i, hidden_region(config, head) + image)(ctx)
        while len(collector.rows) < 60:
            await ctx.tick()
        check_job(dut, head, [collector], [[]], ctx)

    simulate(dut, bench, background=[collector.run])
    assert config.row_queue_blocks - 2 <= collector.most_blocks <= config.row_queue_blocks


def test_a_channel_that_is_not_built_is_refused():
    with pytest.raises(ValueError, match=r"channel must be in 0\.\.1, got 2"):
        DataPath(HeadConfig(channels=2), 2)


@pytest.mark.parametrize("vectors", [1, 2])
def test_other_channels_wait_for_the_parameters(vectors):
    config = HeadConfig(
        bus_bits=64, width=4, tile_rows=4, max_dim=40, max_rows=64, channels=2, batch=2, bias=True
    )
    head = random_head(config, 30, 8, vectors, seed=vectors)
    dut = Channels(config)
    first, second = dut.paths
    hidden, images = hidden_region(config, head), image_beats(config, head)
    started = []

    async def bench(ctx):
        ctx.set(second.bias0.ready, 1)
        await start_job(ctx, dut, head)
        started.append(True)
        await sender(first.i, hidden[:-1], stalls("none", 0))(ctx)
        for _ in range(200):
            await ctx.tick()
            assert not ctx.get(second.scores_valid)
        await sender(first.i, hidden[-1:], stalls("none", 0))(ctx)
        while not ctx.get(second.scores_valid):
            await ctx.tick()

    async def feed(ctx):
        while not started:
            await ctx.tick()
        # The first block alone, since nobody makes room for others.
        tile = ImageLayout(config, 30, 8).tile(1)
        beats = images[1][: tile.header_beats + config.row_beats(8)]
        await sender(second.i, beats, stalls("none", 0))(ctx)

    simulate(dut, bench, background=[feed], deadline=2000)
