"""Results with what the host makes of them: the model's own logits, and the rows of given ids."""

from dataclasses import dataclass

import numpy as np

from host.results import Results
from host.sampling import LogitTransform, log_probabilities, perplexity
from host.scoring import RowScores


@dataclass(frozen=True)
class ModelResults(Results):
    """Results, whose `logits` and `all_logits` are those of the projection.

    `logsumexp` is that of the model's logits.
    """

    transform: LogitTransform = LogitTransform()
    """What the model does to its logits behind the projection."""
    temperature: float = 1.0
    """Of `logsumexp` and of log-probabilities."""
    given: RowScores | None = None
    """Scores and logits of given ids, if there are any; the logits are -inf for rows that a mask
    forbids."""

    @property
    def model_logits(self) -> np.ndarray:
        """The model's logits of the K best rows, float64 [N, K]."""
        return self.transform.apply(self.logits)

    @property
    def id_logprobs(self) -> np.ndarray | None:
        """Log-probabilities of the given ids at `temperature`, float64 [N, M]; None without
        `logsumexp`.

        They may exceed 0 by the error of the accelerator's log-sum-exp.
        """
        if self.given is None or self.logsumexp is None:
            return None
        scaled = self.transform.apply(self.given.logits) / self.temperature
        # Where nothing is allowed, all is impossible: not the quotient of two zeros.
        total = np.where(np.isneginf(self.logsumexp), 0.0, self.logsumexp)
        return log_probabilities(scaled, total)

    @property
    def perplexity(self) -> float | None:
        """That of a text with one given id per state; None without log-probabilities of such."""
        logs = self.id_logprobs
        return perplexity(logs[:, 0]) if logs is not None and logs.shape[1] == 1 else None

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by the names they are saved under: those of `Results`, and more.

        With given ids ``id_scores`` and ``id_logits``, with `logsumexp` also ``id_logprobs``. Where
        the model transforms its logits, also ``model_logits``, and those of ``model_all_logits``
        and ``model_id_logits`` that are without ``model_`` there.
        """
        arrays = super().arrays()
        if self.given is not None:
            arrays |= {"id_scores": self.given.scores, "id_logits": self.given.logits}
        if not self.transform.is_identity:
            for name in ("logits", "all_logits", "id_logits"):
                if name in arrays:
                    arrays[f"model_{name}"] = self.transform.apply(arrays[name])
        if self.id_logprobs is not None:
            arrays["id_logprobs"] = self.id_logprobs
        return arrays
