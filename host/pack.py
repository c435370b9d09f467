"""Packs the head of a model into an image, in bounded memory."""

import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from host.errors import UserError
from host.head_source import HeadSource, IntegerForm
from host.image import DATA_OFFSET, ImageWriter, SourceInfo
from host.quantize import EXACT, ExactScales, Quantisation, Quantiser, why_not_exact
from host.sources import open_source
from host.tiles import row_chunks
from hw.config import HeadConfig
from hw.layout import ImageLayout

Progress = Callable[[int, int], None]
"""Called with rows done and rows in total; a row counts once for each pass over the file."""

PASSES = 2


@dataclass(frozen=True)
class PackOptions:
    """The image format and what to pack; None stands for the best default for the source.

    Defaults: Q8_0 is taken over as it is (8-bit weights, groups of 32, 16-bit unsigned scales),
    Q4_0 likewise (4-bit weights, signed scales); anything else gets the format of Q8_0.
    """

    bus_bits: int | None = None
    weight_bits: int | None = None
    scale_bits: int | None = None
    scale_signed: bool | None = None
    group: int | None = None
    width: int | None = None
    tile_rows: int | None = None
    keep_rows: bool = False
    """Keep rows past the tokenizer's vocabulary."""

    def config(self, source: HeadSource, rows: int) -> HeadConfig:
        """The configuration of an image of `rows` rows of a source.

        Raises
        ------
        UserError
            An option is out of its range, or the source is too large for any hardware.
        """
        form = source.integer_form or IntegerForm(weight_bits=8, group=0, signed=False)
        weight_bits = form.weight_bits if self.weight_bits is None else self.weight_bits
        # With a bit to spare, weights are negated instead of scales being signed.
        signed = form.signed and weight_bits == form.weight_bits
        chosen = {
            "bus_bits": self.bus_bits,
            "weight_bits": weight_bits,
            "scale_bits": self.scale_bits,
            "scale_signed": signed if self.scale_signed is None else self.scale_signed,
            "group": form.group or None if self.group is None else self.group,
            "width": self.width,
            "tile_rows": self.tile_rows,
        }
        given = {name: value for name, value in chosen.items() if value is not None}
        try:
            return HeadConfig(**given, max_dim=source.dim, max_rows=rows)
        except ValueError as error:
            raise UserError(source.path, f"cannot be packed: {error}") from None


@dataclass(frozen=True)
class PackReport:
    """What `pack` did."""

    out: str
    source: SourceInfo
    rows: int
    dim: int
    config: dict[str, int | bool]
    """The image format."""
    units: int
    weight_scale: float
    quantisation: Quantisation
    image_bytes: int
    file_bytes: int
    bits_per_weight: float
    """Of the whole image: weights, scales and padding."""

    def lines(self) -> list[str]:
        """The report for a reader, a line each."""
        source, config = self.source, self.config
        tied = {True: ", tied to the token embedding", False: ", not tied", None: ""}[source.tied]
        shape = f"{self.rows} rows x {self.dim} columns"
        if self.rows < source.rows:
            shape += f" ({source.rows - self.rows} rows past the vocabulary left out)"
        group = f"groups of {config['group']}" if config["group"] else "whole rows"
        sign = "signed" if config["scale_signed"] else "unsigned"
        return [
            f"tensor   {source.tensor} ({source.dtype}) of {source.file}{tied}",
            f"shape    {shape}",
            f"format   int{config['weight_bits']} in {group}, {config['scale_bits']}-bit {sign} "
            f"scales; beats of {self.units} x {config['width']} in {config['bus_bits']} bits, "
            f"tiles of {config['tile_rows']} rows",
            f"weights  {self.bits_per_weight:.2f} bits per weight, {self._accuracy()}",
            f"image    {self.image_bytes:,} bytes in {self.out}",
        ]

    def _accuracy(self) -> str:
        result = self.quantisation
        if result.exact:
            return "exact"
        kind = f"requantised ({result.note})" if result.note else "quantised"
        return (
            f"{kind}: RMS relative error {result.rms_relative_error:.3g}, "
            f"largest error {result.max_absolute_error:.3g}"
        )

    def as_dict(self) -> dict:
        """The report as plain values."""
        return asdict(self)

    def __str__(self):
        return "\n".join(self.lines())


