"""The shape of a job computed in hardware equals the layout's."""

import random

import pytest

from hw.config import HeadConfig, ceil_div
from hw.layout import ImageLayout
from hw.plan import TilePlan, hidden_beats, state_beats
from tests.blocks.streams import simulate

CONFIGS = {
    "power_of_two_tiles": HeadConfig(max_dim=4096, max_rows=300_000),
    "tiles_of_six_rows": HeadConfig(tile_rows=6, max_dim=576, max_rows=50_000),
    "folded_units": HeadConfig(
        bus_bits=64, width=2, fold=8, tile_rows=20, max_dim=200, max_rows=999
    ),
    "whole_row": HeadConfig(bus_bits=128, group=0, width=8, max_dim=100, max_rows=5000),
    "one_row": HeadConfig(bus_bits=64, width=8, tile_rows=1, max_dim=32, max_rows=1),
    "parameters": HeadConfig(bus_bits=64, logsumexp=True, max_dim=200, max_rows=999),
    "batch": HeadConfig(bus_bits=64, width=8, tile_rows=7, max_dim=576, max_rows=999, batch=16),
    "batch_of_five_with_terms": HeadConfig(
        bus_bits=128, scale_bits=8, bias=True, bound=True, max_dim=300, max_rows=999, batch=5
    ),
    "words_of_weights_of_16_bits": HeadConfig(
        bus_bits=64, weight_bits=16, bias=True, width=2, fold=2, max_dim=99, max_rows=500
    ),
    "two_channels": HeadConfig(bus_bits=64, tile_rows=4, max_dim=100, max_rows=300, channels=2),
    "channels_with_odd_tiles": HeadConfig(
        bus_bits=64, width=8, tile_rows=3, max_dim=64, max_rows=2000, channels=8, batch=3
    ),
    "mask": HeadConfig(bus_bits=64, tile_rows=24, max_dim=64, max_rows=2000, mask=True),
    "everything": HeadConfig(
        bus_bits=128, tile_rows=40, max_dim=64, max_rows=20_000, batch=7, channels=4,
        bias=True, bound=True, logsumexp=True, mask=True,
    ),
    "mask_of_channels_with_tiles_of_a_power_of_two": HeadConfig(
        bus_bits=64, tile_rows=4, max_dim=64, max_rows=400, batch=4, channels=8, mask=True
    ),
}  # fmt: skip


def expected_plan(config, rows, dim, vectors, channel):
    layout = ImageLayout(config, rows, dim)
    tiles = layout.channel_tiles(channel)
    last = layout.tile((tiles - 1) * config.channels + channel) if tiles else None

    def words(blocks):
        """Header bits in units of `lane_units` scales, one piece per block and way."""
        per_row = layout.groups * config.scale_bits + config.terms * 16
        return blocks * config.units * per_row // (config.lane_units * config.scale_bits)

    expected = {
        "hidden_beats": hidden_beats(config, dim, vectors),
        "state_beats": state_beats(config, dim),
        "row_beats": layout.row_beats,
        "tiles": tiles,
        "rows": layout.channel_rows(channel),
        "full_blocks": config.tile_blocks,
        "full_words": words(config.tile_blocks),
    }
    if tiles:
        expected |= {"last_blocks": last.blocks, "last_words": words(last.blocks)}
    if config.mask:
        expected["mask_beats"] = layout.mask_beats(channel, vectors)
    return expected


def job_shapes(config, name):
    rng = random.Random(name)
    edges = [1, config.tile_rows - 1, config.tile_rows, config.tile_rows + 1, config.max_rows]
    edges += [config.tile_rows * (config.channels - 1), config.tile_rows * config.channels + 1]
    shapes = [(rows, dim) for rows in edges for dim in (1, config.max_dim)]
    shapes += [(rng.randint(1, config.max_rows), rng.randint(1, config.max_dim)) for _ in range(20)]
    for number, (rows, dim) in enumerate(shapes):
        if 1 <= rows <= config.max_rows:
            yield rows, dim, config.batch if number % 2 else rng.randint(1, config.batch)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_job_shape_is_planned_as_the_layout_has_it(name):
    config = CONFIGS[name]
    dut = TilePlan(config)
    early = ["hidden_beats", "state_beats", "row_beats"]
    early += ["tiles", "rows"] if config.channels > 1 else []

    async def bench(ctx):
        for rows, dim, vectors in job_shapes(config, name):
            ctx.set(dut.rows, rows)
            ctx.set(dut.dim, dim)
            ctx.set(dut.vectors, vectors)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            assert not ctx.get(dut.ready)
            await ctx.tick().repeat(2)
            expected = [
                expected_plan(config, rows, dim, vectors, channel)
                for channel in range(config.channels)
            ]
            # The bench has seen a clock edge fewer than the control that waits for it.
            clocks = 2
            while not ctx.get(dut.hidden_ready):
                await ctx.tick()
                clocks += 1
            if config.batch == config.channels == 1:
                assert clocks == 2
            for channel in range(config.channels):
                plan = ctx.get(dut.plan[channel])
                for key in early:
                    assert getattr(plan, key) == expected[channel][key], (key, channel)
            while not ctx.get(dut.ready):
                await ctx.tick()
                clocks += 1
            assert clocks <= TilePlan.longest(config)
            for channel in range(config.channels):
                plan = ctx.get(dut.plan[channel])
                found = {key: getattr(plan, key) for key in expected[channel]}
                assert found == expected[channel], channel

    simulate(dut, bench)


def test_one_vector_of_one_channel_never_waits_for_its_hidden_state():
    dut = TilePlan(CONFIGS["parameters"])

    async def bench(ctx):
        ctx.set(dut.rows, 5)
        ctx.set(dut.dim, 7)
        ctx.set(dut.vectors, 1)
        ctx.set(dut.start, 1)
        for _ in range(TilePlan.longest(dut.config)):
            assert ctx.get(dut.hidden_ready)
            await ctx.tick()
            ctx.set(dut.start, 0)

    simulate(dut, bench)


def test_states_are_padded_to_whole_beats_and_followed_by_parameters():
    config = HeadConfig(bus_bits=512, max_dim=576, batch=4)
    assert state_beats(config, 576) == ceil_div(576 * 16, 512) == 18
    assert state_beats(config, 1) == 1
    assert hidden_beats(config, 576, 3) == 54
    assert hidden_beats(HeadConfig(bus_bits=512, batch=4, bias=True), 576, 3) == 3 * 19
    assert hidden_beats(HeadConfig(bus_bits=64, batch=4, logsumexp=True), 4, 3) == 3 * (8 + 2)
