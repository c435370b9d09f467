"""From logits to tokens: what belongs to the host and stays out of the projection.

The steps, in their order: logit scale and softcap (`LogitTransform`), penalties and logit bias
(`host.adjustments`), temperature, top-k, top-p, min-p and the draw (`Sampling`). Logits come as the
accelerator returns them, the K best of each state, best first; with the log-sum-exp over the whole
vocabulary their probabilities are the true ones.
"""

import math
import operator
from dataclasses import dataclass

import numpy as np

PROBABILITY_SLACK = 1e-5
"""How far the probabilities of K candidates may add up to more than 1: the log-sum-exp comes from
quantised scores and fixed-point arithmetic."""


def softmax(logits: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, float64, the maximum subtracted first.

    Over the K logits that were returned it gives shares among those K, which exceed the
    probabilities over the whole vocabulary. -inf gets 0.

    Raises
    ------
    ValueError
        A row has no finite logit, or holds NaN or +inf.
    """
    logits = np.asarray(logits, np.float64)
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    if not np.isfinite(top).all():
        raise ValueError("every row of logits needs a finite maximum")
    weights = np.exp(logits - top)
    return weights / weights.sum(axis=-1, keepdims=True)


def logsumexp(logits: np.ndarray) -> np.ndarray:
    """log(sum(exp(logits))) over the last axis, float64; -inf where all are -inf."""
    logits = np.asarray(logits, np.float64)
    top = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    anchor = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(logits - anchor).sum(axis=-1)) + anchor[..., 0]


def log_probabilities(logits: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Log-probabilities [N, K] of logits [N, K], both of the same temperature.

    Parameters
    ----------
    logits : float [N, K]
    total : float [N]
        The log-sum-exp over the whole vocabulary.
    """
    return np.asarray(logits, np.float64) - np.asarray(total, np.float64)[..., np.newaxis]


def perplexity(log_probabilities: np.ndarray) -> float:
    """exp of the mean negative log-probability of the tokens of a text, float [N], N >= 1."""
    values = np.asarray(log_probabilities, np.float64)
    if not values.size:
        raise ValueError("a perplexity needs at least one token")
    with np.errstate(over="ignore"):  # infinite, as with a token of probability 0
        return float(np.exp(-values.mean()))


def greedy(ids: np.ndarray) -> np.ndarray:
    """The best token of results sorted best first, [N, K] -> [N]."""
    return np.asarray(ids)[..., 0]


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be finite and above 0, got {value}")


@dataclass(frozen=True)
class LogitTransform:
    """What a model does to its logits behind the projection.

        logit = softcap * tanh(scale * projected / softcap)

    It never changes their order, so the accelerator ranks the scores as they are.

    Parameters
    ----------
    scale : float
        Factor of the logits (for models that divide, its inverse); above 0, since another sign
        would turn the order round.
    softcap : float, optional
        Bound that the logits approach.

    Raises
    ------
    ValueError
        A parameter is not above 0.
    """

    scale: float = 1.0
    softcap: float | None = None

    def __post_init__(self):
        _check_positive("logit scale", self.scale)
        if self.softcap is not None:
            _check_positive("softcap", self.softcap)

    @property
    def is_identity(self) -> bool:
        """The model's logits are those of the projection."""
        return self.scale == 1 and self.softcap is None

    def __str__(self):
        cap = "" if self.softcap is None else f", then capped at {self.softcap:g}"
        return f"times {self.scale:g}{cap}"

    def apply(self, logits: np.ndarray) -> np.ndarray:
        """The model's logits, float64; -inf, where no row is, stays."""
        logits = np.asarray(logits, np.float64) * self.scale
        if self.softcap is None:
            return logits
        capped = self.softcap * np.tanh(logits / self.softcap)
        return np.where(np.isneginf(logits), logits, capped)

    def temperature(self, temperature: float = 1.0) -> float:
        """The temperature that the accelerator's log-sum-exp needs for this one of the model.

        Raises
        ------
        ValueError
            With a softcap: the sum over the vocabulary then needs every logit, which `all_logits`
            (--all-logits) returns.
        """
        if self.softcap is not None:
            raise ValueError(
                "a softcap cannot be applied within the log-sum-exp of the accelerator: have all "
                "logits returned (--all-logits) and apply it to them"
            )
        return temperature / self.scale


class NotCoveredError(ValueError):
    """The K candidates do not hold all tokens that the filters would keep."""


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn.

    Parameters
    ----------
    temperature : float
        0 takes the best token.
    top_k : int
        Keep that many tokens; 0 keeps all.
    top_p : float
        Keep the fewest tokens, best first, whose probabilities reach it; of what top-k kept, the
        probabilities being those among these, or else of the vocabulary. 1 keeps all.
    min_p : float
        Keep tokens of at least this share of the best one's probability; 0 keeps all.

    Raises
    ------
    ValueError
        A parameter is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self):
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(f"temperature must be finite and at least 0, got {self.temperature}")
        if operator.index(self.top_k) < 0:
            raise ValueError(f"top_k must be at least 0, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must be in 0..1, got {self.min_p}")

    def probabilities(
        self, logits: np.ndarray, total: np.ndarray | None = None, *, complete: bool = False
    ) -> np.ndarray:
        """Probability of each candidate to be drawn, float64 [N, K]; the rows add up to 1.

        Parameters
        ----------
        logits : float [N, K]
            The model's logits of the candidates, best first; -inf where there is none.
        total : float [N], optional
            Log-sum-exp of ``logits / temperature`` over the whole vocabulary; needed by top-p
            unless top-k came before it or `complete`.
        complete : bool
            The candidates are the whole vocabulary.

        Raises
        ------
        NotCoveredError
            The filters keep tokens past the K candidates; the message says what to do.
        ValueError
            A state has no candidate, its candidates are not sorted, or `total` is missing or
            cannot be the sum over these logits.
        """
        logits = np.atleast_2d(np.asarray(logits, np.float64))
        with np.errstate(invalid="ignore"):
            sorted_ = not (np.diff(logits, axis=1) > 0).any() and not np.isnan(logits).any()
        if not logits.shape[1] or not np.isfinite(logits[:, 0]).all() or not sorted_:
            raise ValueError("every state needs candidates with logits sorted best first")
        if self.temperature == 0:
            return (np.arange(logits.shape[1]) == 0) * np.ones((len(logits), 1))
        scaled = logits / self.temperature
        kept = np.isfinite(scaled)
        # Whether a token past the last candidate might still be kept, by state.
        open_ended = kept[:, -1] & (not complete)
        if self.top_k:
            if self.top_k > logits.shape[1] and open_ended.any():
                raise NotCoveredError(
                    f"top_k {self.top_k} needs as many candidates, got {logits.shape[1]}"
                )
            kept[:, self.top_k :] = False
            open_ended[:] = False
        if self.top_p < 1:
            shares = self._shares(scaled, kept, total, open_ended)
            before = np.cumsum(shares, axis=1) - shares
            reached = before >= self.top_p
            open_ended &= before[:, -1] + shares[:, -1] < self.top_p
            kept &= ~reached
        if self.min_p > 0:
            with np.errstate(divide="ignore"):
                enough = scaled - scaled[:, :1] >= np.log(self.min_p)
            open_ended &= enough[:, -1]
            kept &= enough
        if open_ended.any():
            state = int(np.flatnonzero(open_ended)[0])
            raise NotCoveredError(
                f"state {state}: tokens past its {logits.shape[1]} candidates would be kept too; "
                "use top_k, or have more candidates or all logits returned"
            )
        return softmax(np.where(kept, scaled, -np.inf))

    def _shares(self, scaled, kept, total, open_ended):
        """Probabilities that top-p adds up: among the kept, or of the whole vocabulary."""
        if not open_ended.any():
            return softmax(np.where(kept, scaled, -np.inf))
        if total is None:
            raise ValueError(
                "top_p over the vocabulary needs its log-sum-exp (--logsumexp), all logits, or a "
                "top_k before it"
            )
        shares = np.exp(log_probabilities(scaled, total))
        if not (shares.sum(axis=1) <= 1 + PROBABILITY_SLACK).all():
            raise ValueError(
                "the candidates' probabilities add up to more than 1: the log-sum-exp is not that "
                "of these logits at this temperature"
            )
        return shares

    def sample(
        self,
        ids: np.ndarray,
        logits: np.ndarray,
        generator: np.random.Generator,
        total: np.ndarray | None = None,
        *,
        complete: bool = False,
    ) -> np.ndarray:
        """Draw one token per state, [N]; arguments and errors as for `probabilities`.

        Parameters
        ----------
        ids : integers [N, K]
            The candidates.
        generator : np.random.Generator
            Takes one number per state.
        """
        ids = np.atleast_2d(np.asarray(ids))
        chances = self.probabilities(logits, total, complete=complete)
        reached = np.cumsum(chances, axis=1)
        # Scaled by the last sum, which rounding may leave below 1: a place past it must not exist.
        draws = generator.random(len(ids))[:, np.newaxis] * reached[:, -1:]
        places = (reached <= draws).sum(axis=1)
        last = chances.shape[1] - 1 - np.argmax(chances[:, ::-1] > 0, axis=1)
        return ids[np.arange(len(ids)), np.minimum(places, last)]
