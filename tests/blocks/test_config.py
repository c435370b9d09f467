"""Parameters are checked before hardware exists, and widths hold the worst case."""

import numpy as np
import pytest

from hw.config import WHOLE_ROW, HeadConfig


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bus_bits": 96}, r"bus_bits must be one of 64, 128, 256, 512, got 96"),
        ({"weight_bits": 5}, r"weight_bits must be one of 4, 8, 16, got 5"),
        ({"scale_bits": 32}, r"scale_bits must be one of 8, 16, got 32"),
        ({"group": 48}, r"group must be one of 32, 64, 128, 0, got 48"),
        ({"hidden_bits": 12}, r"hidden_bits must be one of 8, 16, got 12"),
        ({"fold": 3}, r"fold must be one of 1, 2, 4, 8, got 3"),
        ({"width": 12}, r"width must be a power of two in 1\.\.32, got 12"),
        ({"width": 64}, r"width must be a power of two in 1\.\.32, got 64"),
        ({"bus_bits": 64, "width": 16}, r"width must be a power of two in 1\.\.8, got 16"),
        ({"tile_rows": 3}, r"tile_rows must be a multiple of units \(2\) in 2\.\.32768, got 3"),
        ({"tile_rows": 0}, r"tile_rows must be a multiple of units \(2\) in 2\.\.32768, got 0"),
        ({"k": 0}, r"k must be in 1\.\.256, got 0"),
        ({"k": 257}, r"k must be in 1\.\.256, got 257"),
        ({"max_dim": 0}, r"max_dim must be in 1\.\.65536, got 0"),
        ({"max_rows": 0}, r"max_rows must be in 1\.\.2147483647, got 0"),
        ({"insert_interval": 5}, r"insert_interval must be one of 4, 6, got 5"),
        ({"max_burst": 65}, r"max_burst must be in 1\.\.64, got 65"),
        ({"outstanding_bytes": 5000}, r"outstanding_bytes must be a power of two in 4096\.\."),
        ({"batch": 0}, r"batch must be in 1\.\.16, got 0"),
        ({"batch": 17}, r"batch must be in 1\.\.16, got 17"),
        ({"channels": 3}, r"channels must be one of 1, 2, 4, 8, got 3"),
        ({"batch": 6, "rankers": 3}, r"rankers must be a power of two in 1\.\.6, got 3"),
        ({"batch": 6, "rankers": 8}, r"rankers must be a power of two in 1\.\.6, got 8"),
        ({"weight_bits": 16, "width": 64}, r"width must be a power of two in 1\.\.32, got 64"),
        (
            {"mask": True, "batch": 3, "tile_rows": 32768},
            r"batch \* tile_rows must be at most 65536 with a mask, got 3 \* 32768",
        ),
        ({"outstanding_bytes": 2048}, r"outstanding_bytes must be a power of two in 4096\.\."),
        (
            {"dsp_pairs": True},
            r"dsp_pairs must be off for weight_bits 8 and hidden_bits 16: two products take a "
            r"multiplier with a port of 33 bits, DSP blocks have at most 27",
        ),
        (
            {"dsp_pairs": True, "weight_bits": 16, "hidden_bits": 8},
            r"dsp_pairs must be off for weight_bits 16 and hidden_bits 8: .* of 33 bits",
        ),
        (
            {"dsp_pairs": True, "weight_bits": 4, "width": 32, "fold": 4},
            r"dsp_pairs .* unless two rows or more are computed at once, "
            r"got width 32 and fold 4 of 128 weights per beat",
        ),
        (
            {"dsp_pairs": True, "hidden_bits": 8},
            r"dsp_pairs must be off .* unless batch is 2 or more, got 1",
        ),
    ],
)
def test_values_out_of_range_are_named_with_the_allowed_set(arguments, message):
    with pytest.raises(ValueError, match=message):
        HeadConfig(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 1.5}, "k must be an integer, got 1.5"),
        ({"k": None}, "k must be an integer, got None"),
        ({"bus_bits": "512"}, "bus_bits must be an integer, got '512'"),
        ({"scale_signed": 1}, "scale_signed must be a bool, got 1"),
        ({"bias": 1}, "bias must be a bool, got 1"),
        ({"logsumexp": None}, "logsumexp must be a bool, got None"),
        ({"batch": 2.0}, "batch must be an integer, got 2.0"),
    ],
)
def test_values_of_the_wrong_kind_are_named(arguments, message):
    with pytest.raises(TypeError, match=message):
        HeadConfig(**arguments)


def test_numpy_integers_become_plain_ones():
    config = HeadConfig(k=np.int64(7), max_dim=np.uint16(64))
    assert type(config.k) is int
    assert type(config.max_dim) is int


@pytest.mark.parametrize("weight_bits", [4, 8, 16])
@pytest.mark.parametrize("bus_bits", [64, 128, 256, 512])
def test_every_power_of_two_of_units_and_width_fills_the_beat(bus_bits, weight_bits):
    beat = bus_bits // weight_bits
    for group in (32, 128, WHOLE_ROW):
        width = 1
        while width <= min(beat, group or beat):
            for fold in (fold for fold in (1, 2, 4, 8) if fold <= beat):
                config = HeadConfig(
                    bus_bits=bus_bits, weight_bits=weight_bits, group=group, width=width, fold=fold
                )
                assert config.units * config.width * weight_bits == bus_bits
                assert config.lanes * fold == beat
                assert config.lane_units * config.fold_units == config.units
            width *= 2


