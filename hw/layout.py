"""Where every bit of a packed image lies; `hw.config` decides, this file locates.

The vocabulary is cut into tiles of `tile_rows` rows. Tile t belongs to channel t % channels, where
it is tile t // channels; the image of a channel is one range of memory, and a channel may have no
tile. A tile is a header, then a body. The header holds the row terms, all of the bias, then all of
the bound, and behind them the scales in the order row block (of `units` rows), group, unit; as one
section it is zero-padded to whole beats. The body holds one beat per
row block and slice of `width` columns, slices running fastest; within a beat unit u and column w
are weight ``u * width + w``, least significant bits first. The last tile holds only its rows
rounded up to `units`. Bytes are little-endian: bit b of a beat is bit b % 8 of its byte b // 8.
"""

import operator
from dataclasses import dataclass

from hw.config import TERM_BITS, HeadConfig, ceil_div

LOGIT_BYTES = 8
"""Size of a score in memory."""
LOGITS_BEATS = 16
"""Beats of scores that a ranker writes at a time."""


@dataclass(frozen=True)
class BitPosition:
    """A field in a channel's image, mask or scores: its least significant bit."""

    byte: int
    """Byte offset from the start of that range."""
    bit: int
    """Bit in that byte, 0..7; not 0 only for weights of 4 bits and for masks."""
    channel: int = 0
    """Whose range it is."""


@dataclass(frozen=True)
class Tile:
    """One tile of an image; offsets and sizes in beats."""

    index: int
    first_row: int
    rows: int
    """Vocabulary rows in the tile, without padding."""
    blocks: int
    """Blocks of `units` rows stored."""
    channel: int
    offset_beats: int
    """First beat of the header, from the start of the channel's image."""
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
            channel=index % self.config.channels,
            offset_beats=index // self.config.channels * self._full_tile_beats,
            header_beats=self.config.header_beats(blocks, self.dim),
            body_beats=blocks * self.row_beats,
        )

    def channel_tiles(self, channel: int) -> int:
        """Tiles of a channel."""
        return ceil_div(self.tiles - channel, self.config.channels)

    def channel_rows(self, channel: int) -> int:
        """Vocabulary rows of a channel."""
        rows = self.channel_tiles(channel) * self.config.tile_rows
        if channel == (self.tiles - 1) % self.config.channels:
            rows -= self.tiles * self.config.tile_rows - self.rows
        return rows

    def channel_beats(self, channel: int) -> int:
        """Beats of the image of a channel, 0 without tiles."""
        tiles = self.channel_tiles(channel)
        if not tiles:
            return 0
        last = self.tile((tiles - 1) * self.config.channels + channel)
        return last.offset_beats + last.beats

    def channel_bytes(self, channel: int) -> int:
        return self.channel_beats(channel) * self.config.bus_bytes

    @property
    def beats(self) -> int:
        """Beats of the whole image, all channels together."""
        return (self.tiles - 1) * self._full_tile_beats + self.tile(self.tiles - 1).beats

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
        """Bytes of the whole image, all channels together."""
        return self.beats * self.config.bus_bytes

    def _locate(self, row: int) -> tuple[Tile, int, int]:
        if not 0 <= row < self.rows:
            raise IndexError(f"row must be in 0..{self.rows - 1}, got {row}")
        tile = self.tile(row // self.config.tile_rows)
        block, unit = divmod(row - tile.first_row, self.config.units)
        return tile, block, unit

    def _position(self, tile: Tile, bit: int) -> BitPosition:
        byte = tile.offset_beats * self.config.bus_bytes + bit // 8
        return BitPosition(byte, bit % 8, tile.channel)

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
        terms = self.config.terms * tile.blocks * self.config.units * TERM_BITS
        index = (block * self.groups + group) * self.config.units + unit
        return self._position(tile, terms + index * self.config.scale_bits)

    def term(self, row: int, term: int) -> BitPosition:
        """Where a row term lies, `TERM_BITS` wide: number 0 is the bias if there is one."""
        if not 0 <= term < self.config.terms:
            raise IndexError(f"term must be one of the image's {self.config.terms}, got {term}")
        tile, block, unit = self._locate(row)
        index = (term * tile.blocks + block) * self.config.units + unit
        return self._position(tile, index * TERM_BITS)

    # The mask of a channel: for each of its tiles and each vector `tile_rows` bits, padded to
    # whole beats at the end.

    def mask_beats(self, channel: int, vectors: int) -> int:
        """Beats of a channel's mask for `vectors` vectors."""
        bits = self.channel_tiles(channel) * vectors * self.config.tile_rows
        return ceil_div(bits, self.config.bus_bits)

    def mask(self, row: int, vector: int, vectors: int) -> BitPosition:
        """Where the mask bit of a row and vector lies, in the range of its channel."""
        if not 0 <= vector < vectors:
            raise IndexError(f"vector must be in 0..{vectors - 1}, got {vector}")
        tile, _, _ = self._locate(row)
        number = (tile.index // self.config.channels * vectors + vector) * self.config.tile_rows
        bit = number + row - tile.first_row
        return BitPosition(bit // 8, bit % 8, tile.channel)

    # The scores of a channel's rows as they are written: each ranker's in chunks of `LOGITS_BEATS`
    # beats, those of the rankers in turn.

    def logit(self, row: int, vector: int, vectors: int) -> BitPosition:
        """Where the score of a row and vector is written, int64, in the range of its channel."""
        if not 0 <= vector < vectors:
            raise IndexError(f"vector must be in 0..{vectors - 1}, got {vector}")
        config = self.config
        tile, _, _ = self._locate(row)
        row_in_channel = tile.index // config.channels * config.tile_rows + row - tile.first_row
        ranker, slot = vector % config.rankers, vector // config.rankers
        word = row_in_channel * ceil_div(vectors - ranker, config.rankers) + slot
        chunk, place = divmod(word * LOGIT_BYTES, LOGITS_BEATS * config.bus_bytes)
        chunk_bytes = LOGITS_BEATS * config.bus_bytes
        return BitPosition((chunk * config.rankers + ranker) * chunk_bytes + place, 0, tile.channel)

    def logits_bytes(self, channel: int, vectors: int) -> int:
        """Size of the range that a channel's scores are written to, gaps included."""
        config = self.config
        words = self.channel_rows(channel) * ceil_div(vectors, config.rankers)
        chunks = ceil_div(words * LOGIT_BYTES, LOGITS_BEATS * config.bus_bytes)
        return chunks * config.rankers * LOGITS_BEATS * config.bus_bytes
