"""What the bytes of an image are."""

from fractions import Fraction

from hw.config import TERM_BITS
from hw.layout import ImageLayout

PADDING = ("column_padding", "row_padding", "header_padding")


def padding_rows(layout: ImageLayout) -> int:
    """Rows of an image that belong to no row of the vocabulary."""
    last = layout.tile(layout.tiles - 1)
    return last.first_row + last.blocks * layout.config.units - layout.rows


def image_parts(layout: ImageLayout) -> dict[str, Fraction]:
    """Bytes of an image by what they hold: weights, scales, terms, and padding of three kinds.

    They add up to the bytes of the image.
    """
    config = layout.config
    row_parts = {
        "weights": layout.dim * config.weight_bits,
        "scales": layout.groups * config.scale_bits,
        "terms": config.terms * TERM_BITS,
        "column_padding": (layout.padded_dim - layout.dim) * config.weight_bits,
    }
    parts = {name: layout.rows * bits for name, bits in row_parts.items()}
    parts["row_padding"] = padding_rows(layout) * sum(row_parts.values())
    parts["header_padding"] = layout.bytes * 8 - sum(parts.values())
    return {name: Fraction(bits, 8) for name, bits in parts.items()}
