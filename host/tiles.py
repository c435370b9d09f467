"""Rows of integers to the bytes of an image and back, many tiles at a time.

`hw.layout` defines where every bit lies, one weight at a time; this is the same order as array
transpositions.
"""

from collections.abc import Iterator

import numpy as np

from hw.config import HeadConfig, ceil_div
from hw.layout import ImageLayout

CHUNK_WEIGHTS = 1 << 20
"""Weights worked on at a time: bounds the memory and keeps the working set near the caches."""


def row_chunks(layout: ImageLayout, weights: int = CHUNK_WEIGHTS) -> Iterator[tuple[int, int]]:
    """Row ranges (start, stop) in order that can each be encoded on their own.

    A range is whole tiles, or a part of one tile of whole blocks, of about `weights` weights; the
    last one ends at the last row.
    """
    config = layout.config
    rows = max(1, weights // layout.padded_dim)
    if rows >= config.tile_rows:
        step = span = rows // config.tile_rows * config.tile_rows
    else:
        step = ceil_div(rows, config.units) * config.units
        span = config.tile_rows
    for first in range(0, layout.rows, span):
        last = min(first + span, layout.rows)
        for start in range(first, last, step):
            yield start, min(start + step, last)


def scale_dtype(config: HeadConfig) -> np.dtype:
    """The type of a stored scale."""
    kind = "i" if config.scale_signed else "u"
    return np.dtype(f"<{kind}{config.scale_bits // 8}")


def encode_rows(
    layout: ImageLayout, first_row: int, weights: np.ndarray, scales: np.ndarray
) -> list[tuple[int, np.ndarray]]:
    """The pieces of the image that hold some rows.

    Parameters
    ----------
    layout : ImageLayout
    first_row : int
        Id of the first row; rows must be a range as `row_chunks` gives them.
    weights : int8 [n, padded_dim]
        In range of `weight_bits`; padding columns are zero.
    scales : integers [n, groups]
        In range of the scale format.

    Returns
    -------
    list of (byte offset in the image, uint8 array)
        What is not covered by the pieces of all rows is zero.
    """
    config = layout.config
    rows = len(weights)
    blocks = ceil_div(rows, config.units)
    weights = _pad_rows(weights, blocks * config.units)
    scales = _pad_rows(scales, blocks * config.units)
    body = _encode_body(layout, weights)
    header = _encode_scales(layout, scales)

    tile = layout.tile(first_row // config.tile_rows)
    skip = (first_row - tile.first_row) // config.units
    if skip or rows < tile.rows:
        start = tile.offset_beats * config.bus_bytes
        header_start = start + skip * header.size // blocks
        body_start = start + (tile.header_beats + skip * layout.row_beats) * config.bus_bytes
        return [(header_start, header), (body_start, body)]

    pieces = []
    full = rows // config.tile_rows
    used_header = used_body = 0
    if full:
        tile_bytes = tile.beats * config.bus_bytes
        image = np.zeros((full, tile_bytes), np.uint8)
        per_tile = config.tile_blocks * (header.size // blocks)
        body_bytes = tile.body_beats * config.bus_bytes
        used_header, used_body = full * per_tile, full * body_bytes
        image[:, :per_tile] = header[:used_header].reshape(full, per_tile)
        image[:, tile_bytes - body_bytes :] = body[:used_body].reshape(full, body_bytes)
        pieces.append((tile.offset_beats * config.bus_bytes, image.reshape(-1)))
    if used_body < body.size:
        last = layout.tile(tile.index + full)
        start = last.offset_beats * config.bus_bytes
        pieces.append((start, header[used_header:]))
        pieces.append((start + last.header_beats * config.bus_bytes, body[used_body:]))
    return pieces


def decode_rows(
    layout: ImageLayout, image: np.ndarray, start: int, stop: int
) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of `encode_rows` for any range of rows.

    Parameters
    ----------
    layout : ImageLayout
    image : uint8 [bytes]
        The whole image; only what holds the rows is touched.
    start, stop : int
        ``0 <= start <= stop <= rows``.

    Returns
    -------
    weights : int8 [stop - start, padded_dim]
    scales : int32 [stop - start, groups]
    """
    config = layout.config
    weights = np.empty((stop - start, layout.padded_dim), np.int8)
    scales = np.empty((stop - start, layout.groups), np.int32)
    full_tiles = layout.rows // config.tile_rows
    row = start
    while row < stop:
        tile = layout.tile(row // config.tile_rows)
        skip = row - tile.first_row
        whole = 0 if skip else min((stop - row) // config.tile_rows, full_tiles - tile.index)
        tiles = max(1, whole)
        rows = whole * config.tile_rows or min(stop - row, tile.rows - skip)
        first_block = skip // config.units
        blocks = ceil_div(skip + rows, config.units) - first_block if not whole else tile.blocks

        offset = tile.offset_beats * config.bus_bytes
        tile_bytes = tile.beats * config.bus_bytes
        section = image[offset : offset + tiles * tile_bytes].reshape(tiles, tile_bytes)
        block_bytes = config.units * layout.groups * config.scale_bits // 8
        header = section[:, first_block * block_bytes : (first_block + blocks) * block_bytes]
        body_start = tile.header_beats + first_block * layout.row_beats
        body = section[
            :,
            body_start * config.bus_bytes : (body_start + blocks * layout.row_beats)
            * config.bus_bytes,
        ]
        drop = skip - first_block * config.units
        where = slice(row - start, row - start + rows)
        weights[where] = _decode_body(layout, body)[drop : drop + rows]
        scales[where] = _decode_scales(layout, header)[drop : drop + rows]
        row += rows
    return weights, scales


def _pad_rows(values: np.ndarray, rows: int) -> np.ndarray:
    if len(values) == rows:
        return values
    padded = np.zeros((rows, values.shape[1]), values.dtype)
    padded[: len(values)] = values
    return padded


def _encode_body(layout: ImageLayout, weights: np.ndarray) -> np.ndarray:
    """Body bytes of whole blocks, tile after tile without headers."""
    config = layout.config
    shape = (-1, config.units, layout.row_beats, config.width)
    flat = np.ascontiguousarray(weights.reshape(shape).transpose(0, 2, 1, 3)).reshape(-1)
    if config.weight_bits == 4:
        pairs = flat.view(np.uint8).reshape(-1, 2)
        return pairs[:, 0] & 0x0F | pairs[:, 1] << 4
    return flat.view(np.uint8)


def _decode_body(layout: ImageLayout, body: np.ndarray) -> np.ndarray:
    config = layout.config
    if config.weight_bits == 4:
        nibbles = np.empty((*body.shape, 2), np.int8)
        # Shifting the nibble to the top and back extends its sign.
        nibbles[..., 0] = (body << 4).view(np.int8) >> 4
        nibbles[..., 1] = body.view(np.int8) >> 4
        body = nibbles
    shape = (-1, layout.row_beats, config.units, config.width)
    return body.view(np.int8).reshape(shape).transpose(0, 2, 1, 3).reshape(-1, layout.padded_dim)


def _encode_scales(layout: ImageLayout, scales: np.ndarray) -> np.ndarray:
    """Scale bytes of whole blocks, tile after tile without the padding of headers to beats."""
    config = layout.config
    blocks = scales.reshape(-1, config.units, layout.groups).transpose(0, 2, 1)
    return blocks.astype(scale_dtype(config), order="C").reshape(-1).view(np.uint8)


def _decode_scales(layout: ImageLayout, header: np.ndarray) -> np.ndarray:
    config = layout.config
    stored = np.ascontiguousarray(header).reshape(-1).view(scale_dtype(config))
    blocks = stored.reshape(-1, layout.groups, config.units).transpose(0, 2, 1)
    return blocks.astype(np.int32).reshape(-1, layout.groups)
