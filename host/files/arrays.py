"""What arguments are checked for: integers, and arrays in files of NumPy's."""

import operator
import zipfile
import zlib
from pathlib import Path

import numpy as np

from host.errors import UserError

FILE_MAGICS = (np.lib.format.MAGIC_PREFIX, b"PK\x03\x04", b"PK\x05\x06")
"""First bytes of an .npy file, and of the zip archive that an .npz file is, full or empty."""


def integer(name: str, value: object) -> int:
    """An argument as an int; raises TypeError unless it is an integer, which a bool is not."""
    try:
        if not isinstance(value, bool | np.bool):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{name} must be an integer, got {value!r}")


def load_array(path: Path, key: str) -> np.ndarray:
    """The array of an .npy file, or array `key` of an .npz file, as it is there.

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
