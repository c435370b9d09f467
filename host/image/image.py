"""The packed image: one safetensors file with the bytes the hardware reads.

The bytes of channel c are the tensor `image<c>` (uint8, empty if the channel has no tile), which
starts at a multiple of 4096 bytes; where it would not, a tensor `padding<c>` comes before. The
metadata are strings: `format` and, as JSON, `version`, `config` (see `hw.config.IMAGE_FIELDS`),
`rows`, `first_row`, `dim`, `weight_scale`, `bias_unit`, `bound_unit`, `logit_scale`, `softcap`
(null without), `source`, `quantisation` and `sha256` (of the images of all channels, one after the
other).
"""

import json
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from host.errors import UserError
from host.files import safetensors_format
from host.files.rawfile import RawFile
from host.image.quantize import Quantisation
from host.image.tiles import (
    decode_rows,
    decode_terms,
    row_chunks,
)
from host.sampling import LogitTransform
from hw.config import IMAGE_FIELDS, HeadConfig, ceil_div
from hw.layout import ImageLayout

FORMAT = "unembed-image"
VERSION = 2
TENSOR = "image"
PADDING = "padding"
DATA_OFFSET = 16384
"""Where the first channel's image starts in the file; the header before it is padded with spaces.
"""
PAGE_BYTES = 4096


def channel_offsets(layout: ImageLayout) -> list[int]:
    """Where the image of every channel starts in the file."""
    offsets = []
    end = DATA_OFFSET
    for channel in range(layout.config.channels):
        size = layout.channel_bytes(channel)
        if size:
            end = ceil_div(end, PAGE_BYTES) * PAGE_BYTES
        offsets.append(end)
        end += size
    return offsets


def channel_ranges(layout: ImageLayout) -> list[tuple[int, int]]:
    """Where the channels' images lie in the file: (start, size)."""
    sizes = [layout.channel_bytes(channel) for channel in range(layout.config.channels)]
    return list(zip(channel_offsets(layout), sizes, strict=True))


@dataclass(frozen=True)
class SourceInfo:
    """Where the weights of an image come from."""

    file: str
    """Name of the file, without its folder."""
    tensor: str
    dtype: str
    rows: int
    """Rows of the tensor; the image may hold fewer."""
    tied: bool | None
    """The head is the token embedding; None if not known."""
    vocabulary: int | None
    """Entries of the tokenizer; None if not known."""
    sha256: str
    """Of the file."""
    tensor_sha256: str
    """Of the tensor's bytes in the file."""
    bias: str | None = None
    """Tensor of the bias that is in the image; None without."""


NO_SOURCE = SourceInfo("", "", "", 0, None, None, "", "")
"""Of images made from arrays."""

NO_TRANSFORM = LogitTransform()


