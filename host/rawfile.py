"""Reading parts of large files without mapping them.

A mapped file counts towards the resident set as its pages are touched; plain reads do not, so
packing stays within a bound that does not depend on the size of the model.
"""

import hashlib
import os
import threading
from pathlib import Path

from host.errors import UserError

HASH_CHUNK_BYTES = 1 << 20


class RawFile:
    """A file that is read by position.

    Parameters
    ----------
    path : Path
        The file.
    name : str, optional
        What errors call it; default: the path.

    Raises
    ------
    UserError
        The file does not exist or cannot be opened.
    """

    def __init__(self, path: Path, name: str | None = None):
        self.path = path
        self.name = name or str(path)
        try:
            self._file = open(path, "rb", buffering=0)
        except IsADirectoryError:
            raise UserError(self.name, "is a folder", expected="a file") from None
        except FileNotFoundError:
            raise UserError(self.name, "no such file") from None
        except OSError as error:
            raise UserError(self.name, f"cannot be read: {error.strerror}") from None
        self.size = os.fstat(self._file.fileno()).st_size

    @classmethod
    def wrap(cls, file, path: Path, name: str) -> "RawFile":
        """A `RawFile` over an open binary file, which it then owns."""
        raw = cls.__new__(cls)
        raw.path, raw.name, raw._file = path, name, file
        raw.size = os.fstat(file.fileno()).st_size
        return raw

    def read(self, offset: int, size: int) -> bytearray:
        """Exactly `size` bytes from `offset`.

        Raises
        ------
        UserError
            The file ends before; the message names it.
        """
        data = bytearray(size)
        view = memoryview(data)
        done = 0
        while done < size:
            count = os.preadv(self._file.fileno(), [view[done:]], offset + done)
            if count == 0:
                raise self.truncated(offset + size)
            done += count
        return data

    def truncated(self, expected: int) -> UserError:
        """The error of a file that is shorter than its own header says."""
        return UserError(
            self.name,
            "the file is cut short",
            expected=f"at least {expected} bytes",
            found=f"{self.size} bytes",
        )

    def require(self, end: int):
        """Raise `UserError` unless the file holds `end` bytes."""
        if self.size < end:
            raise self.truncated(end)

    def sha256(self, start: int = 0, size: int | None = None, stop: threading.Event | None = None):
        """SHA-256 of a range as hexadecimal digits; "" if `stop` was set meanwhile."""
        digest = hashlib.sha256()
        end = self.size if size is None else start + size
        while start < end:
            if stop is not None and stop.is_set():
                return ""
            part = self.read(start, min(HASH_CHUNK_BYTES, end - start))
            digest.update(part)
            start += len(part)
        return digest.hexdigest()

    def close(self):
        self._file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
