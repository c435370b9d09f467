"""Multipliers and block RAMs counted in the elaborated design."""

from dataclasses import replace

import pytest

from hw.config import MULTIPLIER_BITS, HeadConfig
from hw.dot import scale_operand_bits
from hw.multiplier import WideMultiplier
from hw.ram import ram_style
from hw.resources import BLOCK_RAMS, block_rams, buffers_of_dim, count

SMALL = HeadConfig(bus_bits=64, max_dim=64, max_rows=64, k=4, tile_rows=8)
EVERYTHING = replace(
    SMALL, channels=2, batch=2, rankers=2, bias=True, bound=True, mask=True, logsumexp=True
)
CASES = {
    "small": SMALL,
    "folded": replace(SMALL, width=4, fold=4),
    "int4": replace(SMALL, weight_bits=4, width=None, scale_signed=True, scale_bits=8),
    "whole_rows": replace(SMALL, group=0, max_dim=4096, max_rows=1000),
    "everything": EVERYTHING,
}


@pytest.mark.parametrize("case", CASES)
def test_a_multiplier_is_counted_for_every_product(case):
    config = CASES[case]
    assert scale_operand_bits(config) <= 18
    farms = config.channels * config.batch
    multipliers = count(config).multipliers
    assert multipliers["dot"] == farms * config.lanes
    limbs = WideMultiplier.limbs_of(config.dot_bits)
    assert multipliers["scale"] == farms * config.lane_units * limbs


def test_terms_and_logsumexp_have_multipliers_of_their_own():
    config = replace(EVERYTHING, channels=1)
    limbs = WideMultiplier.limbs_of(MULTIPLIER_BITS + 1)
    multipliers = count(config).multipliers
    # One for each term of each ranker, and one for the bounds of the results.
    assert multipliers["terms"] == (config.channels * config.rankers * config.terms + 1) * limbs
    assert multipliers["logsumexp"] > 0
    plain = count(replace(config, logsumexp=False, bound=False, bias=False)).multipliers
    assert plain["terms"] == plain["logsumexp"] == 0


@pytest.mark.parametrize(
    ("family", "width", "depth", "blocks"),
    [
        ("ecp5", 36, 512, 1),
        ("ecp5", 37, 512, 2),
        ("ecp5", 1, 16384, 1),
        ("ecp5", 18, 1025, 2),
        ("ecp5", 512, 18, 15),
        ("ecp5", 131, 1100, 15),
        ("ultrascale+", 72, 512, 1),
        ("ultrascale+", 73, 512, 2),
        ("ultrascale+", 36, 1025, 2),
    ],
)
def test_a_memory_takes_the_block_rams_of_its_best_shape(family, width, depth, blocks):
    assert block_rams(family, width, depth) == blocks


@pytest.mark.parametrize(
    ("width", "depth", "style"),
    [
        (512, 16, "distributed"),
        (512, 17, "block"),
        (32, 128, "block"),
        (31, 128, "distributed"),
        (1, 1, "distributed"),
    ],
)
def test_a_shallow_or_small_memory_is_worth_no_block_ram(width, depth, style):
    assert ram_style(width, depth) == style


def test_wide_queues_of_few_words_are_not_counted():
    config = replace(SMALL, batch=8, fold=4)
    assert not any(depth <= 16 and width > 300 for width, depth in count(config).memories)


def test_every_shape_of_a_block_ram_has_the_same_bits_but_for_parity():
    for shapes in BLOCK_RAMS.values():
        most = max(width * depth for width, depth in shapes)
        assert {width * depth for width, depth in shapes} <= {most, most * 8 // 9}


def test_larger_buffers_are_counted():
    def most(config):
        return max(width * depth for width, depth in count(config).memories)

    assert most(replace(SMALL, outstanding_bytes=2**17)) == 8 * 2**17
    assert (
        count(replace(SMALL, mask=True, tile_rows=2048)).memories
        != count(replace(SMALL, tile_rows=2048)).memories
    )


def test_with_the_width_only_hidden_states_and_scales_grow():
    config = replace(SMALL, max_rows=4096, channels=2)
    wide = replace(config, max_dim=8192)
    family = "ecp5"

    def others(config):
        return count(config).block_rams(family) - config.channels * buffers_of_dim(
            config
        ).block_rams(family)

    assert others(config) == others(wide)
    assert buffers_of_dim(wide).block_rams(family) > buffers_of_dim(config).block_rams(family)
