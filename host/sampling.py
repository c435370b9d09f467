"""From logits to tokens: what belongs to the host and stays out of the projection."""

import numpy as np


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


def greedy(ids: np.ndarray) -> np.ndarray:
    """The best token of results sorted best first, [N, K] -> [N]."""
    return np.asarray(ids)[..., 0]
