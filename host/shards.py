"""A vocabulary over several accelerators: each holds a range of rows, the results are merged."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from host.errors import UserError
from host.results import FILLER_ID, FILLER_SCORE, LARGEST_OF_CHANNELS, Results

if TYPE_CHECKING:
    from host.driver import Head

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


class ShardedHead:
    """Heads that hold consecutive ranges of one vocabulary, used as one.

    Parameters
    ----------
    heads : sequence of Head
        In the order of their rows; shard s begins behind the last row of shard s - 1.

    Raises
    ------
    UserError
        The images are no shards of one tensor: their width, number format, scale or units differ;
        or they do not follow each other from row 0 on.
    """

    def __init__(self, heads: Sequence["Head"]):
        if not heads:
            raise ValueError("a sharded head needs at least one shard")
        self.heads = tuple(heads)
        first = heads[0].image
        for head in heads[1:]:
            for name in ("dim", "weight_scale", "bias_unit", "bound_unit", "transform"):
                expected, found = getattr(first, name), getattr(head.image, name)
                if found != expected:
                    raise UserError(
                        head.image.path,
                        f"is no shard of the same tensor as {first.path}: {name}",
                        expected=expected,
                        found=found,
                    )
            if head.hidden_bits != heads[0].hidden_bits:
                raise UserError(
                    head.image.path,
                    f"hidden_bits of its accelerator and of that of {first.path} must be equal",
                    expected=heads[0].hidden_bits,
                    found=head.hidden_bits,
                )
        self.first_rows = np.cumsum([0, *(head.image.rows for head in heads)])
        for head, expected in zip(heads, self.first_rows, strict=False):
            if head.image.first_row != expected:
                raise UserError(
                    head.image.path,
                    "is not the next shard: first row",
                    expected=expected,
                    found=head.image.first_row,
                )

    @property
    def rows(self) -> int:
        """Rows of the whole vocabulary."""
        return int(self.first_rows[-1])

    @property
    def max_k(self) -> int:
        return min(head.max_k for head in self.heads)

    def run(
        self,
        hidden: np.ndarray,
        k: int,
        progress: Callable[[int, int], None] | None = None,
        *,
        mask: np.ndarray | None = None,
        **arguments,
    ) -> Results:
        """Run every shard at the same time and merge; arguments as for `Head.run`.

        Cycles of the merged counters are those of the slowest shard, job by job; other counters
        are added up, but for the largest of latencies and of outstanding bytes. Channels of the
        shards stand side by side.

        Raises
        ------
        UserError, TypeError, JobError, JobTimeout, DeviceError
            As `Head.run`; what the other shards do is waited for.
        """
        if mask is not None and np.ndim(mask) != 2:
            raise UserError("mask", "must be int32 [N, words]", found=list(np.shape(mask)))
        calls = []
        for index, head in enumerate(self.heads):
            own = arguments
            if mask is not None:
                first = int(self.first_rows[index])
                own = arguments | {"mask": shift_mask(np.asarray(mask), first, head.image.rows)}
            calls.append((head, progress if index == 0 else None, own))
        with ThreadPoolExecutor(len(calls)) as pool:
            futures = [
                pool.submit(head.run, hidden, k, report, **own) for head, report, own in calls
            ]
        return self.merge([future.result() for future in futures])

    def merge(self, parts: Sequence[Results]) -> Results:
        """Merge the shards' results, in the order of the shards, in the total order."""
        ids = np.concatenate(
            [
                np.where(part.ids == FILLER_ID, FILLER_ID, part.ids + first)
                for part, first in zip(parts, self.first_rows[:-1], strict=True)
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
            units = self.heads[0].image.weight_scale * parts[0].hidden_scales
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
