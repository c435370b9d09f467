"""Hidden states as the accelerator takes them: quantised, and laid out in its memory."""

import numpy as np

from host.errors import UserError

DTYPES = {8: np.dtype("<i1"), 16: np.dtype("<i2")}
"""Element of a quantised hidden state in memory, by `hidden_bits`."""

PARAMETERS = np.dtype([("bias", "<u4"), ("bound", "<u4"), ("multiplier", "<u4"), ("shift", "<u4")])
"""What follows a state in memory where the hardware has row terms or the log-sum-exp: what the bias
and the bound are multiplied by, and the log-sum-exp's multiplier and shift."""


def check_hidden(hidden: np.ndarray, dim: int) -> np.ndarray:
    """Hidden states as float64 [N, dim]; a single state [dim] becomes [1, dim].

    Raises
    ------
    TypeError
        The values are not real numbers.
    UserError
        The shape does not fit, or a value is NaN or infinite; the message names its row.
    """
    hidden = np.asarray(hidden)
    if hidden.dtype.kind not in "fiu":
        raise TypeError(f"hidden must be of real numbers, got {hidden.dtype}")
    if hidden.ndim not in (1, 2) or hidden.shape[-1] != dim:
        raise UserError(
            "hidden",
            "the shape does not fit the image",
            expected=f"[N, {dim}]",
            found=list(hidden.shape),
        )
    hidden = np.atleast_2d(hidden)
    hidden = hidden.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(hidden).all(axis=1))
    if len(bad):
        raise UserError("hidden", f"row {bad[0]} holds NaN or infinity")
    return hidden


def quantise_hidden(
    hidden: np.ndarray, bits: int, least_scales: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Quantise hidden states to signed integers, each with its own scale.

        scale = max|h| / (2^(bits - 1) - 1),    hq = rint(h / scale), ties to even

    in float64. An all-zero state gets scale 1 and zeros. The scale is never subnormal, where the
    division would no longer be accurate enough to keep hq in range.

    Parameters
    ----------
    hidden : float64 [N, d], finite
    bits : 8 or 16
    least_scales : float64 [N], optional
        No scale is below this.

    Returns
    -------
    quantised : int8 or int16 [N, d]
    scales : float64 [N]
    """
    top = 2 ** (bits - 1) - 1
    largest = np.abs(hidden).max(axis=1)
    scales = np.where(
        largest > 0, np.maximum(largest / top, np.finfo(np.float64).tiny), np.float64(1)
    )
    if least_scales is not None:
        scales = np.maximum(scales, least_scales)
    return np.rint(hidden / scales[:, None]).astype(DTYPES[bits]), scales


def hidden_bytes(padded_dim: int, bits: int, bus_bytes: int) -> int:
    """Size of one hidden state in memory, whole beats."""
    return -(-padded_dim * bits // 8 // bus_bytes) * bus_bytes


def parameter_bytes(bus_bytes: int) -> int:
    """Size of a state's parameters in memory, whole beats."""
    return -(-PARAMETERS.itemsize // bus_bytes) * bus_bytes


def hidden_buffer(
    quantised: np.ndarray, state_bytes: int, parameters: np.ndarray | None, bus_bytes: int
) -> np.ndarray:
    """The states of a job as the bytes in memory, one behind the other, uint8.

    Parameters
    ----------
    quantised : int8 or int16 [N, d]
    state_bytes : int
        Size of one state, see `hidden_bytes`; zeros fill it.
    parameters : PARAMETERS [N] or None
        Behind each state, zero-padded to whole beats; None where the hardware reads none.
    bus_bytes : int
    """
    extra = 0 if parameters is None else parameter_bytes(bus_bytes)
    buffer = np.zeros((len(quantised), state_bytes + extra), np.uint8)
    data = np.ascontiguousarray(quantised).view(np.uint8)
    buffer[:, : data.shape[1]] = data
    if parameters is not None:
        values = np.ascontiguousarray(parameters).view(np.uint8).reshape(len(parameters), -1)
        buffer[:, state_bytes : state_bytes + PARAMETERS.itemsize] = values
    return buffer.reshape(-1)