@pytest.mark.parametrize("terms", [{}, {"bias": True}, {"bound": True}, {"bias": 1, "bound": 1}])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("weight_bits", [4, 8, 16])
def test_no_score_and_no_rank_reaches_the_lowest_or_highest_code(weight_bits, signed, terms):
    terms = {name: bool(value) for name, value in terms.items()}
    config = HeadConfig(weight_bits=weight_bits, scale_signed=signed, max_dim=4096, **terms)
    dot = 4096 << (weight_bits - 1 + config.hidden_bits - 1)
    term = 2**15 * (2**32 - 1)
    scales = (-(1 << 15), (1 << 15) - 1) if signed else (0, (1 << 16) - 1)
    for scale in scales:
        for sign in (-1, 1):
            total = sign * dot * scale
            towards = term if total > 0 else -term
            score = total + towards * config.bias
            rank = score + towards * config.bound
            for value, bits in (
                (total, config.sum_bits),
                (score, config.score_bits),
                (rank, config.rank_bits),
            ):
                assert -(1 << bits - 1) < value < (1 << bits - 1) - 1
    if not terms:
        assert config.sum_bits == config.score_bits == config.rank_bits
    if not config.bound:
        assert config.score_bits == config.rank_bits


def test_format_words_differ_wherever_images_do():
    configs = [
        HeadConfig(bus_bits=bus, weight_bits=weight, scale_bits=scale, scale_signed=signed,
                   group=group, width=width, tile_rows=tile_rows, channels=channels, bias=bias,
                   bound=bound)
        for bus in (64, 512) for weight in (4, 8, 16) for scale in (8, 16)
        for signed in (False, True) for group in (32, 128, WHOLE_ROW) for width in (1, 4)
        for tile_rows in (128, 32768) for channels in (1, 2, 4, 8)
        for bias in (False, True) for bound in (False, True)
    ]  # fmt: skip
    words = {config.format_word for config in configs}
    assert len(words) == len(configs)
    assert max(words) < 2**32


def test_format_word_has_the_documented_bits():
    config = HeadConfig(
        bus_bits=256, weight_bits=16, group=64, width=4, tile_rows=40, channels=8, bound=True
    )
    word = 40 | 2 << 16 | 6 << 20 | 1 << 19 | 1 << 23 | 2 << 24 | 1 << 26 | 2 << 28 | 1 << 31
    assert config.format_word == word
    assert HeadConfig(channels=4).format_word == HeadConfig().format_word | 1 << 23
    assert HeadConfig(channels=2).format_word == HeadConfig().format_word | 1 << 19


@pytest.mark.parametrize("batch", range(1, 17))
@pytest.mark.parametrize("rankers", [1, 2, 4, 8, 16])
def test_every_vector_has_one_ranker_and_slot(batch, rankers):
    if rankers > batch:
        pytest.raises(ValueError, HeadConfig, batch=batch, rankers=rankers)
        return
    config = HeadConfig(batch=batch, rankers=rankers)
    slots = [len(range(ranker, batch, rankers)) for ranker in range(rankers)]
    assert [config.ranker_vectors(ranker) for ranker in range(rankers)] == slots
    assert sum(slots) == batch


@pytest.mark.parametrize(
    ("arguments", "rankers"),
    [
        ({}, 1),
        ({"batch": 4}, 1),
        ({"batch": 16}, 2),
        ({"batch": 16, "max_dim": 128}, 16),
        ({"batch": 6, "max_dim": 64, "bus_bits": 512}, 4),
        ({"batch": 16, "fold": 8}, 1),
    ],
)
def test_rankers_keep_up_with_rows_of_half_of_the_largest_width(arguments, rankers):
    config = HeadConfig(**arguments)
    assert config.rankers == rankers


@pytest.mark.parametrize(
    ("arguments", "interval"),
    [
        ({}, 6),
        ({"weight_bits": 4}, 4),
        ({"weight_bits": 4, "fold": 2}, 6),
        ({"max_dim": 576}, 4),
        ({"bus_bits": 256, "max_dim": 576}, 6),
        ({"insert_interval": 4}, 4),
    ],
)
def test_the_slower_top_k_is_the_default_where_rows_come_slowly(arguments, interval):
    assert HeadConfig(**arguments).insert_interval == interval


@pytest.mark.parametrize(
    ("arguments", "rows", "vectors"),
    [
        ({"weight_bits": 4, "hidden_bits": 16}, 2, 1),
        ({"weight_bits": 4, "hidden_bits": 8, "batch": 3}, 2, 1),
        ({"weight_bits": 8, "hidden_bits": 8, "batch": 3}, 1, 2),
    ],
)
def test_pairs_share_the_wider_factor(arguments, rows, vectors):
    config = HeadConfig(dsp_pairs=True, **arguments)
    assert (config.paired_rows, config.paired_vectors) == (rows, vectors)
    assert HeadConfig(**arguments).paired_rows * HeadConfig(**arguments).paired_vectors == 1
