"""Packs the head of a model, or a range of its rows, into an image, in bounded memory."""

import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from host.errors import UsageError, UserError
from host.image import ImageWriter, SourceInfo
from host.image.quantize import (
    EXACT,
    ExactScales,
    Quantisation,
    Quantiser,
    RowTerm,
    quantise_bias,
    quantise_bound,
    why_not_exact,
)
from host.image.tiles import row_chunks
from host.jobs.capabilities import option
from host.sources.head import HeadSource, IntegerForm
from host.sources.open import open_source
from hw.config import HeadConfig
from hw.layout import ImageLayout

Progress = Callable[[int, int], None]
"""Called with rows done and rows in total; a row counts each time that it is read."""


@dataclass(frozen=True)
class PackOptions:
    """The image format and what to pack; None stands for the best default for the source.

    Defaults: Q8_0 is taken over as it is (8-bit weights, groups of 32, 16-bit unsigned scales),
    Q4_0 likewise (4-bit weights, signed scales), and so are int8 and int16 arrays; anything else
    gets the format of Q8_0.
    """

    bus_bits: int | None = None
    weight_bits: int | None = None
    scale_bits: int | None = None
    scale_signed: bool | None = None
    group: int | None = None
    width: int | None = None
    tile_rows: int | None = None
    channels: int | None = None
    bias: bool | None = None
    """Pack the bias of the head; None for one that the model has."""
    bound: bool | None = None
    """Store how far each row is from its source, for ranking by upper bounds."""
    keep_rows: bool = False
    """Keep rows past the tokenizer's vocabulary."""
    row_range: tuple[int, int | None] | None = None
    """Pack only the rows from the first number up to before the second, to the last row without it;
    None for all. Scales and units are still those of all rows, so that the scores of such shards
    compare."""

    def rows_of(self, path: Path, rows: int) -> range:
        """Those to pack of the `rows` rows there are.

        Raises
        ------
        UserError
            The range is empty, or does not lie within them.
        """
        if self.row_range is None:
            return range(rows)
        first, last = self.row_range
        stop = rows if last is None else last
        if not 0 <= first < stop <= rows:
            raise UserError(
                path,
                "has no such range of rows (--rows)",
                expected=f"A:B with 0 <= A < B <= {rows}",
                found=f"{first}:{'' if last is None else last}",
            )
        return range(first, stop)

    def config(self, source: HeadSource, rows: int) -> HeadConfig:
        """The configuration of an image of `rows` rows of a source.

        Raises
        ------
        UsageError
            An option is out of its range for these weights.
        UserError
            The source is too large for any hardware.
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
            "channels": self.channels,
            "bias": source.bias is not None if self.bias is None else self.bias,
            "bound": self.bound,
        }
        given = {name: value for name, value in chosen.items() if value is not None}
        try:
            return HeadConfig(**given, max_dim=source.dim, max_rows=rows)
        except ValueError as error:
            field = str(error).split(" ", 1)[0]
            if getattr(self, field, None) is not None:
                where = f"{error}, for int{weight_bits} weights of {source.path}"
                raise UsageError(option(field), where) from None
            raise UserError(source.path, f"cannot be packed: {error}") from None


@dataclass(frozen=True)
class PackReport:
    """What `pack` did."""

    out: str
    source: SourceInfo
    rows: int
    first_row: int
    """The vocabulary row that is row 0 of the image."""
    vocabulary_rows: int
    """Rows of the vocabulary; the image holds fewer if it is a shard."""
    dim: int
    config: dict[str, int | bool]
    """The image format."""
    units: int
    weight_scale: float
    quantisation: Quantisation
    bias: dict[str, float] | None
    """`unit` and `largest` magnitude of the stored bias; None without."""
    bound: dict[str, float] | None
    """The same of the bound."""
    logit_scale: float
    """What the model multiplies its logits by; the accelerator's scores are without it."""
    softcap: float | None
    """What it then bends them to; None without."""
    image_bytes: int
    file_bytes: int
    bits_per_weight: float
    """Of the whole image: weights, scales and padding."""

    def lines(self) -> list[str]:
        """The report for a reader, a line each."""
        source, config = self.source, self.config
        tied = {True: ", tied to the token embedding", False: ", not tied", None: ""}[source.tied]
        shape = f"{self.rows} rows x {self.dim} columns"
        if self.rows < self.vocabulary_rows:
            last = self.first_row + self.rows - 1
            shape += f", rows {self.first_row} to {last} of {self.vocabulary_rows}"
        if self.vocabulary_rows < source.rows:
            shape += f" ({source.rows - self.vocabulary_rows} rows past the vocabulary left out)"
        group = f"groups of {config['group']}" if config["group"] else "whole rows"
        sign = "signed" if config["scale_signed"] else "unsigned"
        channels = f", on {config['channels']} channels" if config["channels"] > 1 else ""
        lines = [
            f"tensor   {source.tensor} ({source.dtype}) of {source.file}{tied}",
            f"shape    {shape}",
            f"format   int{config['weight_bits']} in {group}, {config['scale_bits']}-bit {sign} "
            f"scales; beats of {self.units} x {config['width']} in {config['bus_bits']} bits, "
            f"tiles of {config['tile_rows']} rows{channels}",
            f"weights  {self.bits_per_weight:.2f} bits per weight, {self._accuracy()}",
        ]
        if self.bias:
            lines.append(
                f"bias     tensor {source.bias}: largest {self.bias['largest']:.3g}, "
                f"stored within {self.bias['unit'] / 2:.3g}"
            )
        if self.bound:
            lines.append(
                f"bound    of a row's distance from its source: largest {self.bound['largest']:.3g}"
            )
        if self.logit_scale != 1 or self.softcap is not None:
            cap = "" if self.softcap is None else f", then capped at {self.softcap:g}"
            lines.append(
                f"logits   times {self.logit_scale:g}{cap}: by the host, not in the scores"
            )
        return [*lines, f"image    {self.image_bytes:,} bytes in {self.out}"]

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
    common unit of the scales), then to write it. Of a range of rows, only these are read again,
    unless the image has a bound, whose unit depends on how all rows are quantised.

    Parameters
    ----------
    source : Path
        As for `host.sources.open.open_source`.
    out : Path
        The image; it appears when complete.
    options : PackOptions, optional
    progress : callable, optional

    Raises
    ------
    UserError
        The source holds no usable head or bias, or none of the rows that are to be packed, an
        option is out of range, or `out` cannot be written.
    """
    options = options or PackOptions()
    progress = progress or (lambda done, total: None)
    out = Path(out)
    with open_source(Path(source)) as head:
        if out.exists() and os.path.samefile(out, head.file.path):
            raise UserError(out, "would overwrite the model that it is packed from")
        vocabulary = head.rows if options.keep_rows else head.vocabulary
        total = min(head.rows, vocabulary or head.rows)
        rows = options.rows_of(head.path, total)
        config = options.config(head, len(rows))
        bias = _part(quantise_bias(head.read_bias(total)) if config.bias else None, rows)
        with _digests(head) as digests, ImageWriter(out, config, len(rows), head.dim) as writer:
            weight_scale, quantisation, residuals = _write_rows(head, writer, rows, total, progress)
            bound = _part(quantise_bound(residuals) if config.bound else None, rows)
            terms = [term for term in (bias, bound) if term is not None]
            if terms:
                writer.write_terms(np.stack([term.values for term in terms], axis=1))
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
                bias=head.bias.tensor if bias else None,
            )
            writer.finish(
                weight_scale,
                info,
                quantisation,
                bias.unit if bias else 1.0,
                bound.unit if bound else 1.0,
                first_row=rows.start,
                transform=head.transform,
            )
    layout = writer.layout
    return PackReport(
        out=str(out),
        source=info,
        rows=len(rows),
        first_row=rows.start,
        vocabulary_rows=total,
        dim=layout.dim,
        config=config.image_fields(),
        units=config.units,
        weight_scale=weight_scale,
        quantisation=quantisation,
        bias=_describe_term(bias),
        bound=_describe_term(bound),
        logit_scale=head.transform.scale,
        softcap=head.transform.softcap,
        image_bytes=layout.bytes,
        file_bytes=writer.file_bytes,
        bits_per_weight=layout.bytes * 8 / (layout.rows * layout.dim),
    )


def _part(term: RowTerm | None, rows: range) -> RowTerm | None:
    """The rows of a term that are packed, in the unit of all."""
    return term and replace(term, values=term.values[rows.start : rows.stop])


def _describe_term(term: RowTerm | None) -> dict[str, float] | None:
    if term is None:
        return None
    largest = int(np.abs(term.values.astype(np.int32)).max())
    return {"unit": term.unit, "largest": largest * term.unit}


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
    head: HeadSource, writer: ImageWriter, rows: range, total: int, progress: Progress
) -> tuple[float, Quantisation, np.ndarray]:
    """All passes: weight scale, what was done to the weights, and the distance of each of the
    `total` rows from what is stored for it, float64 [total], zeros without a bound.
    """
    layout = writer.layout
    residuals = np.zeros(total)
    form = head.integer_form
    note = why_not_exact(form, layout.config) if form else None
    reading = _Reading(layout, progress, total + len(rows))
    if form is None or note is not None:
        largest = 0.0
        for start, stop in reading.chunks(0, total):
            values = head.read(start, stop)
            largest = max(largest, float(values.max()), -float(values.min()))
    else:
        exact = ExactScales(layout.config)
        for start, stop in reading.chunks(0, total):
            exact.add(*_grouped_integers(head, layout, start, stop))
        note = exact.problem()
        if note is None:
            for start, stop in reading.chunks(rows.start, rows.stop):
                integers = _grouped_integers(head, layout, start, stop)
                weights, scales = exact.convert(*integers)
                writer.write(start - rows.start, weights.reshape(stop - start, -1), scales)
            return exact.weight_scale, EXACT, residuals
        largest = exact.max_magnitude
    # The statistics are to be those of the packed rows.
    packed, others = (Quantiser(layout.config, largest) for _ in range(2))
    parts = [(packed, rows.start, rows.stop)]
    if layout.config.bound:
        parts = [(others, 0, rows.start), *parts, (others, rows.stop, total)]
        reading.rows = 2 * total
    for quantiser, first, last in parts:
        for start, stop in reading.chunks(first, last):
            weights, scales = quantiser.quantise(
                _grouped(layout, head.read(start, stop)),
                residuals[start:stop] if layout.config.bound else None,
            )
            if quantiser is packed:
                writer.write(start - first, weights.reshape(stop - start, -1), scales)
    return packed.weight_scale, packed.summary(note), residuals


class _Reading:
    """Cuts ranges of rows into chunks to read, and reports how far it is.

    Parameters
    ----------
    layout : ImageLayout
        Of the image; a range that is not the image's is cut as if it were.
    progress : callable
    rows : int
        Rows to be read, a row that is read twice counting twice.
    """

    def __init__(self, layout: ImageLayout, progress: Progress, rows: int):
        self.layout = layout
        self.progress = progress
        self.rows = rows
        self._done = 0

    def chunks(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        if first == last:
            return
        for start, stop in row_chunks(
            ImageLayout(self.layout.config, last - first, self.layout.dim)
        ):
            yield first + start, first + stop
            self._done += stop - start
            self.progress(self._done, self.rows)


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
