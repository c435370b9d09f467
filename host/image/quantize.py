"""The number format: weights as integers with integer scales and one float for the tensor.

    w = q * s * weight_scale

q is two's complement of `weight_bits`, s has `scale_bits`, one per group of columns. Row terms are
integers times one float for all rows.
"""

from dataclasses import dataclass

import numpy as np

from host.image.tiles import weight_dtype
from host.sources.head import IntegerForm
from hw.config import TERM_BITS, HeadConfig

BLOCK_WEIGHTS = 1 << 16
"""Weights quantised at a time."""

FLOAT16_UNIT = 2.0**-24
"""Every finite float16 is an integer times this."""

TERM_LIMIT = 2 ** (TERM_BITS - 1) - 1
"""Largest magnitude the quantiser gives a term."""

RESIDUAL_MARGIN = 2.0**-30
"""More than float64 loses in a row's residual, relative to it."""


def weight_limit(weight_bits: int) -> int:
    """Largest magnitude the quantiser gives a weight; the range is symmetric."""
    return 2 ** (weight_bits - 1) - 1


def scale_limit(config: HeadConfig) -> int:
    """Largest stored scale."""
    return 2 ** (config.scale_bits - config.scale_signed) - 1


def round_weights(
    values: np.ndarray, steps: np.ndarray | float, weight_bits: int, out: np.ndarray | None = None
) -> np.ndarray:
    """``clip(rint(values / steps))`` in float64: to nearest, ties to even, symmetric range."""
    quotients = np.divide(values, steps, out=out, dtype=np.float64)
    np.rint(quotients, out=quotients)
    limit = weight_limit(weight_bits)
    return np.clip(quotients, -limit, limit, out=quotients)


@dataclass(frozen=True)
class Quantisation:
    """What packing did to the weights."""

    exact: bool
    """Every weight is represented exactly."""
    note: str | None
    """Why a source of integers had to be requantised."""
    rms_relative_error: float
    """Root of the squared errors' sum over the squared weights' sum."""
    max_absolute_error: float


EXACT = Quantisation(exact=True, note=None, rms_relative_error=0.0, max_absolute_error=0.0)


