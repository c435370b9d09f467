"""The layout of images: sizes as documented, every field in a place of its own."""

import pytest

from hw.config import WHOLE_ROW, HeadConfig
from hw.layout import ImageLayout


@pytest.mark.parametrize(
    ("tile_rows", "beats", "tiles", "header", "body"),
    [(64, 470_016, 768, 36, 576), (256, 470_016, 192, 144, 2304), (4, 479_232, 12288, 3, 36)],
)
def test_smollm2_has_the_documented_size(tile_rows, beats, tiles, header, body):
    layout = ImageLayout(HeadConfig(tile_rows=tile_rows), 49152, 576)
    assert (layout.beats, layout.tiles, layout.body_beats) == (beats, tiles, 442_368)
    assert layout.bytes == 64 * beats
    assert (layout.tile(0).header_beats, layout.tile(0).body_beats) == (header, body)


@pytest.mark.parametrize("rows", [1, 5, 12, 13])
@pytest.mark.parametrize(
    "config",
    [
        HeadConfig(bus_bits=64, width=4, tile_rows=6),
        HeadConfig(bus_bits=64, weight_bits=4, width=2, tile_rows=8, scale_bits=8),
        HeadConfig(bus_bits=128, weight_bits=4, group=WHOLE_ROW, width=8, tile_rows=4),
        HeadConfig(bus_bits=64, width=1, tile_rows=8),
        HeadConfig(bus_bits=64, weight_bits=16, width=2, tile_rows=4, scale_bits=8, bound=True),
        HeadConfig(bus_bits=128, width=16, tile_rows=3, bias=True, bound=True, channels=2),
        HeadConfig(bus_bits=64, width=8, tile_rows=5, bias=True, channels=4),
    ],
)
def test_no_two_fields_share_a_bit_and_all_lie_in_their_section(config, rows):
    dim = 37
    layout = ImageLayout(config, rows, dim)
    taken = set()

    def claim(position, bits, tile, low, high):
        first = position.byte * 8 + position.bit
        assert position.channel == tile.channel
        assert (tile.offset_beats + low) * config.bus_bits <= first
        assert first + bits <= (tile.offset_beats + high) * config.bus_bits
        for bit in range(first, first + bits):
            assert (tile.channel, bit) not in taken
            taken.add((tile.channel, bit))

    for row in range(rows):
        tile = layout.tile(row // config.tile_rows)
        for term in range(config.terms):
            claim(layout.term(row, term), 16, tile, 0, tile.header_beats)
        for group in range(layout.groups):
            claim(layout.scale(row, group), config.scale_bits, tile, 0, tile.header_beats)
        for column in range(layout.padded_dim):
            claim(
                layout.weight(row, column), config.weight_bits, tile, tile.header_beats, tile.beats
            )


@pytest.mark.parametrize("channels", [1, 2, 4, 8])
@pytest.mark.parametrize("rows", [1, 4, 5, 8, 9, 33, 61])
def test_channels_have_all_tiles_in_turn_without_gaps(rows, channels):
    config = HeadConfig(bus_bits=64, width=4, tile_rows=4, bias=True, channels=channels)
    layout = ImageLayout(config, rows, 40)
    ends = [0] * channels
    counts = [0] * channels
    for index in range(layout.tiles):
        tile = layout.tile(index)
        assert tile.channel == index % channels
        assert tile.offset_beats == ends[tile.channel]
        ends[tile.channel] += tile.beats
        counts[tile.channel] += tile.rows
    every = range(channels)
    assert [layout.channel_beats(channel) for channel in every] == ends
    assert [layout.channel_bytes(channel) for channel in every] == [8 * end for end in ends]
    assert [layout.channel_rows(channel) for channel in every] == counts
    assert sum(counts) == rows
    assert layout.beats == sum(ends) == layout.header_beats + layout.body_beats


def test_terms_come_first_in_a_header_and_scales_follow_at_once():
    config = HeadConfig(bus_bits=64, width=4, tile_rows=6, bias=True, bound=True)
    layout = ImageLayout(config, 9, 64)
    second = layout.tile(0).beats * 8
    assert layout.tile(0).header_beats == 6  # 6 rows of 2 terms and 2 scales
    assert [layout.term(row, 0).byte for row in (0, 5, 6)] == [0, 10, second]
    # The second tile has 3 rows, stored as 2 blocks of 2.
    assert [layout.term(row, 1).byte for row in (0, 5, 6)] == [12, 22, second + 8]
    assert [layout.scale(row, 0).byte for row in (0, 1, 2, 6)] == [24, 26, 32, second + 16]


@pytest.mark.parametrize("vectors", [1, 3])
@pytest.mark.parametrize("rows", [1, 5, 12, 31])
def test_mask_bits_fill_a_range_of_each_channel_tile_by_tile(rows, vectors):
    config = HeadConfig(bus_bits=64, width=8, tile_rows=5, channels=2, batch=3, mask=True)
    layout = ImageLayout(config, rows, 40)
    taken = set()
    for row in range(rows):
        tile, place = divmod(row, 5)
        for vector in range(vectors):
            position = layout.mask(row, vector, vectors)
            bit = position.byte * 8 + position.bit
            assert position.channel == tile % 2
            assert bit == (tile // 2 * vectors + vector) * 5 + place
            assert bit < layout.mask_beats(position.channel, vectors) * 64
            taken.add((position.channel, bit))
    assert len(taken) == rows * vectors
    for channel in range(2):
        bits = layout.channel_tiles(channel) * vectors * 5
        assert layout.mask_beats(channel, vectors) * 64 - bits in range(64)


@pytest.mark.parametrize("vectors", [1, 2, 5])
@pytest.mark.parametrize("rankers", [1, 4])
def test_every_score_has_a_place_of_its_own_in_the_chunks_of_its_ranker(rankers, vectors):
    config = HeadConfig(
        bus_bits=64, width=8, tile_rows=5, channels=2, batch=5, rankers=rankers, all_logits=True
    )
    layout = ImageLayout(config, 61, 40)
    chunk_bytes = 16 * config.bus_bytes
    words = {}
    for row in range(61):
        for vector in range(vectors):
            position = layout.logit(row, vector, vectors)
            chunk, place = divmod(position.byte, chunk_bytes)
            assert position.channel == row // 5 % 2
            assert place % 8 == position.bit == 0
            assert chunk % rankers == vector % rankers
            assert position.byte + 8 <= layout.logits_bytes(position.channel, vectors)
            word = chunk // rankers * (chunk_bytes // 8) + place // 8
            words.setdefault((position.channel, vector % rankers), []).append((row, vector, word))
    # Each ranker writes its words in the order in which rows come, slot by slot, without a gap.
    for numbered in words.values():
        numbered.sort()
        assert [word for _, _, word in numbered] == list(range(len(numbered)))


def test_tiles_follow_each_other_to_the_end_of_the_image():
    layout = ImageLayout(HeadConfig(bus_bits=64, tile_rows=4), 11, 40)
    offset = 0
    rows = 0
    for index in range(layout.tiles):
        tile = layout.tile(index)
        assert (tile.offset_beats, tile.first_row) == (offset, rows)
        offset += tile.beats
        rows += tile.rows
    assert (offset, rows) == (layout.beats, 11)


def test_a_beat_holds_units_rows_of_width_columns():
    layout = ImageLayout(HeadConfig(), 64, 576)
    body = 36 * 64
    assert (layout.weight(0, 0).byte, layout.weight(0, 31).byte) == (body, body + 31)
    assert layout.weight(1, 0).byte == body + 32
    assert layout.weight(0, 32).byte == body + 64
    assert layout.weight(2, 0).byte == body + 18 * 64
    assert (layout.scale(0, 0).byte, layout.scale(1, 0).byte) == (0, 2)
    assert (layout.scale(0, 1).byte, layout.scale(2, 0).byte) == (4, 72)


def test_positions_outside_the_head_are_refused():
    layout = ImageLayout(HeadConfig(), 10, 576)
    with pytest.raises(IndexError, match=r"row must be in 0\.\.9, got 10"):
        layout.weight(10, 0)
    with pytest.raises(IndexError, match=r"column must be in 0\.\.575, got 576"):
        layout.weight(0, 576)
    with pytest.raises(IndexError, match=r"group must be in 0\.\.17, got 18"):
        layout.scale(0, 18)
    with pytest.raises(IndexError, match="term must be one of the image's 0, got 0"):
        layout.term(0, 0)
    with pytest.raises(IndexError, match=r"vector must be in 0\.\.1, got 2"):
        layout.mask(0, 2, 2)
    with pytest.raises(IndexError, match=r"vector must be in 0\.\.1, got 2"):
        layout.logit(0, 2, 2)
    with pytest.raises(ValueError, match=r"rows must be at least 1, got 0"):
        ImageLayout(HeadConfig(), 0, 576)
