"""Heads as plain NumPy matrices: .npy files and the members `weight` and `bias` of .npz files."""

import io
import math
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path

import numpy as np

from host.errors import UserError
from host.files.rawfile import RawFile
from host.sources.head import BiasSource, HeadSource, IntegerForm, check_shape

MEMBER = "weight"
BIAS_MEMBER = "bias"

COPY_BYTES = 1 << 20

READ_AHEAD = 1 << 24
"""Values read at a time from a matrix in Fortran order, where a row is scattered over the file."""

LOCAL_HEADER = struct.Struct("<4s5H3I2H")
"""Fixed part of a zip member's own header; its last two fields are the lengths of what follows."""


class NumpySource(HeadSource):
    """A matrix [V, d] in a .npy or .npz file, of floats or integers, in C or Fortran order.

    Weights of type int8 or int16 are packed as they are, with a scale of one. A compressed member
    of a .npz file is unpacked to a temporary file first.

    Parameters
    ----------
    path : Path

    Raises
    ------
    UserError
        The file is damaged or holds no matrix of numbers.
    """

    bias_place = f"an array {BIAS_MEMBER} in an .npz file"

    def __init__(self, path: Path):
        self.path = path
        self._archive = None
        if path.suffix.lower() == ".npz":
            self._archive = RawFile(path)
            self.tensor = MEMBER
            try:
                self.file, start, members = _open_member(path, MEMBER)
            except BaseException:
                self._archive.close()
                raise
            if BIAS_MEMBER in members:
                self.bias = BiasSource(BIAS_MEMBER, str(path), self._read_bias)
        else:
            self.tensor = path.stem
            self.file, start = RawFile(path), 0
        try:
            self._read_header(start)
        except BaseException:
            self.close()
            raise

    def _read_header(self, start: int):
        shape, self._fortran, self._stored, self.offset = _read_header(
            self.file, start, self.tensor
        )
        where = f"{self.file.name}: array {self.tensor}"
        check_shape(where, shape, hidden=None, vocabulary=None)
        self.dtype = self._stored.name
        self.rows, self.dim = shape
        self.size = self.rows * self.dim * self._stored.itemsize
        self.file.require(self.offset + self.size)
        self._block = 0, np.empty((self.dim, 0), self._stored)
        if self._stored.kind == "i" and self._stored.itemsize <= 2:
            bits = 8 * self._stored.itemsize
            self.integer_form = IntegerForm(weight_bits=bits, group=0, signed=False)

    def _read_bias(self) -> np.ndarray:
        file, start, _ = _open_member(self.path, BIAS_MEMBER)
        with file:
            shape, _, stored, offset = _read_header(file, start, BIAS_MEMBER)
            data = file.read(offset, math.prod(shape) * stored.itemsize)
            return np.frombuffer(data, stored).reshape(shape)

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
        weights = self._rows(start, stop)
        weights = weights.astype(weights.dtype.newbyteorder("="), copy=False)
        return weights, np.ones((stop - start, 1), np.float32)

    def digests(self, stop) -> tuple[str, str]:
        if self._archive is None:
            return super().digests(stop)
        tensor = self.file.sha256(self.offset, self.size, stop=stop)
        return self._archive.sha256(stop=stop), tensor

    def close(self):
        super().close()
        if self._archive is not None:
            self._archive.close()


def _read_header(
    file: RawFile, start: int, name: str
) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, Fortran order and type of an array of numbers, and where its values start."""
    prefix = bytes(file.read(start, min(12, file.size - start)))
    if len(prefix) < 10 or prefix[:6] != np.lib.format.MAGIC_PREFIX:
        raise UserError(file.name, "not a NumPy array", expected="magic \\x93NUMPY")
    size = 10 + int.from_bytes(prefix[8:10], "little")
    if prefix[6] > 1:
        size = 12 + int.from_bytes(prefix[8:12], "little")
    file.require(start + size)
    shape, fortran, stored = _parse_header(file, start, size)
    if stored.kind not in "fiu" or stored.itemsize > 8:
        where = f"{file.name}: array {name}"
        raise UserError(where, "type", expected="float or integer", found=stored)
    return shape, fortran, stored, start + size


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


def _open_member(path: Path, name: str) -> tuple[RawFile, int, list[str]]:
    """A file that holds the bytes of an array of a .npz file, where they start, and the names of
    all its arrays.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            files = archive.namelist()
            names = [file.removesuffix(".npy") for file in files]
            if f"{name}.npy" not in files:
                found = ", ".join(names) or "nothing"
                raise UserError(path, f"no {name}", expected=f"an array {name}", found=found)
            member = archive.getinfo(f"{name}.npy")
            if member.compress_type == zipfile.ZIP_STORED:
                return *_open_stored(path, member), names
            return _unpack(path, archive, member), 0, names
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
