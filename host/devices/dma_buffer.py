"""Memory that host and accelerator share: a buffer of the kernel module u-dma-buf.

Its nodes and attributes are described at https://github.com/ikwzm/udmabuf. The module was called
udmabuf before Linux had another one of that name, and so was its class in sysfs.

The buffer is mapped with the CPU's cache. Where accelerator and cache do not see each other, as on
the HP ports of a Zynq, every access maintains the cache for the range that it touches. Mapping it
without the cache (O_SYNC) would make all of the host's copies slow.
"""

import os
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from host.device import DeviceError
from host.devices.kernel import LINUX, Kernel
from hw.config import AXI_BOUNDARY_BYTES

CLASSES = ("u-dma-buf", "udmabuf")

LINE_BYTES = 64
"""At least a line of the cache: 64 bytes on a Cortex-A53, 32 on a Cortex-A9."""

TO_DEVICE, FROM_DEVICE = 1, 2
"""Values of sync_direction."""

NONCACHED_ALWAYS = 5
"""A value of sync_mode: device memory, on which copies of any alignment fault (arm64)."""


def find_buffer(where: str, kernel: Kernel = LINUX) -> Path:
    """What sysfs has of a buffer, given as a path, such as /dev/udmabuf0, or as a name.

    Raises
    ------
    DeviceError
        There is none.
    """
    name = where.removeprefix(f"{kernel.nodes}/")
    known = []
    for group in CLASSES:
        known += sorted((kernel.classes / group).glob("*"))
    for folder in known:
        if folder.name == name:
            return folder
    listed = ", ".join(folder.name for folder in known) or "none; is the module u-dma-buf loaded?"
    raise DeviceError(f"{where}: no such DMA buffer; there are: {listed}")


class DmaBuffer:
    """A buffer of u-dma-buf, all of it.

    Parameters
    ----------
    where : str
        As of `find_buffer`.
    kernel : Kernel

    Attributes
    ----------
    where : str
        Its node, for messages.
    base : int
        The accelerator's address of it, up to 64 bits.
    size : int
        Bytes.
    coherent : bool
        Accelerator and cache see each other: the cache needs no maintenance.

    Raises
    ------
    DeviceError
        The buffer is absent, busy, not this user's to open, or of no use.
    """

    def __init__(self, where: str, kernel: Kernel = LINUX):
        folder = find_buffer(where, kernel)
        node = kernel.nodes / folder.name
        self.where = str(node)
        self.base = kernel.read_number(folder / "phys_addr")
        self.size = kernel.read_number(folder / "size")
        attribute = folder / "dma_coherent"  # absent where the kernel cannot tell
        self.coherent = attribute.exists() and kernel.read_number(attribute) == 1
        if self.base % AXI_BOUNDARY_BYTES:
            raise DeviceError(
                f"{folder / 'phys_addr'}: must be a multiple of {AXI_BOUNDARY_BYTES}, found "
                f"{self.base:#x}"
            )
        if kernel.read_number(folder / "sync_mode") == NONCACHED_ALWAYS:
            raise DeviceError(
                f"{folder / 'sync_mode'}: {NONCACHED_ALWAYS} maps the buffer as device memory, "
                "which cannot be copied to; write 1"
            )
        self._kernel = kernel
        self._sync = {}
        with ExitStack() as stack:
            descriptor = kernel.open(node, os.O_RDWR)
            stack.callback(os.close, descriptor)
            kernel.lock(descriptor, self.where)
            if not self.coherent:
                for name in ("offset", "size", "direction", "for_cpu", "for_device"):
                    opened = kernel.open(folder / f"sync_{name}", os.O_WRONLY)
                    stack.callback(os.close, opened)
                    self._sync[name] = opened
            mapping = kernel.map(descriptor, self.where, self.size)
            stack.callback(mapping.close)
            self._bytes = np.frombuffer(mapping, np.uint8)
            self._opened = stack.pop_all()

    def close(self) -> None:
        """Unmap the buffer, which keeps its content; another driver may open it.

        A second call does nothing.

        Raises
        ------
        BufferError
            A view is still in use, which keeps the buffer mapped as long as it is.
        """
        self._bytes = None
        self._opened.close()

    def view(self, address: int, size: int) -> np.ndarray:
        """`size` bytes at `address` as the accelerator sees them, uint8 [size]; not a copy."""
        start = self._offset(address, size)
        self._take(start, size)
        view = self._bytes[start : start + size]
        view.flags.writeable = False
        return view

    def write(self, address: int, data) -> None:
        """Write a contiguous buffer of bytes at `address`, for the accelerator to see."""
        data = memoryview(data).cast("B")
        size = data.nbytes
        start = self._offset(address, size)
        if not size:
            return
        # A line that is written in part brings its other bytes along.
        stop = start + size
        for line in sorted({edge // LINE_BYTES for edge in (start, stop) if edge % LINE_BYTES}):
            self._take(line * LINE_BYTES, 1)
        self._bytes[start : start + size] = np.frombuffer(data, np.uint8)
        self._give(start, size)

    def _offset(self, address: int, size: int) -> int:
        if not (self.base <= address and size >= 0 and address + size <= self.base + self.size):
            raise ValueError(
                f"{self.where} is {self.base:#x}..{self.base + self.size - 1:#x}, got {size} bytes "
                f"at {address:#x}"
            )
        return address - self.base

    def _take(self, start: int, size: int) -> None:
        """Before the CPU reads: drop what its cache holds, which may be older."""
        if not self.coherent:
            self._maintain("for_cpu", FROM_DEVICE, start, size)

    def _give(self, start: int, size: int) -> None:
        """After the CPU has written: write what its cache holds to the memory."""
        if not self.coherent:
            self._maintain("for_device", TO_DEVICE, start, size)
        else:
            # Gives the interpreter's lock away and takes it back: no later write of a register
            # overtakes what was written here. Maintenance has barriers of its own.
            time.sleep(0)

    def _maintain(self, owner: str, direction: int, start: int, size: int) -> None:
        first = start // LINE_BYTES * LINE_BYTES
        last = min(-(-(start + size) // LINE_BYTES) * LINE_BYTES, self.size)
        values = {"offset": first, "size": last - first, "direction": direction, owner: 1}
        for name, value in values.items():
            try:
                self._kernel.write(self._sync[name], value)
            except OSError as error:
                raise DeviceError(
                    f"{self.where}: cache maintenance: sync_{name} does not take {value}: "
                    f"{error.strerror}"
                ) from None