def pack(
    source: Path,
    out: Path,
    options: PackOptions | None = None,
    progress: Progress | None = None,
) -> PackReport:
    """Pack the head of a model into an image file.

    Integers are taken over exactly where the format allows, floats are quantised. The file is
    read twice, in chunks: first for what holds for the whole tensor (the largest weight or the
    common unit of the scales), then to write it.

    Parameters
    ----------
    source : Path
        As for `host.sources.open_source`.
    out : Path
        The image; it appears when complete.
    options : PackOptions, optional
    progress : callable, optional

    Raises
    ------
    UserError
        The source holds no usable head, an option is out of range, or `out` cannot be written.
    """
    options = options or PackOptions()
    progress = progress or (lambda done, total: None)
    out = Path(out)
    with open_source(Path(source)) as head:
        if out.exists() and os.path.samefile(out, head.file.path):
            raise UserError(out, "would overwrite the model that it is packed from")
        vocabulary = head.rows if options.keep_rows else head.vocabulary
        rows = min(head.rows, vocabulary or head.rows)
        config = options.config(head, rows)
        with _digests(head) as digests, ImageWriter(out, config, rows, head.dim) as writer:
            weight_scale, quantisation = _write_rows(head, writer, progress)
            file_digest, tensor_digest = digests.result()
            info = SourceInfo(
                file=head.file.path.name,
                tensor=head.tensor,
                dtype=head.dtype,
                rows=head.rows,
                tied=head.tied,
                vocabulary=head.vocabulary,
                sha256=file_digest,
                tensor_sha256=tensor_digest,
            )
            writer.finish(weight_scale, info, quantisation)
    layout = writer.layout
    return PackReport(
        out=str(out),
        source=info,
        rows=rows,
        dim=layout.dim,
        config=config.image_fields(),
        units=config.units,
        weight_scale=weight_scale,
        quantisation=quantisation,
        image_bytes=layout.bytes,
        file_bytes=DATA_OFFSET + layout.bytes,
        bits_per_weight=layout.bytes * 8 / (rows * layout.dim),
    )


@contextlib.contextmanager
def _digests(head: HeadSource) -> Iterator[concurrent.futures.Future]:
    """Digests of the source, computed beside the packing; stopped if that fails."""
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(head.digests, stop)
        finally:
            stop.set()


def _write_rows(
    head: HeadSource, writer: ImageWriter, progress: Progress
) -> tuple[float, Quantisation]:
    """Both passes; the weight scale and what was done to the weights."""
    layout = writer.layout
    form = head.integer_form
    note = why_not_exact(form, layout.config) if form else None
    if form is None or note is not None:
        largest = 0.0
        for start, stop in _passing(layout, 0, progress):
            values = head.read(start, stop)
            largest = max(largest, float(values.max()), -float(values.min()))
    else:
        exact = ExactScales(layout.config)
        for start, stop in _passing(layout, 0, progress):
            exact.add(*_grouped_integers(head, layout, start, stop))
        note = exact.problem()
        if note is None:
            for start, stop in _passing(layout, 1, progress):
                integers = _grouped_integers(head, layout, start, stop)
                weights, scales = exact.convert(*integers)
                writer.write(start, weights.reshape(stop - start, -1), scales)
            return exact.weight_scale, EXACT
        largest = exact.max_magnitude
    quantiser = Quantiser(layout.config, largest)
    for start, stop in _passing(layout, 1, progress):
        weights, scales = quantiser.quantise(_grouped(layout, head.read(start, stop)))
        writer.write(start, weights.reshape(stop - start, -1), scales)
    return quantiser.weight_scale, quantiser.summary(note)


def _passing(layout: ImageLayout, number: int, progress: Progress) -> Iterator[tuple[int, int]]:
    for start, stop in row_chunks(layout):
        yield start, stop
        progress(number * layout.rows + stop, PASSES * layout.rows)


def _grouped(layout: ImageLayout, values: np.ndarray) -> np.ndarray:
    """Rows [n, dim] as [n, groups, columns], padded with zeros."""
    if layout.padded_dim != layout.dim:
        padded = np.zeros((len(values), layout.padded_dim), values.dtype)
        padded[:, : layout.dim] = values
        values = padded
    return values.reshape(len(values), layout.groups, -1)


def _grouped_integers(
    head: HeadSource, layout: ImageLayout, start: int, stop: int
) -> tuple[np.ndarray, np.ndarray]:
    weights, scales = head.read_integers(start, stop)
    if scales.shape[1] < layout.groups:
        # A group of the source is several of the image; the last of a row may be cut short.
        repeats = -(-layout.groups // scales.shape[1])
        scales = np.repeat(scales, repeats, axis=1)[:, : layout.groups]
    return _grouped(layout, weights), scales
