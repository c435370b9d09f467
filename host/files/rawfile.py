"""Reading parts of large files without mapping them.

A mapped file counts towards the resident set as its pages are touched; plain reads do not, so
packing stays within a bound that does not depend on the size of the model.
"""

import hashlib
import os
import stat
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from host.errors import UserError

HASH_CHUNK_BYTES = 1 << 20


class RawFile:
    """A file that is read by position.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    UserError
        There is no such file, or it cannot be read by position.
    """

    def __init__(self, path: Path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise UserError(path, "no such file") from None
        except OSError as error:
            raise UserError(path, f"cannot be read: {error.strerror}") from None
        self._take(descriptor, path)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            self.close()
            raise UserError(path, "is no regular file")

    def _take(self, descriptor: int, path: Path):
        self.path = path
        self.name = str(path)
        """What errors call the file."""
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._closer = weakref.finalize(self, os.close, descriptor)

    @classmethod
    def duplicate(cls, file: BinaryIO, path: Path) -> "RawFile":
        """A `RawFile` on an open file, which may then be closed; errors call it `path`."""
        raw = cls.__new__(cls)
        raw._take(os.dup(file.fileno()), path)
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
            count = os.preadv(self._descriptor, [view[done:]], offset + done)
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

    def sha256(
        self, start: int = 0, size: int | None = None, stop: threading.Event | None = None
    ) -> str:
        """SHA-256 of a range as hexadecimal digits; "" if `stop` was set meanwhile."""
        return self.sha256_of([(start, self.size - start if size is None else size)], stop)

    def sha256_of(
        self, ranges: Iterable[tuple[int, int]], stop: threading.Event | None = None
    ) -> str:
        """SHA-256 of ranges (start, size) one after the other; "" if `stop` was set meanwhile."""
        digest = hashlib.sha256()
        for start, size in ranges:
            end = start + size
            while start < end:
                if stop is not None and stop.is_set():
                    return ""
                part = self.read(start, min(HASH_CHUNK_BYTES, end - start))
                digest.update(part)
                start += len(part)
        return digest.hexdigest()

    def close(self):
        self._closer()
        self._descriptor = -1  # the number may soon be another file's

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
