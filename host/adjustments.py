"""Penalties and logit bias, exact over the whole vocabulary with K results of the accelerator.

They change the logits of few rows: those of the history and those named by the bias. These are
scored exactly by their ids. Of all others only the K best can be among the K best afterwards, and
the accelerator finds them among its best K + L rows, L being the number of rows that were lowered.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from host.errors import UserError
from host.files.arrays import integer
from host.jobs.hidden import check_hidden
from host.masks import allowed_rows, check_mask
from host.results import FILLER_ID
from host.sampling import LogitTransform, logsumexp
from host.scoring import score_ids

if TYPE_CHECKING:
    from host.driver import Head
    from host.shards import ShardedHead

LARGEST_SHARE = 0.999
"""Probability of the changed rows up to which a log-sum-exp is corrected for them: what is left of
it is a difference, whose error grows as the share of the others shrinks."""


@dataclass(frozen=True)
class Adjustment:
    """How a token's logit depends on how often it occurred, and a bias by token.

    In this order: the repetition penalty divides positive logits of tokens that occurred and
    multiplies negative ones; presence and frequency penalties are subtracted, the one once and the
    other for every occurrence; the bias is added, where -inf bans a token.

    Raises
    ------
    TypeError
        A token of `bias` is no integer.
    ValueError
        A parameter is out of its range.
    """

    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    bias: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self):
        if not (math.isfinite(self.repetition) and self.repetition > 0):
            raise ValueError(f"repetition must be finite and above 0, got {self.repetition}")
        for name in ("presence", "frequency"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} must be finite, got {getattr(self, name)}")
        for token, value in self.bias.items():
            if not isinstance(token, int | np.integer) or isinstance(token, bool):
                raise TypeError(f"tokens of bias must be integers, got {token!r}")
            if math.isnan(value) or value == math.inf:
                raise ValueError(f"bias of token {token} must be finite or -inf, got {value}")

    @property
    def uses_history(self) -> bool:
        return self.repetition != 1 or self.presence != 0 or self.frequency != 0

    def ids(self, history: Sequence[int]) -> np.ndarray:
        """The rows whose logit may change, int64, ascending, each once."""
        seen = list(history) if self.uses_history else []
        return np.unique(np.array([*seen, *self.bias], np.int64))

    def apply(self, ids: np.ndarray, logits: np.ndarray, history: Sequence[int]) -> np.ndarray:
        """New logits float64 [M] of rows `ids` [M] with `logits` [M]."""
        tokens, occurrences = np.unique(np.array(list(history), np.int64), return_counts=True)
        counts = dict(zip(tokens.tolist(), occurrences.tolist(), strict=True))
        count = np.array([counts.get(token, 0) for token in ids.tolist()], np.float64)
        changed = np.asarray(logits, np.float64).copy()
        seen = count > 0
        repeated = np.where(changed > 0, changed / self.repetition, changed * self.repetition)
        changed = np.where(seen, repeated, changed)
        changed = changed - self.presence * seen - self.frequency * count
        return changed + np.array([self.bias.get(token, 0.0) for token in ids.tolist()])


@dataclass(frozen=True)
class AdjustedResults:
    """The K best rows of N states by their adjusted logits."""

    ids: np.ndarray
    """int32 [N, K], best first; -1 where there are not as many."""
    logits: np.ndarray
    """float64 [N, K], adjusted; -inf there."""
    logsumexp: np.ndarray | None
    """float64 [N], of the adjusted logits over the whole vocabulary divided by the temperature."""


def run_adjusted(
    head: "Head | ShardedHead",
    hidden: np.ndarray,
    k: int,
    adjustment: Adjustment,
    histories: Sequence[Sequence[int]],
    *,
    transform: LogitTransform | None = None,
    mask: np.ndarray | None = None,
    with_logsumexp: bool = False,
    temperature: float = 1.0,
    progress: Callable[[int, int], None] | None = None,
) -> AdjustedResults:
    """Find the k best rows of every state after penalties and logit bias.

    Equal adjusted logits are ordered by the logit before, then by id. A banned row is no result.

    Parameters
    ----------
    head : Head or ShardedHead
        Of an image without a bound, whose order is another.
    hidden : real [N, d]
    k : int
    adjustment : Adjustment
    histories : sequence of N sequences of ids
        The tokens each state follows.
    transform : LogitTransform, optional
        The model's own, to which penalties apply. Default: that of the image.
    mask : int32 [N, ceil(V / 32)], optional
        As for `Head.run`; a row that is not allowed stays out whatever its bias.
    with_logsumexp : bool
        Also give the log-sum-exp of ``adjusted logit / temperature``.
    temperature : float
    progress : callable (done, total), optional

    Raises
    ------
    UserError
        An argument does not fit; more rows than the hardware returns would have to be fetched for
        the result to be certain; or the changed rows hold nearly all of the probability, so that
        the log-sum-exp cannot be told from the accelerator's. The message says which state.
    """
    image = head.image
    hidden = check_hidden(hidden, image.dim)
    k = integer("k", k)
    if not 1 <= k <= head.max_k:
        raise UserError("k", f"must be in 1..{head.max_k}", found=k)
    transform = image.transform if transform is None else transform
    if image.config_fields["bound"]:
        raise UserError(image.path, "ranks by an error bound, which penalties do not know")
    if len(histories) != len(hidden):
        raise UserError(
            "histories", "must be one for each state", expected=len(hidden), found=len(histories)
        )
    allowed = [None] * len(hidden)
    if mask is not None:
        mask = check_mask(mask, len(hidden), image.rows)
        allowed = allowed_rows(mask, image.rows)
    changes = [
        _changes(head, hidden[n], adjustment, _check_history(history, n), transform, allowed[n], n)
        for n, history in enumerate(histories)
    ]
    lowered = max((change.lowered for change in changes), default=0)
    # More rows than the hardware returns may not be needed: then the result is checked below.
    fetched = min(k + lowered, head.max_k)
    try:
        inner = transform.temperature(temperature) if with_logsumexp else 1.0
    except ValueError as error:
        raise UserError("logsumexp", str(error)) from None
    results = head.run(
        hidden, fetched, progress, mask=mask, logsumexp=with_logsumexp, temperature=inner
    )
    ids = np.full((len(hidden), k), FILLER_ID, np.int32)
    logits = np.full((len(hidden), k), -np.inf)
    totals = np.empty(len(hidden)) if with_logsumexp else None
    for n, change in enumerate(changes):
        best_ids, best_logits = _merge(change, results, n, k, transform, head.max_k)
        ids[n, : len(best_ids)] = best_ids
        logits[n, : len(best_ids)] = best_logits
        if totals is not None:
            totals[n] = _corrected(results.logsumexp[n], change, temperature, n)
    return AdjustedResults(ids, logits, totals)


@dataclass(frozen=True)
class _Change:
    """The rows of one state whose logits change, all allowed ones."""

    ids: np.ndarray
    scores: np.ndarray
    before: np.ndarray
    after: np.ndarray

    @property
    def lowered(self) -> int:
        return int((self.after < self.before).sum())


def _check_history(history: Sequence[int], n: int) -> list[int]:
    """The tokens of a state's history; raises `UserError` unless all are integers."""
    tokens = list(history)
    for place, token in enumerate(tokens):
        if not isinstance(token, int | np.integer) or not 0 <= token < 2**31:
            raise UserError(
                f"history of state {n}", f"place {place} is no token", found=repr(token)
            )
    return tokens


