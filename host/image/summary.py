"""What an image holds, in plain numbers and strings."""

from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np

from host.image.image import Image
from host.image.payload import image_parts, padding_rows


def describe(image: Image) -> dict[str, Any]:
    """Everything about an image in plain numbers and strings, for `inspect`.

    Keys: `file`, `format`, `rows`, `first_row`, `dim`, `weight_scale`, `logit_scale`, `softcap`,
    `source`, `quantisation`, `bias` and `bound` (only where there are any), `layout` (beats and
    tiles), `bytes` (where the image's bytes go; all but `total` add up to it), `channel_bytes`,
    `bits_per_weight` and `efficiency` (both of the whole image).
    """
    layout, config = image.layout, image.config
    parts = image_parts(layout) | {"total": layout.bytes}
    channels = range(config.channels)
    return {
        "file": str(image.path),
        "format": image.config_fields | {"units": config.units},
        "rows": image.rows,
        "first_row": image.first_row,
        "dim": image.dim,
        "weight_scale": image.weight_scale,
        "logit_scale": image.transform.scale,
        "softcap": image.transform.softcap,
        "source": asdict(image.source),
        "quantisation": asdict(image.quantisation),
        **_describe_terms(image),
        "layout": {
            "beats": layout.beats,
            "header_beats": layout.header_beats,
            "body_beats": layout.body_beats,
            "tiles": layout.tiles,
            "tile_header_beats": layout.tile(0).header_beats,
            "tile_body_beats": layout.tile(0).body_beats,
            "groups": layout.groups,
            "padded_dim": layout.padded_dim,
            "padding_rows": padding_rows(layout),
        },
        "bytes": {name: _number(size) for name, size in parts.items()},
        "channel_bytes": {f"channel {c}": layout.channel_bytes(c) for c in channels},
        "bits_per_weight": 8 * layout.bytes / (image.rows * image.dim),
        "efficiency": float(parts["weights"] / layout.bytes),
    }


def _number(size: Fraction | int) -> float:
    """Bytes as a whole number where they are one."""
    return int(size) if size == int(size) else float(size)


def _describe_terms(image: Image) -> dict[str, dict[str, float]]:
    """Bias and bound, each with its unit, extremes and the share of rows without."""
    described = {}
    column = 0
    for name in ("bias", "bound"):
        if not getattr(image.config, name):
            continue
        values = image.read_terms(0, image.rows)[:, column]
        unit = getattr(image, f"{name}_unit")
        described[name] = {
            "unit": unit,
            "lowest": float(values.min() * unit),
            "highest": float(values.max() * unit),
            "rms": float(np.sqrt(np.mean(np.square(values * unit)))),
            "zero_rows": int((values == 0).sum()),
        }
        column += 1
    return described
