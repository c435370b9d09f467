"""From the reader's beats to scored rows: unpacker, hidden memory, scales, farm and row queue."""

from dataclasses import replace

import numpy as np
import pytest

from hw.config import WHOLE_ROW, HeadConfig, ceil_div
from hw.datapath import DataPath
from hw.layout import ImageLayout
from tests.blocks.streams import STALLS, sender, simulate, stalls


def full_range(rng, bits, shape, signed=True):
    """Random integers whose extremes are frequent."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    values = rng.integers(low, high + 1, shape)
    extremes = rng.random(shape)
    values[extremes < 0.1] = low
    values[extremes > 0.9] = high
    return values


def random_head(config, rows, dim, seed):
    """Weights, scales and a hidden state over the full ranges of their formats."""
    rng = np.random.default_rng(seed)
    weights = full_range(rng, config.weight_bits, (rows, dim))
    scales = full_range(rng, config.scale_bits, (rows, config.groups(dim)), config.scale_signed)
    hidden = full_range(rng, config.hidden_bits, dim)
    return weights, scales, hidden


def exact_scores(config, weights, scales, hidden):
    """The scores by definition, in Python integers."""
    group = config.group or weights.shape[1]
    column_scales = np.repeat(scales, group, axis=1)[:, : weights.shape[1]].astype(object)
    return ((weights.astype(object) * hidden.astype(object)) * column_scales).sum(axis=1).tolist()


def image_beats(config, weights, scales):
    """The packed image, bit by bit from the layout's positions."""
    layout = ImageLayout(config, *weights.shape)
    image = bytearray(layout.bytes)

    def place(position, bits, value):
        image_bits = (int(value) & (1 << bits) - 1) << position.bit
        for offset in range(ceil_div(position.bit + bits, 8)):
            image[position.byte + offset] |= image_bits >> 8 * offset & 0xFF

    for row in range(layout.rows):
        for column in range(layout.dim):
            place(layout.weight(row, column), config.weight_bits, weights[row, column])
        for group in range(layout.groups):
            place(layout.scale(row, group), config.scale_bits, scales[row, group])
    size = config.bus_bytes
    return [int.from_bytes(image[at : at + size], "little") for at in range(0, len(image), size)]


def hidden_state_beats(config, hidden):
    bits, padded = config.hidden_bits, config.padded_dim(len(hidden))
    word = sum((int(value) & (1 << bits) - 1) << bits * at for at, value in enumerate(hidden))
    beats = ceil_div(padded * bits, config.bus_bits)
    return [word >> config.bus_bits * at & (1 << config.bus_bits) - 1 for at in range(beats)]


def run_jobs(config, jobs, in_stall="none", out_stall="none", deadline=60000):
    """Run jobs of (weights, scales, hidden) one after the other and return their rows."""
    dut = DataPath(config)
    collected = []

    async def bench(ctx):
        for number, (weights, scales, hidden) in enumerate(jobs):
            beats = hidden_state_beats(config, hidden) + image_beats(config, weights, scales)
            ctx.set(dut.vocabulary, weights.shape[0])
            ctx.set(dut.dim, weights.shape[1])
            ctx.set(dut.start_plan, 1)
            await ctx.tick()
            ctx.set(dut.start_plan, 0)
            await ctx.tick().repeat(3)
            ctx.set(dut.start_data, 1)
            await ctx.tick()
            ctx.set(dut.start_data, 0)
            rows = []
            collected.append(rows)
            feeds.append((beats, number))
            await ctx.tick().until(dut.done & dut.unpacked)
            assert not ctx.get(dut.excess)

    feeds = []

    async def feed(ctx):
        done = 0
        while done < len(jobs):
            if len(feeds) > done:
                beats, number = feeds[done]
                await sender(dut.i, beats, stalls(in_stall, number))(ctx)
                done += 1
            else:
                await ctx.tick()

    async def take(ctx):
        go = stalls(out_stall, 99)
        while True:
            ready = next(go)
            ctx.set(dut.o.ready, ready)
            _, _, valid, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            if valid and ready:
                collected[-1].append((payload.id, payload.score))

    simulate(dut, bench, feed, background=[take], deadline=deadline)
    return collected


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
}


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_exact_with_gaps_on_any_beat(shape, stall):
    config = SHAPES[shape]
    rows, dim = min(config.max_rows, 21), config.max_dim - 1
    head = random_head(config, rows, dim, seed=len(shape))
    (got,) = run_jobs(config, [head], in_stall=stall, out_stall=stall)
    assert got == list(enumerate(exact_scores(config, *head)))


@pytest.mark.parametrize("fold", [2, 4, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_folding_changes_no_score(shape, fold):
    config = replace(SHAPES[shape], fold=fold)
    rows, dim = min(config.max_rows, 11), config.max_dim
    head = random_head(config, rows, dim, seed=fold)
    (got,) = run_jobs(config, [head], in_stall="random")
    assert got == list(enumerate(exact_scores(config, *head)))


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 8, 9])
def test_partial_tiles_and_blocks_give_exactly_the_rows_of_the_vocabulary(rows):
    config = SHAPES["two_units"]
    head = random_head(config, rows, 32, seed=rows)
    (got,) = run_jobs(config, [head])
    assert got == list(enumerate(exact_scores(config, *head)))


def test_jobs_of_different_shapes_follow_each_other():
    config = replace(SHAPES["two_units"], fold=2)
    jobs = [random_head(config, rows, dim, rows) for rows, dim in ((9, 96), (1, 1), (16, 33))]
    got = run_jobs(config, jobs, in_stall="random", out_stall="random")
    assert got == [list(enumerate(exact_scores(config, *head))) for head in jobs]


def test_extreme_values_are_exact():
    config = HeadConfig(
        bus_bits=64, hidden_bits=8, scale_bits=8, tile_rows=1, max_dim=4096, max_rows=2
    )
    weights = np.full((2, 4096), -128)
    scales = np.ones((2, 128), int)
    (got,) = run_jobs(config, [(weights, scales, np.full(4096, -128))])
    assert got == [(0, 67_108_864), (1, 67_108_864)]
