"""Where every bit of a packed image lies; `hw.config` decides, this file locates.

The vocabulary is cut into tiles of `tile_rows` rows. A tile is a header, then a body. The header
holds the scales in the order row block (of `units` rows), group, unit, zero-padded to whole beats.
Row terms, once they exist, come before the scales in the same section. The body holds one beat per
row block and slice of `width` columns, slices running fastest; within a beat unit u and column w
are weight ``u * width + w``, least significant bits first. The last tile holds only its rows
rounded up to `units`. Bytes are little-endian: bit b of a beat is bit b % 8 of its byte b // 8.
"""

import operator
from dataclasses import dataclass

from hw.config import HeadConfig, ceil_div


@dataclass(frozen=True)
class BitPosition:
    """A field of an image: its least significant bit."""

    byte: int
    """Byte offset from the start of the image."""
    bit: int
    """Bit in that byte, 0..7; not 0 only for weights of 4 bits."""


@dataclass(frozen=True)
class Tile:
    """One tile of an image; offsets and sizes in beats."""

    index: int
    first_row: int
    rows: int
    """Vocabulary rows in the tile, without padding."""
    blocks: int
    """Blocks of `units` rows stored."""
    offset_beats: int
    """First beat of the header, from the start of the image."""
    header_beats: int
    body_beats: int

    @property
    def beats(self) -> int:
        return self.header_beats + self.body_beats


class ImageLayout:
    """The layout of one image.

    Parameters
    ----------
    config : HeadConfig
        Only its image fields matter (`hw.config.IMAGE_FIELDS`).
    rows : int
        Vocabulary rows V >= 1.
    dim : int
        Columns d >= 1.

    Raises
    ------
    TypeError, ValueError
        `rows` or `dim` is no positive integer.
    """

    def __init__(self, config: HeadConfig, rows: int, dim: int):
        self.config = config
        self.rows = operator.index(rows)
        self.dim = operator.index(dim)
        for name, value in (("rows", self.rows), ("dim", self.dim)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.groups = config.groups(self.dim)
        self.padded_dim = config.padded_dim(self.dim)
        self.row_beats = config.row_beats(self.dim)
        self.tiles = ceil_div(self.rows, config.tile_rows)
        self._full_tile_beats = self._tile_beats(config.tile_blocks)

    def _tile_beats(self, blocks: int) -> int:
        return self.config.header_beats(blocks, self.dim) + blocks * self.row_beats

    def tile(self, index: int) -> Tile:
        """Tile `index` of 0..tiles-1."""
        if not 0 <= index < self.tiles:
            raise IndexError(f"tile must be in 0..{self.tiles - 1}, got {index}")
        first_row = index * self.config.tile_rows
        rows = min(self.config.tile_rows, self.rows - first_row)
        blocks = ceil_div(rows, self.config.units)
        return Tile(
            index=index,
            first_row=first_row,
            rows=rows,
            blocks=blocks,
            offset_beats=index * self._full_tile_beats,
            header_beats=self.config.header_beats(blocks, self.dim),
            body_beats=blocks * self.row_beats,
        )

    @property
    def beats(self) -> int:
        """Beats of the whole image."""
        last = self.tile(self.tiles - 1)
        return last.offset_beats + last.beats

    @property
    def header_beats(self) -> int:
        """Header beats of all tiles."""
        return self.beats - self.body_beats

    @property
    def body_beats(self) -> int:
        """Body beats of all tiles."""
        last = self.tile(self.tiles - 1)
        full = (self.tiles - 1) * self.config.tile_blocks
        return (full + last.blocks) * self.row_beats

    @property
    def bytes(self) -> int:
        return self.beats * self.config.bus_bytes

    def _locate(self, row: int) -> tuple[Tile, int, int]:
        if not 0 <= row < self.rows:
            raise IndexError(f"row must be in 0..{self.rows - 1}, got {row}")
        tile = self.tile(row // self.config.tile_rows)
        block, unit = divmod(row - tile.first_row, self.config.units)
        return tile, block, unit

    def _position(self, tile: Tile, bit: int) -> BitPosition:
        return BitPosition(tile.offset_beats * self.config.bus_bytes + bit // 8, bit % 8)

    def weight(self, row: int, column: int) -> BitPosition:
        """Where weight (row, column) lies, `weight_bits` wide; padding columns included."""
        if not 0 <= column < self.padded_dim:
            raise IndexError(f"column must be in 0..{self.padded_dim - 1}, got {column}")
        tile, block, unit = self._locate(row)
        slice_, lane = divmod(column, self.config.width)
        beat = tile.header_beats + block * self.row_beats + slice_
        index = unit * self.config.width + lane
        return self._position(tile, beat * self.config.bus_bits + index * self.config.weight_bits)

    def scale(self, row: int, group: int) -> BitPosition:
        """Where the scale of `group` of `row` lies, `scale_bits` wide."""
        if not 0 <= group < self.groups:
            raise IndexError(f"group must be in 0..{self.groups - 1}, got {group}")
        tile, block, unit = self._locate(row)
        index = (block * self.groups + group) * self.config.units + unit
        return self._position(tile, index * self.config.scale_bits)
