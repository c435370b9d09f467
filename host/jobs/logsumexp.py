"""The numbers that the accelerator's log-sum-exp takes and gives, in the host's units.

The accelerator sums ``2^(score * u)`` over the rows of a vector, where
``u = multiplier * 2^-(30 + shift)``, and gives the result as ``2^(exponent - 20) * sum``.
"""

import math

import numpy as np

LARGEST_EXPONENT = 2040
"""Exponents of this magnitude may be those of clamped scores."""

SHIFT_MAX = 127
MULTIPLIER_BITS = 32
UNIT_BITS = 30
FRACTION_BITS = 20


def scale_arguments(
    weight_scale: float, hidden_scale: float, temperature: float = 1.0
) -> tuple[int, int]:
    """Multiplier and shift for logits ``score * weight_scale * hidden_scale / temperature``.

    The multiplier uses all of its 32 bits: it is off by at most 2^-32 of its value.

    Raises
    ------
    ValueError
        An argument is not positive and finite, or a step of the score is worth so much, or so
        little, that the accelerator cannot represent it.
    """
    named = {
        "weight_scale": weight_scale,
        "hidden_scale": hidden_scale,
        "temperature": temperature,
    }
    for name, value in named.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite, got {value}")
    # Mantissas and exponents apart: the product of small scales may be no normal float64.
    mantissa, exponent = 1.0, 0
    for factor in (weight_scale, hidden_scale, math.log2(math.e)):
        fraction, power = math.frexp(factor)
        mantissa, exponent = mantissa * fraction, exponent + power
    fraction, power = math.frexp(temperature)
    mantissa, carry = math.frexp(mantissa / fraction)
    exponent += carry - power

    multiplier = round(math.ldexp(mantissa, MULTIPLIER_BITS))
    shift = MULTIPLIER_BITS - UNIT_BITS - exponent
    if multiplier == 1 << MULTIPLIER_BITS:
        multiplier, shift = multiplier >> 1, shift - 1
    if not 0 <= shift <= SHIFT_MAX:
        low = UNIT_BITS + SHIFT_MAX - MULTIPLIER_BITS + 1
        high = MULTIPLIER_BITS - UNIT_BITS
        raise ValueError(
            "weight_scale * hidden_scale * log2(e) / temperature must be in "
            f"2^-{low}..2^{high} for the log-sum-exp, got {mantissa:.6g} * 2^{exponent}"
        )
    return multiplier, shift


def logsumexp(exponents: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Natural logarithms of the sums of exponentials that the accelerator found.

    Parameters
    ----------
    exponents : int32 [N]
    sums : uint64 [N]

    Returns
    -------
    float64 [N]
        -inf where no row was allowed.

    Raises
    ------
    ValueError
        An exponent is so large that scores may have been clamped: the logits exceed about 1400 in
        magnitude.
    """
    exponents = np.asarray(exponents, np.int64)
    sums = np.asarray(sums, np.uint64)
    outside = np.flatnonzero((np.abs(exponents) >= LARGEST_EXPONENT) & (sums != 0))
    if len(outside):
        vector = outside[0]
        raise ValueError(
            f"the log-sum-exp of vector {vector} is out of range: the base-2 exponent must be in "
            f"-{LARGEST_EXPONENT - 1}..{LARGEST_EXPONENT - 1}, got {exponents.flat[vector]}"
        )
    with np.errstate(divide="ignore"):
        logarithms = np.log2(sums.astype(np.float64))
    return (exponents - FRACTION_BITS + logarithms) * math.log(2)
