"""The shape of a job computed in hardware equals the layout's."""

import random

import pytest

from hw.config import HeadConfig, ceil_div
from hw.layout import ImageLayout
from hw.plan import TilePlan, hidden_beats
from tests.blocks.streams import simulate

CONFIGS = {
    "power_of_two_tiles": HeadConfig(max_dim=4096, max_rows=300_000),
    "tiles_of_six_rows": HeadConfig(tile_rows=6, max_dim=576, max_rows=50_000),
    "folded_units": HeadConfig(
        bus_bits=64, width=2, fold=8, tile_rows=20, max_dim=200, max_rows=999
    ),
    "whole_row": HeadConfig(bus_bits=128, group=0, width=8, max_dim=100, max_rows=5000),
    "one_row": HeadConfig(bus_bits=64, width=8, tile_rows=1, max_dim=32, max_rows=1),
}


def expected_plan(config, rows, dim):
    layout = ImageLayout(config, rows, dim)
    last = layout.tile(layout.tiles - 1)

    def words(blocks):
        return blocks * layout.groups * config.fold_units

    return {
        "hidden_beats": hidden_beats(config, dim),
        "row_beats": layout.row_beats,
        "tiles": layout.tiles,
        "full_blocks": config.tile_blocks,
        "full_words": words(config.tile_blocks),
        "last_blocks": last.blocks,
        "last_words": words(last.blocks),
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_every_job_shape_is_planned_as_the_layout_has_it(name):
    config = CONFIGS[name]
    dut = TilePlan(config)
    rng = random.Random(name)
    edges = [1, config.tile_rows - 1, config.tile_rows, config.tile_rows + 1, config.max_rows]
    shapes = [(rows, dim) for rows in edges for dim in (1, config.max_dim)]
    shapes += [(rng.randint(1, config.max_rows), rng.randint(1, config.max_dim)) for _ in range(20)]
    longest = config.id_bits + 2 * config.tile_blocks.bit_length() + 10

    async def bench(ctx):
        for rows, dim in shapes:
            if not 1 <= rows <= config.max_rows:
                continue
            ctx.set(dut.rows, rows)
            ctx.set(dut.dim, dim)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            assert not ctx.get(dut.ready)
            await ctx.tick().repeat(2)
            expected = expected_plan(config, rows, dim)
            assert ctx.get(dut.plan.hidden_beats) == expected["hidden_beats"]
            assert ctx.get(dut.plan.row_beats) == expected["row_beats"]
            clocks = 2
            while not ctx.get(dut.ready):
                await ctx.tick()
                clocks += 1
            assert clocks <= longest
            plan = ctx.get(dut.plan)
            assert {key: getattr(plan, key) for key in expected} == expected

    simulate(dut, bench)


def test_hidden_beats_round_up_to_whole_beats():
    config = HeadConfig(bus_bits=512, max_dim=576)
    assert hidden_beats(config, 576) == ceil_div(576 * 16, 512) == 18
    assert hidden_beats(config, 1) == 1
