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
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from host import safetensors_format
from host.errors import UserError
from host.output import Output
from host.payload import image_parts, padding_rows
from host.quantize import EXACT, Quantisation, scale_limit
from host.rawfile import RawFile
from host.sampling import LogitTransform
from host.tiles import (
    TERM_DTYPE,
    Piece,
    decode_rows,
    decode_terms,
    encode_rows,
    encode_terms,
    row_chunks,
    weight_dtype,
)
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
            found = file.sha256_of(_ranges(self.layout))
        if found != self.metadata.get("sha256"):
            raise UserError(
                self.path,
                "the image is damaged",
                expected=f"SHA-256 {self.metadata.get('sha256')}",
                found=found,
            )
        self._verified = True


def _ranges(layout: ImageLayout) -> list[tuple[int, int]]:
    """Where the channels' images lie in the file: (start, size)."""
    sizes = [layout.channel_bytes(channel) for channel in range(layout.config.channels)]
    return list(zip(channel_offsets(layout), sizes, strict=True))


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
        No file can be written there: see `host.output.check_output`.
    """

    def __init__(self, path: Path, config: HeadConfig, rows: int, dim: int):
        self.path = Path(path)
        self.layout = ImageLayout(config, rows, dim)
        self._ranges = _ranges(self.layout)
        self.file_bytes = max(start + size for start, size in self._ranges)
        """Size of the file when it is complete."""
        self._next_row = 0
        self._output = Output(self.path)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._output.partial, flags, 0o666)
        except OSError as error:
            raise UserError(path, f"cannot be written: {error.strerror}") from None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        os.close(self._descriptor)
        self._output.__exit__(*exception)

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
        weights = weights.astype(weight_dtype(config.weight_bits), copy=False)
        self._write_pieces(encode_rows(self.layout, first_row, weights, scales))
        self._next_row += len(weights)

    def write_terms(self, terms: np.ndarray):
        """Write the terms of all rows, integers [rows, terms], after the rows themselves.

        Raises
        ------
        ValueError
            The shape is another, or a value does not fit.
        UserError
            The disk is full.
        """
        self._check_complete()
        shape = self.layout.rows, self.layout.config.terms
        if terms.shape != shape:
            raise ValueError(f"terms must be {list(shape)}, got {list(terms.shape)}")
        if not terms.size:
            return
        info = np.iinfo(TERM_DTYPE)
        _check_range(self.path, 0, "term", terms, info.min, info.max)
        self._write_pieces(encode_terms(self.layout, 0, terms))

    def _write_pieces(self, pieces: Iterable[Piece]):
        for channel, offset, data in pieces:
            self._write_at(self._ranges[channel][0] + offset, data)

    def _check_complete(self):
        if self._next_row != self.layout.rows:
            raise ValueError(f"{self._next_row} of {self.layout.rows} rows were written")

    def finish(
        self,
        weight_scale: float,
        source: SourceInfo,
        quantisation: Quantisation,
        bias_unit: float = 1.0,
        bound_unit: float = 1.0,
        *,
        first_row: int = 0,
        transform: LogitTransform = NO_TRANSFORM,
    ):
        """Write the metadata and give the file its name."""
        self._check_complete()
        # What no row covers is zero: the padding of headers, the last tile's at the very end too.
        os.truncate(self._descriptor, self.file_bytes)
        with RawFile(self._output.partial) as written:
            digest = written.sha256_of(self._ranges)
        content = {
            "version": VERSION,
            "config": self.layout.config.image_fields(),
            "rows": self.layout.rows,
            "first_row": first_row,
            "dim": self.layout.dim,
            "weight_scale": weight_scale,
            "bias_unit": bias_unit,
            "bound_unit": bound_unit,
            "logit_scale": transform.scale,
            "softcap": transform.softcap,
            "source": asdict(source),
            "quantisation": asdict(quantisation),
            "sha256": digest,
        }
        metadata = {"format": FORMAT} | {key: json.dumps(value) for key, value in content.items()}
        tensors = {}
        end = DATA_OFFSET
        for channel, (start, size) in enumerate(self._ranges):
            if start > end:
                tensors[f"{PADDING}{channel}"] = ("U8", (start - end,))
            tensors[f"{TENSOR}{channel}"] = ("U8", (size,))
            end = start + size
        header = safetensors_format.build_header(tensors, metadata, DATA_OFFSET)
        self._write_at(0, np.frombuffer(header, np.uint8))
        self._output.commit()

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
    *,
    terms: np.ndarray | None = None,
    bias_unit: float = 1.0,
    bound_unit: float = 1.0,
    first_row: int = 0,
    transform: LogitTransform = NO_TRANSFORM,
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
    terms : integers [V, terms], optional
        Bias, then bound, those the configuration has. Default: zeros.
    bias_unit, bound_unit : float
    first_row : int
        The vocabulary row that the first one is.
    transform : LogitTransform

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
        if terms is not None:
            writer.write_terms(terms)
        writer.finish(
            weight_scale,
            source,
            EXACT,
            bias_unit,
            bound_unit,
            first_row=first_row,
            transform=transform,
        )
    return Image(path)


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
