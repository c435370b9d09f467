"""The packed image: one safetensors file with the bytes the hardware reads.

The tensor `image` (uint8) starts at a multiple of 4096 bytes. The metadata are strings: `format`
and, as JSON, `version`, `config` (see `hw.config.IMAGE_FIELDS`), `rows`, `dim`, `weight_scale`,
`source`, `quantisation` and `sha256` (of the image's bytes).
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from host import safetensors_format
from host.errors import UserError
from host.quantize import EXACT, Quantisation, scale_limit
from host.rawfile import RawFile
from host.tiles import decode_rows, encode_rows, row_chunks
from hw.config import IMAGE_FIELDS, HeadConfig
from hw.layout import ImageLayout

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
                path,
                "not a packed image (unembed pack makes one)",
                expected=f"format {FORMAT}",
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
        self._verified = False

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

    def read_rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
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
            found = file.sha256(self.data.offset, self.data.size)
        if found != self.metadata.get("sha256"):
            raise UserError(
                self.path,
                "the image is damaged",
                expected=f"SHA-256 {self.metadata.get('sha256')}",
                found=found,
            )
        self._verified = True


class ImageWriter:
    """Writes an image piece by piece, under a temporary name until it is complete.

    Used in a with statement; leaving it without `finish`, by an error or an interrupt, removes
    the file.

    Parameters
    ----------
    path : Path
    config : HeadConfig
        Only its image fields matter.
    rows, dim : int

    Raises
    ------
    UserError
        The folder is missing or cannot be written to.
    """

    def __init__(self, path: Path, config: HeadConfig, rows: int, dim: int):
        self.path = Path(path)
        self.layout = ImageLayout(config, rows, dim)
        self._next_row = 0
        self._partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        if self.path.is_dir():
            raise UserError(path, "is a folder", expected="a file name")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._partial, flags, 0o666)
        except OSError as error:
            raise UserError(path, f"cannot be written: {error.strerror}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._descriptor)
        self._partial.unlink(missing_ok=True)

    def write(self, first_row: int, weights: np.ndarray, scales: np.ndarray):
        """Write a range of rows as `host.tiles.row_chunks` gives them, in order.

        Parameters
        ----------
        first_row : int
        weights : integers [n, padded_dim]
            Padding columns are zero.
        scales : integers [n, groups]

        Raises
        ------
        ValueError
            Rows are out of order, or a value does not fit the format.
        UserError
            The disk is full.
        """
        config = self.layout.config
        if first_row != self._next_row:
            raise ValueError(f"rows must follow in order: expected {self._next_row}, {first_row=}")
        half = 1 << config.weight_bits - 1
        highest = scale_limit(config)
        _check_range(self.path, first_row, "weight", weights, -half, half - 1)
        lowest = -highest - 1 if config.scale_signed else 0
        _check_range(self.path, first_row, "scale", scales, lowest, highest)
        weights = weights.astype(np.int8, copy=False)
        for offset, data in encode_rows(self.layout, first_row, weights, scales):
            self._write_at(DATA_OFFSET + offset, data)
        self._next_row += len(weights)

    def finish(self, weight_scale: float, source: SourceInfo, quantisation: Quantisation):
        """Write the metadata and give the file its name."""
        if self._next_row != self.layout.rows:
            raise ValueError(f"{self._next_row} of {self.layout.rows} rows were written")
        # What no row covers is zero: the padding of headers, the last tile's at the very end too.
        os.truncate(self._descriptor, DATA_OFFSET + self.layout.bytes)
        with RawFile(self._partial) as written:
            digest = written.sha256(DATA_OFFSET, self.layout.bytes)
        content = {
            "version": VERSION,
            "config": self.layout.config.image_fields(),
            "rows": self.layout.rows,
            "dim": self.layout.dim,
            "weight_scale": weight_scale,
            "source": asdict(source),
            "quantisation": asdict(quantisation),
            "sha256": digest,
        }
        metadata = {"format": FORMAT} | {key: json.dumps(value) for key, value in content.items()}
        tensors = {TENSOR: ("U8", (self.layout.bytes,))}
        header = safetensors_format.build_header(tensors, metadata, DATA_OFFSET)
        self._write_at(0, np.frombuffer(header, np.uint8))
        os.replace(self._partial, self.path)

    def _write_at(self, offset: int, data: np.ndarray):
        view = memoryview(data)
        try:
            while view:
                count = os.pwrite(self._descriptor, view, offset)
                view, offset = view[count:], offset + count
        except OSError as error:
            raise UserError(self.path, f"cannot be written: {error.strerror}") from None


def _check_range(path: Path, first_row: int, what: str, values: np.ndarray, low: int, high: int):
    if values.min() < low or values.max() > high:
        row = first_row + int(np.argwhere((values < low) | (values > high))[0][0])
        raise ValueError(f"{path}: a {what} of row {row} is not in {low}..{high}")


def save_image(
    path: Path,
    config: HeadConfig,
    weights: np.ndarray,
    scales: np.ndarray,
    weight_scale: float = 1.0,
    source: SourceInfo = NO_SOURCE,
) -> Image:
    """Make an image of arrays of stored integers.

    Parameters
    ----------
    path : Path
    config : HeadConfig
        Only its image fields matter.
    weights : integers [V, d]
    scales : integers [V, groups]
    weight_scale : float
    source : SourceInfo

    Raises
    ------
    ValueError
        A shape is wrong or a value does not fit the format.
    """
    rows, dim = weights.shape
    with ImageWriter(path, config, rows, dim) as writer:
        layout = writer.layout
        if scales.shape != (rows, layout.groups):
            raise ValueError(f"scales must be [{rows}, {layout.groups}], got {list(scales.shape)}")
        for start, stop in row_chunks(layout):
            padded = np.zeros((stop - start, layout.padded_dim), weights.dtype)
            padded[:, :dim] = weights[start:stop]
            writer.write(start, padded, scales[start:stop])
        writer.finish(weight_scale, source, EXACT)
    return Image(path)


def describe(image: Image) -> dict[str, Any]:
    """Everything about an image in plain numbers and strings, for `inspect`.

    Keys: `file`, `format`, `rows`, `dim`, `weight_scale`, `source`, `quantisation`, `layout`
    (beats and tiles), `bytes` (where the image's bytes go; all but `total` add up to it),
    `bits_per_weight` and `efficiency` (both of the whole image).
    """
    layout, config = image.layout, image.config
    last = layout.tile(layout.tiles - 1)
    stored_rows = last.first_row + last.blocks * config.units
    weights = image.rows * image.dim * config.weight_bits
    columns = image.rows * (layout.padded_dim - image.dim) * config.weight_bits
    scales = image.rows * layout.groups * config.scale_bits
    row = layout.padded_dim * config.weight_bits + layout.groups * config.scale_bits
    padding_rows = (stored_rows - image.rows) * row
    total = layout.bytes * 8
    parts = {
        "weights": weights,
        "scales": scales,
        "column_padding": columns,
        "row_padding": padding_rows,
        "header_padding": total - weights - scales - columns - padding_rows,
        "total": total,
    }
    return {
        "file": str(image.path),
        "format": image.config_fields | {"units": config.units},
        "rows": image.rows,
        "dim": image.dim,
        "weight_scale": image.weight_scale,
        "source": asdict(image.source),
        "quantisation": asdict(image.quantisation),
        "layout": {
            "beats": layout.beats,
            "header_beats": layout.header_beats,
            "body_beats": layout.body_beats,
            "tiles": layout.tiles,
            "tile_header_beats": layout.tile(0).header_beats,
            "tile_body_beats": layout.tile(0).body_beats,
            "groups": layout.groups,
            "padded_dim": layout.padded_dim,
            "padding_rows": stored_rows - image.rows,
        },
        "bytes": {name: bits / 8 if bits % 8 else bits // 8 for name, bits in parts.items()},
        "bits_per_weight": total / (image.rows * image.dim),
        "efficiency": weights / total,
    }
