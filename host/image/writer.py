"""Writes packed images, piece by piece or from arrays."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np

from host.errors import UserError
from host.files import safetensors_format
from host.files.output import Output
from host.files.rawfile import RawFile
from host.image.image import (
    DATA_OFFSET,
    FORMAT,
    NO_SOURCE,
    NO_TRANSFORM,
    PADDING,
    TENSOR,
    VERSION,
    Image,
    SourceInfo,
    channel_ranges,
)
from host.image.quantize import EXACT, Quantisation, scale_limit
from host.image.tiles import (
    TERM_DTYPE,
    Piece,
    encode_rows,
    encode_terms,
    row_chunks,
    weight_dtype,
)
from host.sampling import LogitTransform
from hw.config import HeadConfig
from hw.layout import ImageLayout


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
        No file can be written there: see `host.files.output.check_output`.
    """

    def __init__(self, path: Path, config: HeadConfig, rows: int, dim: int):
        self.path = Path(path)
        self.layout = ImageLayout(config, rows, dim)
        self._ranges = channel_ranges(self.layout)
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
        """Write a range of rows as `host.image.tiles.row_chunks` gives them, in order.

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
