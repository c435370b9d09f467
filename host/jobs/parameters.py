"""Hidden states as jobs take them: quantised, with the multipliers that belong to each."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from host.errors import UserError
from host.jobs.hidden import PARAMETERS, check_hidden, quantise_hidden
from host.jobs.logsumexp import scale_arguments
from hw.config import MULTIPLIER_BITS

if TYPE_CHECKING:
    from host.image import Image

LARGEST_MULTIPLIER = (1 << MULTIPLIER_BITS) - 1
# Above every error of the few roundings in float64 that it makes up for.
_MARGIN = 1 + 2.0**-48


@dataclass(frozen=True)
class Vectors:
    """N hidden states, ready for the accelerator."""

    quantised: np.ndarray
    """int8 or int16 [N, d]."""
    scales: np.ndarray
    """hidden_scale, float64 [N]."""
    parameters: np.ndarray
    """`host.jobs.hidden.PARAMETERS` [N]; zero where the image or the run has no use for them."""
    losses: np.ndarray
    """Factor by which each scale is larger than the state alone needs, float64 [N]: 1 but where a
    multiplier would not fit otherwise."""

    def __len__(self) -> int:
        return len(self.scales)


def check_temperature(temperature: float | np.ndarray, states: int) -> np.ndarray:
    """Temperatures as float64 [states]; one number is for all.

    Raises
    ------
    UserError
        The shape does not fit, or a temperature is not a finite number above 0.
    """
    try:
        values = np.asarray(temperature, np.float64)
    except (TypeError, ValueError):
        raise UserError("temperature", "must be numbers", found=temperature) from None
    if values.shape not in ((), (states,)):
        raise UserError(
            "temperature",
            "must be one number, or one for each state",
            expected=[states],
            found=list(values.shape),
        )
    wrong = values[~(np.isfinite(values) & (values > 0))]
    if len(wrong):
        raise UserError("temperature", "must be finite and above 0", found=wrong[0])
    return np.broadcast_to(values, (states,))


def prepare_vectors(
    image: "Image",
    hidden: np.ndarray,
    hidden_bits: int,
    temperature: float | np.ndarray | None = None,
) -> Vectors:
    """Quantise hidden states and compute their multipliers.

    With u = weight_scale * hidden_scale, the unit of a state's scores, and the units of an image's
    terms:

        bias multiplier  = rint(bias_unit / u)
        bound multiplier = ceil(bound_unit * |h| / u), |h| the Euclidean norm

    hidden_scale is that of `host.jobs.hidden.quantise_hidden`, or as much larger as it takes for
    both to fit in 32 bits; `Vectors.losses` tells it.

    Parameters
    ----------
    image : Image
    hidden : real [N, d] or [d]
    hidden_bits : 8 or 16
    temperature : float or float [N], optional
        Of the log-sum-exp; without it its parameters are zero.

    Raises
    ------
    UserError, TypeError
        `hidden` or `temperature` is wrong, or the unit of the log-sum-exp is out of range.
    """
    hidden = check_hidden(hidden, image.dim)
    # Units of the terms in the unit of logits, by state: what m times the score's unit must reach.
    units = {}
    if image.config_fields["bias"]:
        units["bias"] = np.full(len(hidden), image.bias_unit, np.float64)
    if image.config_fields["bound"]:
        units["bound"] = image.bound_unit * _norms(hidden) * _MARGIN
    least = np.zeros(len(hidden))
    with np.errstate(over="ignore"):  # what is beyond float64 is told below
        for unit in units.values():
            # A bound is rounded up: it may reach one more than its quotient.
            least = np.maximum(least, unit / image.weight_scale / (LARGEST_MULTIPLIER - 1))
    if not np.isfinite(least).all():
        state = int(np.flatnonzero(~np.isfinite(least))[0])
        most = np.finfo(np.float64).max * min(1.0, image.weight_scale / image.bound_unit)
        raise UserError(
            "hidden",
            f"row {state} is too large for the row terms of {image.path}",
            expected=f"a Euclidean norm below {most:.3g}",
            found=f"a largest magnitude of {np.abs(hidden[state]).max():.3g}",
        )
    _, unraised = quantise_hidden(hidden, hidden_bits)
    quantised, scales = quantise_hidden(hidden, hidden_bits, least * _MARGIN)
    losses = np.where(hidden.any(axis=1), scales / unraised, 1.0)

    parameters = np.zeros(len(hidden), PARAMETERS)
    for name, unit in units.items():
        quotient = unit / image.weight_scale / scales
        parameters[name] = np.ceil(quotient) if name == "bound" else np.rint(quotient)
    if temperature is not None:
        for state, value in enumerate(check_temperature(temperature, len(hidden))):
            try:
                arguments = scale_arguments(image.weight_scale, scales[state], value)
            except ValueError as error:
                raise UserError("logsumexp", f"of state {state}: {error}") from None
            parameters["multiplier"][state], parameters["shift"][state] = arguments
    return Vectors(quantised, scales, parameters, losses)


def _norms(hidden: np.ndarray) -> np.ndarray:
    """Euclidean norms, float64 [N], also of states whose squares are out of range."""
    largest = np.abs(hidden).max(axis=1)
    safe = np.where(largest > 0, largest, 1.0)
    with np.errstate(over="ignore"):
        return largest * np.sqrt(np.square(hidden / safe[:, np.newaxis]).sum(axis=1))
