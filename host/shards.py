"""A vocabulary over several accelerators: each holds a range of rows, the results are merged."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np

from host.errors import UserError
from host.jobs.hidden import check_hidden
from host.masks import check_mask
from host.results import FILLER_ID, FILLER_SCORE, LARGEST_OF_CHANNELS, Results

if TYPE_CHECKING:
    from host.driver import Head
    from host.image import Image

MASK_WORD_BITS = 32


def shift_mask(mask: np.ndarray, first: int, rows: int) -> np.ndarray:
    """The words of a mask int32 [N, W] for `rows` rows from row `first` on, int32 [N, W']."""
    words = -(-rows // MASK_WORD_BITS)
    skip, shift = divmod(first, MASK_WORD_BITS)
    wide = np.zeros((len(mask), words + 1), np.uint64)
    part = np.ascontiguousarray(mask[:, skip : skip + words + 1]).view(np.uint32)
    wide[:, : part.shape[1]] = part
    joined = (wide[:, :-1] | wide[:, 1:] << np.uint64(MASK_WORD_BITS)) >> np.uint64(shift)
    return joined.astype(np.uint32).view(np.int32)


# What the bytes of all shards must have in common; channels and tiles are each device's own.
FORMAT_FIELDS = (
    "bus_bits",
    "weight_bits",
    "scale_bits",
    "scale_signed",
    "group",
    "bias",
    "bound",
)


class _Stopped(Exception):
    """A run was interrupted, and its other shards begin no further job."""


class ShardedImage:
    """The images of all shards of a vocabulary, read as one.

    It has what the golden models, `host.scoring` and `host.adjustments` need of an `Image`.

    Parameters
    ----------
    images : sequence of Image
        In the order of their rows; shard s begins behind the last row of shard s - 1.

    Attributes
    ----------
    shards : tuple of Image
    first_rows : list of int
        The first row of each shard.
    path : Path
        Of the first shard.
    rows : int
        Rows of all shards.
    dim, weight_scale, bias_unit, bound_unit, transform
        As of each of the images.
    config, config_fields
        Of the first image: channels, tiles and sizes of others may differ.

    Raises
    ------
    UserError
        The images are no shards of one tensor: their width, number format, scale, units or source
        differ; or they do not follow each other from row 0 on. The message names the image.
    """

    def __init__(self, images: Sequence["Image"]):
        if not images:
            raise ValueError("a sharded image needs at least one shard")
        self.shards = tuple(images)
        first = images[0]
        for image in images[1:]:
            for name, expected in _identity(first).items():
                found = _identity(image)[name]
                if found != expected:
                    raise UserError(
                        image.path,
                        f"is no shard of the same tensor as {first.path}: {name}",
                        expected=expected,
                        found=found,
                    )
        edges = np.cumsum([0, *(image.rows for image in images)]).tolist()
        self.first_rows, self.rows = edges[:-1], edges[-1]
        for image, expected in zip(images, self.first_rows, strict=True):
            if image.first_row != expected:
                raise UserError(
                    image.path,
                    "is not the next shard: first row",
                    expected=expected,
                    found=image.first_row,
                )
        self.path, self.dim, self.transform = first.path, first.dim, first.transform
        self.weight_scale = first.weight_scale
        self.bias_unit, self.bound_unit = first.bias_unit, first.bound_unit
        self.config, self.config_fields = first.config, first.config_fields

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Row ranges in order that are good to read at a time; each lies within one shard."""
        for image, first in zip(self.shards, self.first_rows, strict=True):
            for start, stop in image.chunks():
                yield first + start, first + stop

    def read_rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Stored weights and scales of some rows, as `Image.read_rows`."""
        parts = [image.read_rows(*rows) for image, *rows in self._pieces(start, stop)]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def read_terms(self, start: int, stop: int) -> np.ndarray:
        """Stored terms of some rows, as `Image.read_terms`."""
        parts = [image.read_terms(*rows) for image, *rows in self._pieces(start, stop)]
        return np.concatenate(parts)

    def _pieces(self, start: int, stop: int) -> list[tuple["Image", int, int]]:
        """The shards that hold some rows, and which of their own rows these are."""
        if not 0 <= start < stop <= self.rows:
            raise IndexError(f"rows must be in 0..{self.rows}, at least one, got {start}:{stop}")
        pieces = [
            (image, max(start - first, 0), min(stop - first, image.rows))
            for image, first in zip(self.shards, self.first_rows, strict=True)
        ]
        return [(image, low, high) for image, low, high in pieces if low < high]


def _identity(image: "Image") -> dict[str, object]:
    """What all shards of a tensor have in common, by the name for a message."""
    names = ("dim", "weight_scale", "bias_unit", "bound_unit", "transform")
    common = {name: getattr(image, name) for name in names}
    common |= {name: image.config_fields[name] for name in FORMAT_FIELDS}
    return common | {"SHA-256 of the tensor": image.source.tensor_sha256 or "not known"}


class ShardedHead:
    """Heads that hold consecutive ranges of one vocabulary, used as one.

    Parameters
    ----------
    heads : sequence of Head
        In the order of their rows, each on a device of its own.

    Attributes
    ----------
    image : ShardedImage

    Raises
    ------
    UserError
        The images are no shards of one tensor that follow each other (see `ShardedImage`), or
        `hidden_bits` of the accelerators differ.
    """

    def __init__(self, heads: Sequence["Head"]):
        if not heads:
            raise ValueError("a sharded head needs at least one shard")
        self.heads = tuple(heads)
        self.image = ShardedImage([head.image for head in heads])
        for head in heads[1:]:
            if head.hidden_bits != heads[0].hidden_bits:
                raise UserError(
                    head.image.path,
                    f"hidden_bits of its accelerator and of that of {self.image.path} must be "
                    "equal",
                    expected=heads[0].hidden_bits,
                    found=head.hidden_bits,
                )

    @property
    def rows(self) -> int:
        """Rows of the whole vocabulary."""
        return self.image.rows

    @property
    def max_k(self) -> int:
        """Most results per state that every shard's hardware returns."""
        return min(head.max_k for head in self.heads)

    @property
    def hidden_bits(self) -> int:
        """Width of a quantised hidden value."""
        return self.heads[0].hidden_bits

    def run(
        self,
        hidden: np.ndarray,
        k: int,
        progress: Callable[[int, int], None] | None = None,
        deadline_cycles: int | None = None,
        *,
        mask: np.ndarray | None = None,
        **arguments,
    ) -> Results:
        """Run every shard at the same time and merge; arguments as for `Head.run`.

        A mask is of the whole vocabulary. `progress` is told the states that all shards have done.
        Cycles of the merged counters are those of the slowest shard, job by job; other counters
        are added up, but for the largest of latencies and of outstanding bytes. Channels of the
        shards stand side by side.

        Raises
        ------
        UserError, TypeError, JobError, JobTimeout, DeviceError
            As `Head.run`; what the other shards do is waited for.
        """
        hidden = check_hidden(hidden, self.image.dim)
        if mask is not None:
            mask = check_mask(mask, len(hidden), self.rows)
        done, lock, interrupted = [0] * len(self.heads), threading.Lock(), threading.Event()

        def run(index: int) -> Results:
            head = self.heads[index]

            def report(states, total):
                if interrupted.is_set():
                    raise _Stopped
                with lock:
                    done[index] = states
                    if progress is not None:
                        progress(min(done), total)

            own = arguments
            if mask is not None:
                first = self.image.first_rows[index]
                own = arguments | {"mask": shift_mask(mask, first, head.image.rows)}
            try:
                return head.run(hidden, k, report, deadline_cycles, **own)
            except UserError as error:
                raise UserError(head.image.path, str(error)) from None

        with ThreadPoolExecutor(len(self.heads)) as pool:
            futures = [pool.submit(run, index) for index in range(len(self.heads))]
            try:
                wait(futures)
            except BaseException:  # Ctrl-C reaches this thread alone
                interrupted.set()
                raise
        return self.merge([future.result() for future in futures])

    def merge(self, parts: Sequence[Results]) -> Results:
        """Merge the shards' results, in the order of the shards, in the total order."""
        ids = np.concatenate(
            [
                np.where(part.ids == FILLER_ID, FILLER_ID, part.ids + first)
                for part, first in zip(parts, self.image.first_rows, strict=True)
            ],
            axis=1,
        )
        scores = np.concatenate([part.scores for part in parts], axis=1)
        logits = np.concatenate([part.logits for part in parts], axis=1)
        bounds = None
        ranks = scores
        if parts[0].bounds is not None:
            bounds = np.concatenate([part.bounds for part in parts], axis=1)
            # Exact: a product of two integers below 2^48, rounded a few times in float64.
            units = self.image.weight_scale * parts[0].hidden_scales
            ranks = scores + np.rint(bounds / units[:, np.newaxis]).astype(np.int64)
        k = parts[0].ids.shape[1]
        # Shards ascend, so a stable sort keeps the lower id first among equals; fillers come last.
        absent = ids == FILLER_ID
        order = np.lexsort((~ranks, absent), axis=1)[:, :k]

        def chosen(values):
            return np.take_along_axis(values, order, axis=1)

        joined = {
            "ids": chosen(ids).astype(np.int32),
            "scores": np.where(chosen(absent), FILLER_SCORE, chosen(scores)),
            "logits": chosen(logits),
            "hidden_scales": parts[0].hidden_scales,
            "job_of": parts[0].job_of,
            "counters": _merge_counters(parts),
            "channel_counters": {
                name: np.concatenate([part.channel_counters[name] for part in parts], axis=1)
                for name in parts[0].channel_counters
            },
        }
        if bounds is not None:
            joined["bounds"] = chosen(bounds)
        if parts[0].logsumexp is not None:
            joined["logsumexp"] = np.logaddexp.reduce([part.logsumexp for part in parts], axis=0)
        if parts[0].all_logits is not None:
            joined["all_logits"] = np.concatenate([part.all_logits for part in parts], axis=1)
        return Results(**joined)


def _merge_counters(parts: Sequence[Results]) -> dict[str, np.ndarray]:
    merged = {}
    for name in parts[0].counters:
        values = np.stack([part.counters[name] for part in parts])
        largest = name == "cycles" or name in LARGEST_OF_CHANNELS
        merged[name] = values.max(axis=0) if largest else values.sum(axis=0)
    return merged
