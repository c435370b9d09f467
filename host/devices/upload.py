"""Upload of an image into a device's memory, where it stays: only what differs is written."""

import zlib
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from host.console import StageProgress
from host.device import DeviceError

CHUNK_BYTES = 1 << 20
"""What is compared, and written if it differs, at a time."""

checksum = zlib.crc32
"""Of bytes: the CRC-32 of IEEE 802.3, which hardware computes in a few gates a bit as well."""


class UploadMemory(Protocol):
    """What an upload needs of a device."""

    @property
    def name(self) -> str:
        """A few words that identify the device in messages."""

    def checksum(self, address: int, size: int) -> int:
        """`checksum` of `size` bytes at `address`, of what the accelerator would read there."""

    def write_memory(self, address: int, data: np.ndarray) -> None:
        """Write uint8 bytes at `address`."""


@dataclass(frozen=True)
class Upload:
    """What an upload has done."""

    address: int
    bytes: int
    written: int
    """Those that were not there."""


def no_progress(stage: str, done: int, total: int) -> None:
    """Progress that nobody wants to see."""


def load(
    memory: UploadMemory,
    address: int,
    array: np.ndarray,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    progress: StageProgress = no_progress,
) -> Upload:
    """Make an array the memory's content, and read all of it back as checksums.

    Chunks that are there already are not written, so that an upload of what the memory holds
    costs only its check, and one that was interrupted goes on where it was.

    Parameters
    ----------
    memory : UploadMemory
    address : int
    array : uint8 [size]
        Contiguous.
    chunk_bytes : int
        Compared and written at a time; the last chunk is smaller.
    progress : callable (stage, bytes done, bytes in all), optional

    Raises
    ------
    DeviceError
        The memory does not hold what was written to it; the message names the first address.
    """
    parts = [
        slice(start, min(start + chunk_bytes, array.size))
        for start in range(0, array.size, chunk_bytes)
    ]
    expected = [checksum(array[part]) for part in parts]

    def differing(stage: str) -> list[slice]:
        found = []
        for part, right in zip(parts, expected, strict=True):
            progress(stage, part.start, array.size)
            if memory.checksum(address + part.start, part.stop - part.start) != right:
                found.append(part)
        progress(stage, array.size, array.size)
        return found

    missing = differing("checking image")
    if not missing:
        return Upload(address, array.size, 0)
    done, total = 0, sum(part.stop - part.start for part in missing)
    for part in missing:
        progress("uploading image", done, total)
        memory.write_memory(address + part.start, array[part])
        done += part.stop - part.start
    progress("uploading image", total, total)
    # All of it: where addresses alias, a chunk that was right is no longer.
    wrong = differing("verifying image")
    if wrong:
        raise DeviceError(
            f"{memory.name}: memory does not keep what is written to it: {len(wrong)} of "
            f"{len(parts)} chunks are wrong after the upload, the first at "
            f"{address + wrong[0].start:#x}"
        )
    return Upload(address, array.size, total)
