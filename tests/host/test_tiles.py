"""Whole tiles are encoded and decoded as `ImageLayout` places every single bit."""

import dataclasses

import numpy as np
import pytest

from host.image.tiles import (
    decode_rows,
    decode_terms,
    encode_rows,
    encode_terms,
    row_chunks,
    scale_dtype,
    weight_dtype,
)
from hw.config import BUS_BITS, CHANNELS, GROUPS, SCALE_BITS, WEIGHT_BITS, HeadConfig
from hw.layout import ImageLayout


def random_layouts(count: int, seed: int):
    """Layouts over all formats, beat shapes and partial tiles, with the shapes kept small."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        bus, weight, scale = (
            values[number // step % len(values)]
            for values, step in ((BUS_BITS, 1), (WEIGHT_BITS, 4), (SCALE_BITS, 12))
        )
        group = GROUPS[int(rng.integers(len(GROUPS)))]
        beat = bus // weight
        widest = min(beat, group) if group else beat
        width = 1 << int(rng.integers(widest.bit_length()))
        units = beat // width
        channels = CHANNELS[int(rng.integers(len(CHANNELS)))]
        config = HeadConfig(
            bus_bits=bus,
            weight_bits=weight,
            scale_bits=scale,
            scale_signed=bool(rng.integers(2)),
            group=group,
            width=width,
            tile_rows=units * int(rng.integers(1, 5)),
            channels=channels,
            bias=bool(rng.integers(2)),
            bound=bool(rng.integers(2)),
        )
        rows = int(rng.integers(1, (2 * channels + 1) * config.tile_rows + 2))
        yield ImageLayout(config, min(rows, 300), int(rng.integers(1, 150)))


def random_rows(layout: ImageLayout, seed: int = 0):
    """Weights, scales and terms over their full ranges; padding columns are zero."""
    rng = np.random.default_rng(seed)
    config = layout.config
    half = 1 << config.weight_bits - 1
    weights = np.zeros((layout.rows, layout.padded_dim), weight_dtype(config.weight_bits))
    weights[:, : layout.dim] = rng.integers(-half, half, (layout.rows, layout.dim))
    info = np.iinfo(scale_dtype(config))
    shape = (layout.rows, layout.groups)
    scales = rng.integers(info.min, info.max, shape, np.int32, endpoint=True)
    return weights, scales, rng.integers(-(2**15), 2**15, (layout.rows, config.terms))


def encode(layout: ImageLayout, weights, scales, terms, chunk: int) -> list[np.ndarray]:
    channels = range(layout.config.channels)
    images = [np.zeros(layout.channel_bytes(channel), np.uint8) for channel in channels]
    for start, stop in row_chunks(layout, chunk):
        part = slice(start, stop)
        pieces = encode_rows(layout, start, weights[part], scales[part], terms[part])
        for channel, offset, piece in pieces:
            assert not images[channel][offset : offset + piece.size].any()
            images[channel][offset : offset + piece.size] = piece
    return images


def field(images: list[np.ndarray], position, bits: int) -> int:
    image = images[position.channel]
    if bits == 4:
        return int(image[position.byte]) >> position.bit & 15
    assert position.bit == 0
    return int.from_bytes(image[position.byte : position.byte + bits // 8].tobytes(), "little")


@pytest.mark.parametrize("seed", range(4))
def test_every_weight_scale_and_term_lies_where_the_layout_says(seed):
    for layout in random_layouts(24, seed):
        config = layout.config
        weights, scales, terms = random_rows(layout)
        image = encode(layout, weights, scales, terms, chunk=2000)
        # A few columns and groups of every row, all of the first and last.
        rng = np.random.default_rng(seed)
        for row in range(layout.rows):
            everything = row in (0, layout.rows - 1)
            columns = range(layout.padded_dim) if everything else rng.integers(layout.dim, size=3)
            for column in columns:
                found = field(image, layout.weight(row, int(column)), config.weight_bits)
                assert found == int(weights[row, column]) % (1 << config.weight_bits)
            for group in range(layout.groups):
                found = field(image, layout.scale(row, group), config.scale_bits)
                assert found == int(scales[row, group]) % (1 << config.scale_bits)
            for term in range(config.terms):
                found = field(image, layout.term(row, term), 16)
                assert found == int(terms[row, term]) % (1 << 16)


def test_bytes_that_hold_no_row_are_zero():
    config = HeadConfig(bus_bits=64, group=0, width=2, tile_rows=8, channels=2, bias=True)
    layout = ImageLayout(config, rows=9, dim=3)
    ones = np.full((9, 4), -1, np.int8), np.full((9, 1), 0xFFFF), np.full((9, 1), -1)
    images = encode(layout, *ones, chunk=100)
    used = [np.zeros(image.size, bool) for image in images]
    for row in range(9):
        places = [layout.weight(row, column) for column in range(4)]
        for wide in (layout.scale(row, 0), layout.term(row, 0)):
            places += [wide, dataclasses.replace(wide, byte=wide.byte + 1)]
        for place in places:
            used[place.channel][place.byte] = True
    for image, mark in zip(images, used, strict=True):
        assert (image[mark] == 255).all()
        assert not image[~mark].any()


def test_terms_can_be_stored_after_the_rows():
    for layout in random_layouts(64, seed=8):
        weights, scales, terms = random_rows(layout)
        images = encode(layout, weights, scales, np.zeros_like(terms), chunk=2000)
        for channel, offset, piece in encode_terms(layout, 0, terms):
            images[channel][offset : offset + piece.size] = piece
        expected = encode(layout, weights, scales, terms, chunk=2000)
        assert all(map(np.array_equal, images, expected))


@pytest.mark.parametrize("chunk", [1, 700, 1 << 20])
def test_the_image_does_not_depend_on_the_chunks(chunk):
    for layout in random_layouts(48, seed=9):
        rows = random_rows(layout)
        whole = encode(layout, *rows, chunk=1 << 30)
        assert all(map(np.array_equal, encode(layout, *rows, chunk), whole))


def test_any_range_of_rows_is_decoded():
    rng = np.random.default_rng(1)
    for layout in random_layouts(96, seed=2):
        weights, scales, terms = random_rows(layout)
        image = encode(layout, weights, scales, terms, chunk=5000)
        for _ in range(6):
            start, stop = sorted(int(n) for n in rng.integers(layout.rows + 1, size=2))
            found = decode_rows(layout, image, start, stop)
            assert np.array_equal(found[0], weights[start:stop])
            assert np.array_equal(found[1], scales[start:stop])
            assert np.array_equal(decode_terms(layout, image, start, stop), terms[start:stop])


def test_chunks_cover_the_rows_and_stay_within_whole_tiles_or_one():
    for layout in random_layouts(64, seed=3):
        for weights in (1, 1000, 100_000):
            config, expected = layout.config, 0
            for start, stop in row_chunks(layout, weights):
                assert start == expected
                first, last = start // config.tile_rows, (stop - 1) // config.tile_rows
                assert start % config.units == 0
                assert first == last or start % config.tile_rows == 0
                assert first == last or stop == layout.rows or stop % config.tile_rows == 0
                assert stop - start <= max(weights // layout.padded_dim, 0) + config.units
                expected = stop
            assert expected == layout.rows
