"""Heads as plain NumPy matrices: .npy files and the member `weight` of .npz files."""

import io
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

from host.errors import UserError
from host.head_source import HeadSource, IntegerForm, check_shape
from host.rawfile import RawFile

MEMBER = "weight"

COPY_BYTES = 1 << 20

READ_AHEAD = 1 << 24
"""Values read at a time from a matrix in Fortran order, where a row is scattered over the file."""

LOCAL_HEADER = struct.Struct("<4s5H3I2H")
"""Fixed part of a zip member's own header; its last two fields are the lengths of what follows."""


class NumpySource(HeadSource):
    """A matrix [V, d] in a .npy or .npz file, of floats or integers, in C or Fortran order.

    Weights of type int8 are packed as they are, with a scale of one. A compressed member of a .npz
    file is unpacked to a temporary file first.

    Parameters
    ----------
    path : Path

    Raises
    ------
    UserError
        The file is damaged or holds no matrix of numbers.
    """

    def __init__(self, path: Path):
        self.path = path
        self._archive = None
        if path.suffix.lower() == ".npz":
            self._archive = RawFile(path)
            self.tensor = MEMBER
            try:
                self.file, start = _open_member(path)
            except BaseException:
                self._archive.close()
                raise
        else:
            self.tensor = path.stem
            self.file, start = RawFile(path), 0
        try:
            self._read_header(start)
        except BaseException:
            self.close()
            raise

    def _read_header(self, start: int):
        where = f"{self.file.name}: array {self.tensor}"
        prefix = bytes(self.file.read(start, min(12, self.file.size - start)))
        if len(prefix) < 10 or prefix[:6] != np.lib.format.MAGIC_PREFIX:
            raise UserError(self.file.name, "not a NumPy array", expected="magic \\x93NUMPY")
        size = 10 + int.from_bytes(prefix[8:10], "little")
        if prefix[6] > 1:
            size = 12 + int.from_bytes(prefix[8:12], "little")
        self.file.require(start + size)
        shape, self._fortran, self._stored = _parse_header(self.file, start, size)
        if self._stored.kind not in "fiu" or self._stored.itemsize > 8:
            raise UserError(where, "type", expected="float or integer", found=self._stored)
        check_shape(where, shape, hidden=None, vocabulary=None)
        self.dtype = self._stored.name
        self.rows, self.dim = shape
        self.offset = start + size
        self.size = self.rows * self.dim * self._stored.itemsize
        self.file.require(self.offset + self.size)
        self._block = 0, np.empty((self.dim, 0), self._stored)
        if self._stored == np.int8:
            self.integer_form = IntegerForm(weight_bits=8, group=0, signed=False)

    def _rows(self, start: int, stop: int) -> np.ndarray:
        if self._fortran:
            return self._fortran_rows(start, stop)
        row_bytes = self.dim * self._stored.itemsize
        data = self.file.read(self.offset + start * row_bytes, (stop - start) * row_bytes)
        return np.frombuffer(data, self._stored).reshape(stop - start, self.dim)

    def _fortran_rows(self, start: int, stop: int) -> np.ndarray:
        """Rows of a file that holds column after column, from a block of rows read ahead."""
        first, block = self._block
        if start < first or stop > first + block.shape[1]:
            item = self._stored.itemsize
            first, last = start, min(max(stop, start + READ_AHEAD // self.dim), self.rows)
            block = np.empty((self.dim, last - first), self._stored)
            for column in range(self.dim):
                offset = self.offset + (column * self.rows + first) * item
                data = self.file.read(offset, (last - first) * item)
                block[column] = np.frombuffer(data, self._stored)
            self._block = first, block
        return block[:, start - first : stop - first].T

    def read(self, start: int, stop: int) -> np.ndarray:
        with np.errstate(over="ignore"):  # a float64 beyond float32 is reported as not finite
            values = self._rows(start, stop).astype(np.float32, order="C", copy=False)
        self.check_finite(values, start)
        return values

    def read_integers(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        if self.integer_form is None:
            return super().read_integers(start, stop)
        return self._rows(start, stop), np.ones((stop - start, 1), np.float32)

    def digests(self, stop) -> tuple[str, str]:
        if self._archive is None:
            return super().digests(stop)
        tensor = self.file.sha256(self.offset, self.size, stop=stop)
        return self._archive.sha256(stop=stop), tensor

    def close(self):
        super().close()
        if self._archive is not None:
            self._archive.close()


def _parse_header(file: RawFile, start: int, size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, Fortran order and type of a .npy header."""
    stream = io.BytesIO(file.read(start, size))
    try:
        if np.lib.format.read_magic(stream) == (1, 0):
            return np.lib.format.read_array_header_1_0(stream)
        return np.lib.format.read_array_header_2_0(stream)
    except Exception:
        # NumPy takes a header for a Python literal, and junk raises what the parser happens on.
        raise UserError(file.name, "damaged header of a NumPy array") from None


def _open_member(path: Path) -> tuple[RawFile, int]:
    """A file that holds the bytes of a .npz file's weight, and where they start."""
    name = f"{MEMBER}.npy"
    try:
        with zipfile.ZipFile(path) as archive:
            if name not in archive.namelist():
                names = ", ".join(n.removesuffix(".npy") for n in archive.namelist()) or "nothing"
                raise UserError(path, "no weight", expected=f"an array {MEMBER}", found=names)
            member = archive.getinfo(name)
            if member.compress_type == zipfile.ZIP_STORED:
                return _open_stored(path, member)
            return _unpack(path, archive, member), 0
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(path, f"damaged or cut short: {error}") from None


def _open_stored(path: Path, member: zipfile.ZipInfo) -> tuple[RawFile, int]:
    file = RawFile(path)
    fields = LOCAL_HEADER.unpack(file.read(member.header_offset, LOCAL_HEADER.size))
    start = member.header_offset + LOCAL_HEADER.size + fields[-2] + fields[-1]
    file.require(start + member.file_size)
    return file, start


def _unpack(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> RawFile:
    with tempfile.TemporaryFile(buffering=0) as file:
        with archive.open(member) as stream:
            while part := stream.read(COPY_BYTES):
                file.write(part)
        return RawFile.duplicate(file, path)