class Quantiser:
    """Quantises floats group by group and keeps statistics of the error.

    A group's scale is its largest magnitude over the largest weight, rounded to the stored integer
    scale and at least 1 unless the group is all zero; weights are rounded against the stored one.
    Scales of 16-bit weights are rounded up: a scale that is too small by half of its unit clips
    the group's largest weights by far more than their own rounding.

    Parameters
    ----------
    config : HeadConfig
        Weight and scale format.
    max_magnitude : float
        Largest magnitude in the tensor; it gets the largest scale.
    """

    def __init__(self, config: HeadConfig, max_magnitude: float):
        self.config = config
        self.weight_scale = (
            float(max_magnitude) / weight_limit(config.weight_bits) / scale_limit(config) or 1.0
        )
        self._round_scale = np.ceil if config.weight_bits == 16 else np.rint
        self._squared_error = 0.0
        self._squared_weights = 0.0
        self._max_error = 0.0

    def quantise(
        self, values: np.ndarray, residuals: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Quantise rows.

        Parameters
        ----------
        values : float32 [n, groups, columns]
        residuals : float64 [n], optional
            Takes how far each row is from what is stored for it, the Euclidean norm of
            ``w - q * s * weight_scale``; a little too large rather than too small.

        Returns
        -------
        weights : int8 or int16 [n, groups, columns]
        scales : int32 [n, groups]
        """
        columns = values.shape[-1]
        flat = values.reshape(-1, columns)
        weights = np.empty(flat.shape, weight_dtype(self.config.weight_bits))
        scales = np.empty(len(flat), np.int32)
        squares = None if residuals is None else np.empty(len(flat))
        # In blocks that stay in the cache, on memory that is not handed back in between: three
        # times as fast as on the whole.
        step = max(1, BLOCK_WEIGHTS // columns)
        scratch = np.empty((2, min(step, len(flat)), columns))
        for start in range(0, len(flat), step):
            part = slice(start, start + step)
            errors = self._quantise_block(flat[part], weights[part], scales[part], scratch)
            if squares is not None:
                np.einsum("ij,ij->i", errors, errors, out=squares[part])
        if residuals is not None:
            norms = np.sqrt(squares.reshape(len(residuals), -1).sum(axis=1))
            residuals[...] = norms * (1 + RESIDUAL_MARGIN)
        return weights.reshape(values.shape), scales.reshape(values.shape[:-1])

    def _quantise_block(self, values, weights, scales, scratch):
        exact, stored = scratch[:, : len(values)]
        exact[...] = values
        largest = _largest_magnitude(exact, stored)
        limit = weight_limit(self.config.weight_bits)
        found = self._round_scale(largest / (limit * self.weight_scale))
        scales[...] = np.clip(found, largest > 0, scale_limit(self.config))
        steps = (np.maximum(scales, 1) * self.weight_scale)[:, np.newaxis]
        weights[...] = round_weights(exact, steps, self.config.weight_bits, out=stored)

        self._squared_weights += _squares(exact)
        stored *= steps
        stored -= exact
        self._squared_error += _squares(stored)
        self._max_error = max(self._max_error, float(stored.max()), -float(stored.min()))
        return stored

    def summary(self, note: str | None = None) -> Quantisation:
        """The statistics of everything quantised so far."""
        ratio = self._squared_error / self._squared_weights if self._squared_weights else 0.0
        return Quantisation(
            exact=False,
            note=note,
            rms_relative_error=float(np.sqrt(ratio)),
            max_absolute_error=self._max_error,
        )


def _largest_magnitude(values: np.ndarray, scratch: np.ndarray) -> np.ndarray:
    """Largest magnitude of each row [n, columns]; overwrites `scratch`, of the same shape."""
    np.abs(values, out=scratch)
    columns = values.shape[1]
    # Halving the rows keeps the inner loops long; NumPy's own maximum over a short axis is slow.
    while columns % 2 == 0:
        columns //= 2
        left, right = scratch[:, :columns], scratch[:, columns : 2 * columns]
        np.maximum(left, right, out=left)
    return scratch[:, :columns].max(axis=1)


def _squares(values: np.ndarray) -> float:
    """Sum of the squares; not by BLAS, whose threads cost more here than they bring."""
    return float(np.einsum("ij,ij->", values, values))


@dataclass(frozen=True)
class RowTerm:
    """A number for every row as it is stored: ``values * unit``."""

    values: np.ndarray
    """int16 [V]."""
    unit: float


def quantise_bias(bias: np.ndarray) -> RowTerm:
    """A bias float64 [V], finite, to nearest; off by at most ``max|bias| / 65534``."""
    unit = _term_unit(bias)
    return RowTerm(np.rint(bias / unit).astype(np.int16), unit)


def quantise_bound(residuals: np.ndarray) -> RowTerm:
    """Upper bounds float64 [V], finite and not negative, rounded up."""
    unit = _term_unit(residuals)
    while np.ceil(residuals.max() / unit) > TERM_LIMIT:
        unit = float(np.nextafter(unit, np.inf))
    return RowTerm(np.ceil(residuals / unit).astype(np.int16), unit)


def _term_unit(values: np.ndarray) -> float:
    # Never subnormal, where the division would no longer keep the terms in range. Terms that are
    # all zero get the smallest unit, so that their multiplier asks nothing of the hidden scale.
    return max(float(np.abs(values).max()) / TERM_LIMIT, float(np.finfo(np.float64).tiny))


def why_not_exact(form: IntegerForm, config: HeadConfig) -> str | None:
    """Why integers of `form` cannot be taken over, as far as the formats tell; None if they can."""
    if form.weight_bits > config.weight_bits:
        return f"weights of {form.weight_bits} bits do not fit {config.weight_bits}"
    if form.group and (not config.group or form.group % config.group):
        target = f"groups of {config.group}" if config.group else "whole rows"
        return f"groups of {form.group} do not make {target}"
    return None


class ExactScales:
    """Finds whether all scales of a tensor are stored integers times one power of two.

    Every float16 is an integer times 2**-24. The power of two is the largest that divides all of
    them. Where the format has no negative scales, a group with one is negated.

    Parameters
    ----------
    config : HeadConfig
        Weight and scale format.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        self.max_magnitude = 0.0
        """Largest magnitude of a weight so far."""
        self._bits = 0
        self._highest = 0
        self._lowest = 0
        self._can_negate = True

    def add(self, weights: np.ndarray, scales: np.ndarray):
        """Take in integer weights [n, groups, columns] and float scales [n, groups]."""
        units = _units(scales)
        self._bits |= int(np.bitwise_or.reduce(np.abs(units), axis=None))
        self._highest = max(self._highest, int(units.max()))
        self._lowest = min(self._lowest, int(units.min()))
        lowest = weights.min(axis=-1).astype(np.int64)
        highest = weights.max(axis=-1).astype(np.int64)
        limit = weight_limit(self.config.weight_bits)
        self._can_negate &= not ((units < 0) & (lowest < -limit)).any()
        magnitudes = np.maximum(highest, -lowest) * np.abs(units)
        self.max_magnitude = max(self.max_magnitude, int(magnitudes.max()) * FLOAT16_UNIT)

    @property
    def weight_scale(self) -> float:
        """The common power of two."""
        return (self._bits & -self._bits) * FLOAT16_UNIT if self._bits else 1.0

    def problem(self) -> str | None:
        """Why the scales seen so far do not fit; None if they do."""
        unit = self._bits & -self._bits or 1
        limit = scale_limit(self.config)
        highest, lowest = self._highest // unit, self._lowest // unit
        if not self.config.scale_signed:
            if not self._can_negate:
                return "a group with a negative scale cannot be negated for unsigned scales"
            highest, lowest = max(highest, -lowest), 0
        if highest > limit or lowest < -limit - 1:
            signed = self.config.scale_signed
            bits = max(highest.bit_length(), (-lowest - 1).bit_length() if lowest else 0) + signed
            return f"scales need {bits} bits, {self.config.scale_bits} are stored"
        return None

    def convert(self, weights: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights [n, groups, columns] and float scales [n, groups] as stored integers."""
        stored = (_units(scales) // round(self.weight_scale / FLOAT16_UNIT)).astype(np.int32)
        weights = weights.astype(weight_dtype(self.config.weight_bits), copy=False)
        if not self.config.scale_signed and self._lowest < 0:
            weights = np.where((stored < 0)[..., np.newaxis], -weights, weights)
            stored = np.abs(stored)
        return weights, stored


def _units(scales: np.ndarray) -> np.ndarray:
    return (scales.astype(np.float64) / FLOAT16_UNIT).astype(np.int64)
