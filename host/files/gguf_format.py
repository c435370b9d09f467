"""The header of a GGUF file: its fields and where its tensors lie.

gguf's own reader maps the whole file and makes NumPy objects of every token and merge: 4 s and
190 MB for a vocabulary of 49152. This one reads the header once, front to back. Numbers of types
and their sizes come from the gguf package, and so does dequantisation.
"""

import math
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from gguf.constants import (
    GGML_QUANT_SIZES,
    GGUF_DEFAULT_ALIGNMENT,
    GGUF_MAGIC,
    GGMLQuantizationType,
    GGUFValueType,
)

from host.errors import UserError
from host.files.rawfile import RawFile

VERSIONS = (2, 3)
MAX_DIMENSIONS = 4

NUMBERS = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}


@dataclass(frozen=True)
class GGUFTensor:
    """One tensor of a file."""

    type: GGMLQuantizationType
    shape: tuple[int, ...]
    """Slowest dimension first: a head is (vocabulary, hidden width)."""
    offset: int
    """First byte, from the start of the file."""
    size: int
    """Bytes."""


class _Cursor:
    """Reads a file front to back."""

    def __init__(self, stream: BinaryIO, raw: RawFile):
        self.stream = stream
        self.raw = raw
        self.left = raw.size

    def take(self, size: int) -> bytes:
        self.left -= size
        # Compared before reading: a damaged length must not allocate terabytes.
        data = self.stream.read(size) if self.left >= 0 else b""
        if len(data) != size:
            raise self.raw.truncated(self.raw.size - self.left)
        return data

    def u32(self) -> int:
        return struct.unpack("<I", self.take(4))[0]

    def u64(self) -> int:
        return struct.unpack("<Q", self.take(8))[0]

    def string(self) -> bytes:
        return self.take(self.u64())

    def value(self, kind: int) -> Any:
        """A number, bool, str, NumPy array of numbers, or list."""
        if kind == GGUFValueType.STRING:
            return self.string().decode(errors="replace")
        if kind == GGUFValueType.ARRAY:
            items, count = self.u32(), self.u64()
            if items == GGUFValueType.STRING:
                return [self.string() for _ in range(count)]
            if items in NUMBERS:
                dtype = np.dtype(NUMBERS[items])
                return np.frombuffer(self.take(count * dtype.itemsize), dtype)
            return [self.value(items) for _ in range(count)]
        if kind not in NUMBERS:
            raise UserError(self.raw.name, f"unknown type {kind} of a GGUF field")
        dtype = np.dtype(NUMBERS[kind])
        return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()


def read_header(file: RawFile) -> tuple[dict[str, Any], dict[str, GGUFTensor]]:
    """Fields and tensors of a GGUF file; strings in arrays are bytes.

    Raises
    ------
    UserError
        The file is no GGUF file of a known version, or is cut short.
    """
    with open(file.path, "rb", buffering=1 << 20) as stream:
        cursor = _Cursor(stream, file)
        if file.size < 4 or cursor.u32() != GGUF_MAGIC:
            raise UserError(file.name, "not a GGUF file", expected="magic GGUF")
        version = cursor.u32()
        if version not in VERSIONS:
            raise UserError(
                file.name, "unknown GGUF version", expected="little-endian 2 or 3", found=version
            )
        tensor_count, field_count = cursor.u64(), cursor.u64()
        fields = {}
        for _ in range(field_count):
            name = cursor.string().decode(errors="replace")
            fields[name] = cursor.value(cursor.u32())
        found = {}
        for _ in range(tensor_count):
            name = cursor.string().decode(errors="replace")
            dimensions = cursor.u32()
            if dimensions > MAX_DIMENSIONS:
                raise UserError(
                    f"{file.name}: tensor {name}",
                    "too many dimensions",
                    expected=f"at most {MAX_DIMENSIONS}",
                    found=dimensions,
                )
            shape = tuple(reversed([cursor.u64() for _ in range(dimensions)]))
            found[name] = shape, cursor.u32(), cursor.u64()
        end = file.size - cursor.left
    alignment = fields.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 1:
        raise UserError(file.name, "general.alignment", expected="at least 1", found=alignment)
    data = -(-end // alignment) * alignment
    tensors = {}
    for name, (shape, number, offset) in found.items():
        try:
            kind = GGMLQuantizationType(number)
        except ValueError:
            raise UserError(f"{file.name}: tensor {name}", f"unknown type {number}") from None
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if shape and shape[-1] % block:
            raise UserError(
                f"{file.name}: tensor {name}",
                f"row length of {kind.name}",
                expected=f"a multiple of {block}",
                found=shape[-1],
            )
        size = math.prod(shape) // block * block_bytes
        tensors[name] = GGUFTensor(kind, shape, data + offset, size)
    file.require(max((t.offset + t.size for t in tensors.values()), default=0))
    return fields, tensors
