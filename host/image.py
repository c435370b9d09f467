"""The packed image: one safetensors file with the bytes the hardware reads.

The tensor `image` (uint8) starts at a multiple of 4096 bytes. The metadata are strings: `format`
and, as JSON, `version`, `config` (see `hw.config.IMAGE_FIELDS`), `rows`, `dim`, `weight_scale`,
`source`, `quantisation` and `sha256` (of the image's bytes).
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from hw.config import IMAGE_FIELDS, HeadConfig
from hw.layout import ImageLayout

from host import safetensors_format
from host.errors import UserError
from host.quantize import EXACT, Quantisation, scale_limit
from host.rawfile import RawFile
from host.tiles import decode_rows, encode_rows, row_chunks

FORMAT = "unembed-image"
VERSION = 1
TENSOR = "image"
DATA_OFFSET = 16384
"""Where the image starts in the file; the header before it is padded with spaces."""


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


NO_SOURCE = SourceInfo("", "", "", 0, None, None, "", "")
"""Of images made from arrays."""


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
    weight_scale : float
        A weight is ``q * s * weight_scale``.
    layout : ImageLayout
    data : uint8 [layout.bytes], read-only
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
                path, "not a packed image (unembed pack makes one)", expected=f"format {FORMAT}",
                found=strings.get("format") or "a safetensors file without it",
            )
        self.metadata = {"format": FORMAT} | self._decode(strings)
        version = self.metadata.get("version")
        if version != VERSION:
            raise UserError(path, "version of the image", expected=VERSION, found=version)
        try:
            self._take_metadata()
        except (KeyError, TypeError, ValueError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise UserError(path, f"damaged metadata: {what}") from None
        entry = tensors.get(TENSOR)
        if entry is None or len(tensors) != 1:
            names = ", ".join(tensors) or "none"
            raise UserError(path, "tensors", expected=TENSOR, found=names)
        expected = f"U8 [{self.layout.bytes}]"
        found = f"{entry.dtype} {list(entry.shape)}"
        if found != expected:
            where = f"{path}: tensor {TENSOR}"
            raise UserError(where, "does not fit the metadata", expected=expected, found=found)
        self.data = np.memmap(self.path, np.uint8, "r", entry.offset, (entry.size,))

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
        self.weight_scale = float(content["weight_scale"])
        if not (math.isfinite(self.weight_scale) and self.weight_scale > 0):
            raise ValueError(f"weight_scale must be positive, got {self.weight_scale}")
        self.source = SourceInfo(**content["source"])
        self.quantisation = Quantisation(**content["quantisation"])
        self.config = HeadConfig(**self.config_fields, max_dim=self.dim, max_rows=self.rows)
        self.layout = ImageLayout(self.config, self.rows, self.dim)

    def rows_of(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Stored weights int8 [n, dim] and scales int32 [n, groups] of some rows.

        The last group of a row is shorter where `dim` is no multiple of the group.
        """
        if not 0 <= start <= stop <= self.rows:
            raise IndexError(f"rows must be in 0..{self.rows}, got {start}:{stop}")
        weights, scales = decode_rows(self.layout, self.data, start, stop)
        return weights[:, : self.dim], scales

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Row ranges in order that are good to read at a time."""
        return row_chunks(self.layout)

    def dequantise(self, start: int, stop: int) -> np.ndarray:
        """Rows as float32 [n, dim]."""
        weights, scales = self.rows_of(start, stop)
        columns = self.config.group or self.dim
        steps = np.repeat(scales * self.weight_scale, columns, axis=1)[:, : self.dim]
        return (weights * steps).astype(np.float32)

    def verify(self):
        """Raise `UserError` unless the image's bytes have the digest in the metadata."""
        with RawFile(self.path) as file:
            found = file.sha256(self.data.offset, self.data.size)
        if found != self.metadata.get("sha256"):
            raise UserError(
                self.path, "the image is damaged",
                expected=f"SHA-256 {self.metadata.get('sha256')}", found=found,
            )
