"""The accelerator's registers in the address space of this process."""

import mmap
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from host.devices.kernel import LINUX, WORD, Kernel
from hw.register_map import ADDRESS_BITS

PAGE_BYTES = 1 << ADDRESS_BITS
"""What the registers take of the address space."""

POLL_SECONDS = 20e-6
"""Between two looks at a register; the kernel makes it 70 µs or so."""


class RegisterPage:
    """The registers of an accelerator, mapped from a node; the interrupt is polled for.

    Parameters
    ----------
    node : Path
        What is mapped.
    where : str
        Names the registers in messages.
    address : int
        Where in the node the registers begin.
    kernel : Kernel

    Raises
    ------
    DeviceError
        The node is absent, busy, not this user's to open, or cannot be mapped.
    """

    def __init__(self, node: Path, where: str, address: int, kernel: Kernel = LINUX):
        self.where = where
        # O_SYNC: /dev/mem then maps without the CPU's cache; UIO always does.
        with ExitStack() as stack:
            self._node = kernel.open(node, os.O_RDWR | os.O_SYNC)
            stack.callback(os.close, self._node)
            kernel.lock(self._node, where, address, PAGE_BYTES)
            page, offset = divmod(address, mmap.PAGESIZE)
            mapping = kernel.map(self._node, where, offset + PAGE_BYTES, page * mmap.PAGESIZE)
            stack.callback(mapping.close)
            self._words = kernel.words(mapping, offset, PAGE_BYTES)
            self._opened = stack.pop_all()

    def close(self) -> None:
        """Unmap the registers; another driver may open them. A second call does nothing."""
        self._words = None
        self._opened.close()

    def read(self, offset: int) -> int:
        """The register at a byte offset, a multiple of 4."""
        return int(self._words[_index(offset)])

    def write(self, offset: int, value: int) -> None:
        """Write the register at a byte offset, a multiple of 4."""
        self._words[_index(offset)] = value

    def wait(self, raised: Callable[[], bool], seconds: float) -> bool:
        """Wait until the interrupt is raised, at most some time; whether it is."""
        end = time.monotonic() + seconds
        while not raised():
            if time.monotonic() > end:
                return raised()  # once more: this process may have slept past the end
            time.sleep(POLL_SECONDS)
        return True


def _index(offset: int) -> int:
    index, rest = divmod(offset, WORD.itemsize)
    if rest or not 0 <= offset < PAGE_BYTES:
        raise ValueError(f"offset must be a multiple of 4 in 0..{PAGE_BYTES - 4}, got {offset}")
    return index
