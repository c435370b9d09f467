"""Masks as they are given and as they lie in memory."""

import numpy as np
import pytest

from host.errors import UserError
from host.masks import allowed_rows, check_mask, device_mask, load_mask, mask_words, pack_mask
from hw.config import HeadConfig
from hw.layout import ImageLayout

RNG = np.random.default_rng(2)


def test_bit_v_of_word_v_by_32_is_row_v():
    mask = np.array([[1 << 5, 0b11], [-(2**31), 0]], np.int32)
    allowed = allowed_rows(check_mask(mask, 2, 40), 40)
    assert [np.flatnonzero(row).tolist() for row in allowed] == [[5, 32, 33], [31]]


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 64, 100])
def test_packing_is_the_inverse(rows):
    allowed = RNG.random((3, rows)) < 0.5
    mask = pack_mask(allowed)
    assert mask.shape == (3, mask_words(rows)) and mask.dtype == np.int32
    assert np.array_equal(allowed_rows(mask, rows), allowed)


def test_bits_past_the_last_row_are_ignored():
    mask = np.full((1, 2), -1, np.int32)
    assert allowed_rows(mask, 40).shape == (1, 40)
    layout = ImageLayout(HeadConfig(tile_rows=64), 40, 8)
    (data,) = device_mask(layout, mask)
    assert np.unpackbits(data, bitorder="little").sum() == 40


@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize("tile_rows", [2, 16, 64])
@pytest.mark.parametrize("rows", [1, 32, 77, 130])
@pytest.mark.parametrize("vectors", [1, 3])
def test_every_bit_lies_where_the_layout_says(channels, tile_rows, rows, vectors):
    config = HeadConfig(bus_bits=64, width=4, tile_rows=tile_rows, channels=channels)
    layout = ImageLayout(config, rows, 8)
    allowed = RNG.random((vectors, rows)) < 0.5
    ranges = device_mask(layout, pack_mask(allowed))
    expected = [np.zeros(layout.mask_beats(c, vectors) * 8, np.uint8) for c in range(channels)]
    for (vector, row), bit in np.ndenumerate(allowed):
        place = layout.mask(row, vector, vectors)
        expected[place.channel][place.byte] |= int(bit) << place.bit
    assert all(map(np.array_equal, ranges, expected))


def test_the_mask_of_one_state_may_have_one_dimension():
    assert check_mask(np.array([3, 4], np.int32), 1, 40).tolist() == [[3, 4]]


@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.float32, bool])
def test_another_kind_of_numbers_is_refused(kind):
    with pytest.raises(UserError, match=f"expected int32.*, found {np.dtype(kind)}"):
        check_mask(np.zeros((2, 2), kind), 2, 40)


@pytest.mark.parametrize("shape", [(2, 1), (2, 3), (1, 2), (3, 2), (2,), (2, 2, 1), ()])
def test_another_shape_is_refused_with_both(shape):
    with pytest.raises(UserError, match=r"2 states of 40 rows \(expected \[2, 2\], found \["):
        check_mask(np.zeros(shape, np.int32), 2, 40)


def test_the_other_byte_order_is_the_same_mask(tmp_path):
    mask = np.array([[1, 2]], np.int32)
    np.save(tmp_path / "mask.npy", mask.astype(">i4"))
    assert np.array_equal(load_mask(tmp_path / "mask.npy", 1, 40), mask)


def test_a_file_with_another_mask_is_named(tmp_path):
    np.savez(tmp_path / "a.npz", mask=np.zeros((2, 2), np.int32), other=np.zeros(3))
    assert load_mask(tmp_path / "a.npz", 2, 40).shape == (2, 2)
    with pytest.raises(UserError, match=r"a\.npz: mask: the shape does not fit 3 states"):
        load_mask(tmp_path / "a.npz", 3, 40)
