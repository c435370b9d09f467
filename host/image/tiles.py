"""Rows of integers to the bytes of an image and back, many tiles at a time.

`hw.layout` defines where every bit lies, one weight at a time; this is the same order as array
transpositions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hw.config import TERM_BITS, HeadConfig, ceil_div
from hw.layout import ImageLayout, Tile

Piece = tuple[int, int, np.ndarray]
"""Channel, byte offset in the channel's image, bytes."""

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


def weight_dtype(weight_bits: int) -> np.dtype:
    """The type that holds a weight; of 4 bits, one weight a byte."""
    return np.dtype("<i2" if weight_bits == 16 else "i1")


TERM_DTYPE = np.dtype(f"<i{TERM_BITS // 8}")
"""The type of a stored row term."""


def encode_rows(
    layout: ImageLayout,
    first_row: int,
    weights: np.ndarray,
    scales: np.ndarray,
    terms: np.ndarray | None = None,
) -> list[Piece]:
    """The pieces of the image that hold some rows.

    Parameters
    ----------
    layout : ImageLayout
    first_row : int
        Id of the first row; rows must be a range as `row_chunks` gives them.
    weights : integers [n, padded_dim]
        In range of `weight_bits`; padding columns are zero.
    scales : integers [n, groups]
        In range of the scale format.
    terms : integers [n, terms], optional
        In range of a term. Default: zeros.

    Returns
    -------
    list of (channel, byte offset in the channel's image, uint8 array)
        To be written in this order: the terms' pieces lie in those of whole tiles. What is not
        covered by the pieces of all rows is zero.
    """
    config = layout.config
    rows = len(weights)
    blocks = ceil_div(rows, config.units)
    weights = weights.astype(weight_dtype(config.weight_bits), copy=False)
    body = _encode_body(layout, _pad_rows(weights, blocks * config.units))
    header = _encode_scales(layout, _pad_rows(scales, blocks * config.units))
    block_scales, block_body = header.size // blocks, body.size // blocks

    pieces = []
    tile = layout.tile(first_row // config.tile_rows)
    skip = (first_row - tile.first_row) // config.units
    tiles = 0 if skip else rows // config.tile_rows
    done = tiles * config.tile_blocks
    if tiles:
        whole_header = header[: done * block_scales].reshape(tiles, -1)
        whole_body = body[: done * block_body].reshape(tiles, -1)
        scales_start = _scales_start(layout, tile)
        scales_end = scales_start + whole_header.shape[1]
        for first in range(min(config.channels, tiles)):
            own = slice(first, None, config.channels)
            count = len(range(tiles)[own])
            image = np.zeros((count, tile.beats * config.bus_bytes), np.uint8)
            image[:, scales_start:scales_end] = whole_header[own]
            image[:, tile.header_beats * config.bus_bytes :] = whole_body[own]
            start = layout.tile(tile.index + first)
            offset = start.offset_beats * config.bus_bytes
            pieces.append((start.channel, offset, image.reshape(-1)))
    if done < blocks:
        tile = layout.tile(tile.index + tiles)
        start = tile.offset_beats * config.bus_bytes
        header_start = start + _scales_start(layout, tile) + skip * block_scales
        body_start = start + tile.header_beats * config.bus_bytes + skip * block_body
        pieces.append((tile.channel, header_start, header[done * block_scales :]))
        pieces.append((tile.channel, body_start, body[done * block_body :]))
    if terms is not None:
        pieces += encode_terms(layout, first_row, terms)
    return pieces


def encode_terms(layout: ImageLayout, first_row: int, terms: np.ndarray) -> Iterator[Piece]:
    """The pieces of the image that hold the terms of some rows.

    Parameters
    ----------
    layout : ImageLayout
    first_row : int
        Id of the first row; rows must be a range as `row_chunks` gives them, or all.
    terms : integers [n, terms]
        In range of a term.
    """
    config = layout.config
    row, stop = first_row, first_row + len(terms)
    while row < stop and config.terms:
        tile = layout.tile(row // config.tile_rows)
        skip = row - tile.first_row
        count = min(stop - row, tile.rows - skip)
        stored = ceil_div(count, config.units) * config.units
        values = _pad_rows(terms[row - first_row : row - first_row + count], stored)
        data = np.ascontiguousarray(values.T, TERM_DTYPE).view(np.uint8)
        start = tile.offset_beats * config.bus_bytes
        for number, part in enumerate(data):
            place = number * tile.blocks * config.units + skip
            yield tile.channel, start + place * TERM_DTYPE.itemsize, part
        row += count


def decode_rows(
    layout: ImageLayout, channels: Sequence[np.ndarray], start: int, stop: int
) -> tuple[np.ndarray, np.ndarray]:
    """The weights and scales that `encode_rows` stored, for any range of rows.

    Parameters
    ----------
    layout : ImageLayout
    channels : uint8 arrays [bytes]
        The whole image of every channel; only what holds the rows is touched.
    start, stop : int
        ``0 <= start <= stop <= rows``.

    Returns
    -------
    weights : int8 or int16 [stop - start, padded_dim]
    scales : int32 [stop - start, groups]
    """
    config = layout.config
    block_bytes = config.units * layout.groups * config.scale_bits // 8
    row_bytes = layout.row_beats * config.bus_bytes
    weights = np.empty((stop - start, layout.padded_dim), weight_dtype(config.weight_bits))
    scales = np.empty((stop - start, layout.groups), np.int32)
    for run in _runs(layout, start, stop):
        section = run.section(channels)
        header = _scales_start(layout, run.tile) + run.block * block_bytes
        body = run.tile.header_beats * config.bus_bytes + run.block * row_bytes
        header_part = section[:, header : header + run.blocks * block_bytes]
        body_part = section[:, body : body + run.blocks * row_bytes]
        run.put(weights, _decode_body(layout, body_part))
        run.put(scales, _decode_scales(layout, header_part))
    return weights, scales


def decode_terms(
    layout: ImageLayout, channels: Sequence[np.ndarray], start: int, stop: int
) -> np.ndarray:
    """The terms of any range of rows, int16 [stop - start, terms]; arguments as `decode_rows`."""
    config = layout.config
    terms = np.empty((stop - start, config.terms), np.int16)
    if not config.terms:
        return terms
    block_bytes = config.units * TERM_DTYPE.itemsize
    for run in _runs(layout, start, stop):
        section = run.section(channels)
        for number in range(config.terms):
            first = (number * run.tile.blocks + run.block) * block_bytes
            part = section[:, first : first + run.blocks * block_bytes].view(TERM_DTYPE)
            run.put(terms[:, number : number + 1], part)
    return terms


@dataclass(frozen=True)
class _Run:
    """Some rows of a channel: of whole tiles that follow each other there, or of one tile."""

    layout: ImageLayout
    tile: Tile
    """The first tile."""
    tiles: int
    block: int
    """First block read in a tile."""
    blocks: int
    """Blocks read in a tile."""
    drop: int
    """Rows before the first one wanted in that block."""
    rows: int
    """Rows wanted of a tile."""
    start: int
    """Where they go among the rows asked for; those of the next tile `step` rows on."""
    step: int

    def section(self, channels: Sequence[np.ndarray]) -> np.ndarray:
        """The tiles' bytes, uint8 [tiles, bytes of a tile]."""
        bus_bytes = self.layout.config.bus_bytes
        start, size = self.tile.offset_beats * bus_bytes, self.tile.beats * bus_bytes
        data = channels[self.tile.channel][start : start + self.tiles * size]
        return data.reshape(self.tiles, size)

    def put(self, out: np.ndarray, values: np.ndarray):
        """Put the values of the rows of all blocks read into their places."""
        values = values.reshape(self.tiles, -1, out.shape[1])[:, self.drop : self.drop + self.rows]
        if self.tiles == 1 or self.step == self.rows:
            out[self.start : self.start + self.tiles * self.rows] = values.reshape(-1, out.shape[1])
        else:
            for number, tile in enumerate(values):
                first = self.start + number * self.step
                out[first : first + self.rows] = tile


def _runs(layout: ImageLayout, start: int, stop: int) -> Iterator[_Run]:
    """What holds rows `start` to `stop`."""
    config = layout.config
    full_tiles = layout.rows // config.tile_rows
    row = start
    while row < stop:
        tile = layout.tile(row // config.tile_rows)
        skip = row - tile.first_row
        whole = 0 if skip else min((stop - row) // config.tile_rows, full_tiles - tile.index)
        for first in range(min(config.channels, whole)):
            yield _Run(
                layout,
                tile=layout.tile(tile.index + first),
                tiles=len(range(first, whole, config.channels)),
                block=0,
                blocks=tile.blocks,
                drop=0,
                rows=config.tile_rows,
                start=row - start + first * config.tile_rows,
                step=config.channels * config.tile_rows,
            )
        count = whole * config.tile_rows
        if not whole:
            count = min(stop - row, tile.rows - skip)
            block = skip // config.units
            yield _Run(
                layout,
                tile=tile,
                tiles=1,
                block=block,
                blocks=ceil_div(skip + count, config.units) - block,
                drop=skip - block * config.units,
                rows=count,
                start=row - start,
                step=count,
            )
        row += count


def _scales_start(layout: ImageLayout, tile: Tile) -> int:
    """Byte of a tile where its scales start."""
    return layout.config.terms * tile.blocks * layout.config.units * TERM_DTYPE.itemsize


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
    dtype = weight_dtype(config.weight_bits)
    return body.view(dtype).reshape(shape).transpose(0, 2, 1, 3).reshape(-1, layout.padded_dim)


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
