"""Hidden states as the accelerator takes them: quantised, and laid out in its memory."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from host.errors import UserError

DTYPES = {8: np.dtype("<i1"), 16: np.dtype("<i2")}
"""Element of a quantised hidden state in memory, by `hidden_bits`."""


FILE_MAGICS = (np.lib.format.MAGIC_PREFIX, b"PK\x03\x04", b"PK\x05\x06")
"""First bytes of an .npy file, and of the zip archive that an .npz file is, full or empty."""


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
    hidden = np.atleast_2d(hidden)
    if hidden.ndim != 2 or hidden.shape[1] != dim:
        raise UserError(
            "hidden",
            "the shape does not fit the image",
            expected=f"[N, {dim}]",
            found=list(hidden.shape),
        )
    hidden = hidden.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(hidden).all(axis=1))
    if len(bad):
        raise UserError("hidden", f"row {bad[0]} holds NaN or infinity")
    return hidden


def quantise_hidden(hidden: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Quantise hidden states to signed integers, each with its own scale.

        scale = max|h| / (2^(bits - 1) - 1),    hq = rint(h / scale), ties to even

    in float64. An all-zero state gets scale 1 and zeros. The scale is never subnormal, where the
    division would no longer be accurate enough to keep hq in range.

    Parameters
    ----------
    hidden : float64 [N, d], finite
    bits : 8 or 16

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
    return np.rint(hidden / scales[:, None]).astype(DTYPES[bits]), scales


def hidden_bytes(padded_dim: int, bits: int, bus_bytes: int) -> int:
    """Size of one hidden state in memory, whole beats."""
    return -(-padded_dim * bits // 8 // bus_bytes) * bus_bytes


def hidden_buffer(quantised: np.ndarray, size: int) -> np.ndarray:
    """One quantised state [d] as the bytes in memory, zero-padded to uint8 [size]."""
    buffer = np.zeros(size, np.uint8)
    data = np.ascontiguousarray(quantised).view(np.uint8)
    buffer[: len(data)] = data
    return buffer


def load_hidden(path: Path, key: str = "hidden") -> np.ndarray:
    """Hidden states from an .npy file, or from array `key` of an .npz file, as they are there.

    Raises
    ------
    UserError
        The file cannot be read or has no such array.
    """
    try:
        with open(path, "rb") as file:
            # NumPy takes any other file for a pickle, and says how to run what it holds.
            if not file.read(len(np.lib.format.MAGIC_PREFIX)).startswith(FILE_MAGICS):
                raise UserError(path, "is no .npy or .npz file")
            file.seek(0)
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            if key not in loaded:
                raise UserError(path, f"has no array {key!r}", found=", ".join(loaded) or "none")
            return loaded[key]
    except (OSError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise UserError(path, f"cannot be read: {reason}") from None
    except UserError:
        raise
    except Exception:
        # NumPy takes a header for a Python literal, and junk raises what the parser happens on.
        raise UserError(
            path, "is no .npy or .npz file of numbers, or is damaged or cut short"
        ) from None
