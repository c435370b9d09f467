"""The header of a safetensors file: where each tensor lies.

The safetensors library maps or loads tensors; streaming them through bounded memory, in either
direction, needs only their positions. Format: 8 bytes of header length, little-endian; a JSON
object of ``name: {dtype, shape, data_offsets}`` and ``__metadata__`` (strings); the data.
"""

import json
import math
from dataclasses import dataclass

from host.errors import UserError
from host.files.rawfile import RawFile

MAX_HEADER_BYTES = 100_000_000
"""The library's own limit."""

METADATA = "__metadata__"

ITEM_BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "U16": 2,
    "I16": 2,
    "F16": 2,
    "BF16": 2,
    "U32": 4,
    "I32": 4,
    "F32": 4,
    "U64": 8,
    "I64": 8,
    "F64": 8,
}


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    """First byte, from the start of the file."""
    size: int
    """Bytes."""


def read_header(file: RawFile) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """Tensors and metadata of a safetensors file.

    Raises
    ------
    UserError
        The file is no safetensors file, is cut short or contradicts itself.
    """

    def broken(what, **details):
        return UserError(file.name, f"not a valid safetensors file: {what}", **details)

    if file.size < 8:
        raise broken("no header", expected="at least 8 bytes", found=f"{file.size} bytes")
    length = int.from_bytes(file.read(0, 8), "little")
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise broken("header length", expected=f"2..{MAX_HEADER_BYTES} bytes", found=length)
    start = 8 + length
    file.require(start)
    try:
        header = json.loads(bytes(file.read(8, length)).decode())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise broken(f"its header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise broken("its header is no JSON object")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise broken(f"{METADATA} must be strings")
    tensors = {}
    for name, entry in header.items():
        try:
            dtype, shape = entry["dtype"], tuple(entry["shape"])
            begin, end = entry["data_offsets"]
            sound = all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end))
        except (TypeError, KeyError, ValueError):
            sound = False
        if not sound or end < begin:
            raise broken(f"tensor {name!r} needs dtype, shape and data_offsets")
        items = ITEM_BYTES.get(dtype)
        if items is not None and math.prod(shape) * items != end - begin:
            raise broken(
                f"size of tensor {name!r}",
                expected=f"{math.prod(shape) * items} bytes for {dtype} {list(shape)}",
                found=end - begin,
            )
        tensors[name] = TensorEntry(dtype, shape, start + begin, end - begin)
    file.require(max((t.offset + t.size for t in tensors.values()), default=start))
    return tensors, metadata


def build_header(
    tensors: dict[str, tuple[str, tuple[int, ...]]], metadata: dict[str, str], size: int
) -> bytes:
    """A header padded with spaces to `size` bytes, its length word included.

    Parameters
    ----------
    tensors : {name: (dtype, shape)}
        In the order of their data.
    metadata : {key: value}
    size : int
        Where the data starts.

    Raises
    ------
    ValueError
        The header does not fit.
    """
    header: dict[str, object] = {METADATA: metadata}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + math.prod(shape) * ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    if len(text) > size - 8:
        raise ValueError(f"a header of {len(text)} bytes does not fit in {size - 8}")
    return (size - 8).to_bytes(8, "little") + text.ljust(size - 8)
