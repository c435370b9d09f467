"""Masks: which rows may be chosen for a state, as grammar libraries give them and in memory.

A mask is int32 [N, ceil(V / 32)]: bit ``v % 32`` of word ``v // 32`` is 1 where row v is allowed.
Bits of rows >= V are ignored.
"""

from pathlib import Path

import numpy as np

from host.errors import UserError
from host.files.arrays import load_array
from hw.config import ceil_div
from hw.layout import ImageLayout

WORD_BITS = 32
WORD = np.dtype("<i4")


def mask_words(rows: int) -> int:
    """Words of the mask of one state."""
    return ceil_div(rows, WORD_BITS)


def check_mask(mask: np.ndarray, states: int, rows: int) -> np.ndarray:
    """A mask as int32 [states, mask_words(rows)]; that of a single state may be of one dimension.

    Raises
    ------
    UserError
        The kind of the numbers or the shape is another; the message has both.
    """
    mask = np.asarray(mask)
    # Wider or floating-point numbers are most likely one number a row, not bits.
    if mask.dtype.newbyteorder("=") != np.int32:
        unsigned = mask.dtype.kind == "u" and mask.dtype.itemsize == WORD.itemsize
        raise UserError(
            "mask",
            "must be of words of 32 bits",
            expected="int32" + (", as of mask.view(numpy.int32)" if unsigned else ""),
            found=mask.dtype,
        )
    if mask.ndim == 1 and states == 1:
        mask = mask[np.newaxis]
    expected = [states, mask_words(rows)]
    if list(mask.shape) != expected:
        raise UserError(
            "mask",
            f"the shape does not fit {states} states of {rows} rows",
            expected=expected,
            found=list(mask.shape),
        )
    return np.ascontiguousarray(mask, WORD)


def load_mask(path: Path, states: int, rows: int) -> np.ndarray:
    """The mask in an .npy file, or array `mask` of an .npz file, checked.

    Raises
    ------
    UserError
        The file cannot be read, or holds no such mask; the message names it.
    """
    mask = load_array(path, "mask")
    try:
        return check_mask(mask, states, rows)
    except UserError as error:
        raise UserError(path, str(error)) from None


def allowed_rows(mask: np.ndarray, rows: int) -> np.ndarray:
    """Which rows a checked mask allows, bool [N, rows]."""
    return _bits(mask, rows).astype(bool)


def pack_mask(allowed: np.ndarray) -> np.ndarray:
    """The mask that allows the rows where bool [N, V] is true, int32 [N, ceil(V / 32)]."""
    allowed = np.asarray(allowed, bool)
    padding = -allowed.shape[1] % WORD_BITS
    bits = np.packbits(np.pad(allowed, ((0, 0), (0, padding))), axis=1, bitorder="little")
    return bits.view(WORD)


def _bits(mask: np.ndarray, rows: int) -> np.ndarray:
    return np.unpackbits(mask.view(np.uint8), axis=1, count=rows, bitorder="little")


def device_mask(layout: ImageLayout, mask: np.ndarray) -> list[np.ndarray]:
    """A checked mask of the vectors of one job, as it lies in memory: see `ImageLayout.mask`.

    Parameters
    ----------
    layout : ImageLayout
    mask : int32 [vectors, mask_words(layout.rows)]

    Returns
    -------
    list of uint8 [mask_beats * bus_bytes], one per channel
    """
    config = layout.config
    vectors = len(mask)
    bits = np.zeros((vectors, layout.tiles * config.tile_rows), np.uint8)
    bits[:, : layout.rows] = _bits(mask, layout.rows)
    tiles = bits.reshape(vectors, layout.tiles, config.tile_rows)
    ranges = []
    for channel in range(config.channels):
        mine = tiles[:, channel :: config.channels].transpose(1, 0, 2)
        packed = np.packbits(mine, bitorder="little")
        data = np.zeros(layout.mask_beats(channel, vectors) * config.bus_bytes, np.uint8)
        data[: packed.size] = packed
        ranges.append(data)
    return ranges