class Image:
    """A packed image, memory-mapped.

    Attributes
    ----------
    path : Path
    config_fields : dict
        The image format as keyword arguments of `HeadConfig`.
    config : HeadConfig
        The smallest hardware that can run the image, `config_fields` at its defaults otherwise.
    rows, dim : int
        Vocabulary rows and columns.
    first_row : int
        The vocabulary row that is row 0 of the image; above 0 in a shard.
    weight_scale : float
        A weight is ``q * s * weight_scale``.
    bias_unit, bound_unit : float
        A bias or bound is ``r * unit``; 1 where the image has none.
    transform : LogitTransform
        What the model does to the logits behind the head; scores are without it.
    layout : ImageLayout
    channels : list of uint8 [layout.channel_bytes(c)], read-only
        The bytes of each channel, empty where it has no tile.
    metadata : dict
        The file's metadata, decoded.
    source : SourceInfo
    quantisation : Quantisation

    Raises
    ------
    UserError
        The file is no image, is cut short or contradicts itself.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        with RawFile(self.path) as file:
            tensors, strings = safetensors_format.read_header(file)
        if strings.get("format") != FORMAT:
            raise UserError(
                path,
                "not a packed image (unembed pack makes one)",
                expected=f"format {FORMAT}",
                found=strings.get("format") or "a safetensors file without it",
            )
        self.metadata = {"format": FORMAT} | self._decode(strings)
        version = self.metadata.get("version")
        if version != VERSION:
            raise UserError(
                path, "another version of the image: pack again", expected=VERSION, found=version
            )
        try:
            self._take_metadata()
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise UserError(path, f"damaged metadata: {what}") from None
        self.channels = self._map(tensors)
        self._verified = False

    def _map(self, tensors: dict[str, safetensors_format.TensorEntry]) -> list[np.ndarray]:
        expected = [f"{TENSOR}{c}" for c in range(self.config.channels)]
        found = [name for name in tensors if not name.startswith(PADDING)]
        if set(found) != set(expected):
            names = ", ".join(found) or "none"
            raise UserError(self.path, "tensors", expected=", ".join(expected), found=names)
        channels = []
        for channel, name in enumerate(expected):
            entry = tensors[name]
            wanted = f"U8 [{self.layout.channel_bytes(channel)}]"
            is_ = f"{entry.dtype} {list(entry.shape)}"
            if is_ != wanted:
                where = f"{self.path}: tensor {name}"
                raise UserError(where, "does not fit the metadata", expected=wanted, found=is_)
            if entry.size:
                data = np.memmap(self.path, np.uint8, "r", entry.offset, (entry.size,))
            else:
                data = np.empty(0, np.uint8)
                data.flags.writeable = False
            channels.append(data)
        return channels

    def _decode(self, strings: dict[str, str]) -> dict[str, Any]:
        decoded = {}
        for key, text in strings.items():
            if key == "format":
                continue
            try:
                decoded[key] = json.loads(text)
            except ValueError:
                raise UserError(self.path, f"metadata {key} is no JSON", found=text[:40]) from None
        return decoded

    def _take_metadata(self):
        content = self.metadata
        self.config_fields = {name: content["config"][name] for name in IMAGE_FIELDS}
        self.rows, self.dim = content["rows"], content["dim"]
        for name in ("weight_scale", "bias_unit", "bound_unit"):
            value = float(content[name])
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive, got {value}")
            setattr(self, name, value)
        self.first_row = operator.index(content["first_row"])
        if self.first_row < 0:
            raise ValueError(f"first_row must be at least 0, got {self.first_row}")
        softcap = content["softcap"]
        self.transform = LogitTransform(
            float(content["logit_scale"]), None if softcap is None else float(softcap)
        )
        self.source = SourceInfo(**content["source"])
        self.quantisation = Quantisation(**content["quantisation"])
        self.config = HeadConfig(**self.config_fields, max_dim=self.dim, max_rows=self.rows)
        self.layout = ImageLayout(self.config, self.rows, self.dim)

    def read_rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Stored weights int8 or int16 [n, dim] and scales int32 [n, groups] of some rows.

        The last group of a row is shorter where `dim` is no multiple of the group.
        """
        self._check_rows(start, stop)
        weights, scales = decode_rows(self.layout, self.channels, start, stop)
        return weights[:, : self.dim], scales

    def read_terms(self, start: int, stop: int) -> np.ndarray:
        """Stored terms of some rows, int16 [n, terms]: of bias and bound those there are."""
        self._check_rows(start, stop)
        return decode_terms(self.layout, self.channels, start, stop)

    def _check_rows(self, start: int, stop: int):
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows must be in 0..{self.rows}, got {start}:{stop}")

    def bias(self, start: int, stop: int) -> np.ndarray:
        """The bias of some rows as stored, float64 [n]; zeros if the image has none."""
        if not self.config.bias:
            self._check_rows(start, stop)
            return np.zeros(stop - start)
        return self.read_terms(start, stop)[:, 0] * self.bias_unit

    def bound(self, start: int, stop: int) -> np.ndarray:
        """Bounds of some rows, float64 [n]; zeros if the image has none.

        Times the length of a hidden state it is at least what quantising the weights has changed
        the row's logit by, in either direction.
        """
        if not self.config.bound:
            self._check_rows(start, stop)
            return np.zeros(stop - start)
        return self.read_terms(start, stop)[:, -1] * self.bound_unit

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Row ranges in order that are good to read at a time."""
        return row_chunks(self.layout)

    def dequantise(self, start: int, stop: int) -> np.ndarray:
        """Rows as float32 [n, dim]."""
        weights, scales = self.read_rows(start, stop)
        columns = self.config.group or self.dim
        steps = np.repeat(scales * self.weight_scale, columns, axis=1)[:, : self.dim]
        return (weights * steps).astype(np.float32)

    def verify(self):
        """Raise `UserError` unless the image's bytes have the digest in the metadata.

        The bytes are read once; that they were right is remembered.
        """
        if self._verified:
            return
        with RawFile(self.path) as file:
            found = file.sha256_of(channel_ranges(self.layout))
        if found != self.metadata.get("sha256"):
            raise UserError(
                self.path,
                "the image is damaged",
                expected=f"SHA-256 {self.metadata.get('sha256')}",
                found=found,
            )
        self._verified = True