def _changes(head, state, adjustment, history, transform, allowed, n) -> _Change:
    ids = adjustment.ids(history)
    if allowed is not None:
        inside = (ids >= 0) & (ids < head.image.rows)
        ids = ids[~inside | allowed[np.where(inside, ids, 0)]]
    try:
        found = score_ids(head.image, state, ids, head.hidden_bits)
    except UserError as error:
        raise UserError(f"history or bias of state {n}", str(error)) from None
    before = transform.apply(found.logits[0])
    return _Change(ids, found.scores[0], before, adjustment.apply(ids, before, history))


def _merge(change, results, n, k, transform, most):
    """The k best of the changed rows and the fetched ones that did not change."""
    count = int(results.counts[n])
    fetched_ids = results.ids[n, :count].astype(np.int64)
    unchanged = ~np.isin(fetched_ids, change.ids)
    ids = np.concatenate([fetched_ids[unchanged], change.ids])
    scores = np.concatenate([results.scores[n, :count][unchanged], change.scores])
    logits = np.concatenate([transform.apply(results.logits[n, :count])[unchanged], change.after])
    possible = ~np.isneginf(logits)
    ids, scores, logits = ids[possible], scores[possible], logits[possible]
    order = np.lexsort((ids, ~scores, -logits))[:k]
    # Rows that were not fetched are behind the last one that was.
    complete = count < results.ids.shape[1] or count == 0
    certain = unchanged.sum() >= k
    if not (complete or certain):
        last = (int(results.scores[n, count - 1]), -int(fetched_ids[-1]))
        floor = transform.apply(results.logits[n, count - 1 : count])[0]
        inside = [
            (logits[place], int(scores[place]), -int(ids[place])) >= (floor, *last)
            for place in order
        ]
        certain = len(order) == k and all(inside)
    if not (complete or certain):
        raise UserError(
            f"state {n}",
            f"penalties lower {change.lowered} rows, more than can be told apart within the {most} "
            "results of the hardware; use a smaller k or a larger --max-k",
        )
    return ids[order], logits[order]


def _corrected(total: float, change: _Change, temperature: float, n: int) -> float:
    """The log-sum-exp with the changed rows' parts taken out and put in as they are now."""
    if not len(change.ids):
        return total
    before = float(logsumexp(change.before / temperature))
    after = float(logsumexp(change.after / temperature))
    share = math.exp(min(0.0, before - total))
    if share > LARGEST_SHARE:
        raise UserError(
            f"state {n}",
            f"penalties change rows that hold {share:.4%} of the probability: the log-sum-exp of "
            "the others cannot be told from the total; have all logits returned (--all-logits)",
        )
    rest = total + math.log1p(-share)
    return float(np.logaddexp(rest, after))
