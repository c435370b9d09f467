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
    ],
)
def test_no_two_fields_share_a_bit_and_all_lie_in_their_section(config, rows):
    dim = 37
    layout = ImageLayout(config, rows, dim)
    taken = set()

    def claim(position, bits, low, high):
        first = position.byte * 8 + position.bit
        assert low * config.bus_bits <= first
        assert first + bits <= high * config.bus_bits
        for bit in range(first, first + bits):
            assert bit not in taken
            taken.add(bit)

    for row in range(rows):
        tile = layout.tile(row // config.tile_rows)
        body = tile.offset_beats + tile.header_beats
        for group in range(layout.groups):
            claim(layout.scale(row, group), config.scale_bits, tile.offset_beats, body)
        for column in range(layout.padded_dim):
            claim(layout.weight(row, column), config.weight_bits, body, body + tile.body_beats)


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
    with pytest.raises(ValueError, match=r"rows must be at least 1, got 0"):
        ImageLayout(HeadConfig(), 0, 576)
