"""Registers and interrupt through Linux's UIO (Documentation/driver-api/uio-howto.rst)."""

import errno
import math
import os
import select
import struct
import time
from collections.abc import Callable

from host.device import DeviceError
from host.devices.kernel import LINUX, Kernel
from host.devices.register_page import PAGE_BYTES, RegisterPage

ENABLE = struct.pack("=i", 1)
"""Written to a node, it enables the interrupt, which the kernel disables when it comes."""

COUNT_BYTES = 4
"""What is read of a node for an interrupt: how many there have been."""

LONGEST_POLL = (1 << 31) - 1
"""Milliseconds that poll() takes: 24 days. A deadline may be later, at a slow clock."""


def find_uio(where: str, kernel: Kernel = LINUX) -> str:
    """The uioN of a path, such as /dev/uio4, or a name: uio4, or what its `name` in sysfs is.

    Raises
    ------
    DeviceError
        None or several are called so.
    """
    folder = kernel.classes / "uio"
    known = {path.name: kernel.read(path / "name") for path in sorted(folder.glob("uio*"))}
    asked = where.removeprefix(f"{kernel.nodes}/")
    if asked in known:
        return asked
    found = [device for device, name in known.items() if name == asked]
    if len(found) == 1:
        return found[0]
    if found:
        raise DeviceError(f"{where}: {len(found)} UIO devices have this name: {', '.join(found)}")
    listed = ", ".join(f"{device} ({name})" for device, name in known.items()) or "none"
    raise DeviceError(f"{where}: no such UIO device; there are: {listed}")


class UioRegisters(RegisterPage):
    """The registers that are the first map of a UIO device, with its interrupt.

    A device without an interrupt is polled.

    Parameters
    ----------
    where : str
        As of `find_uio`.
    kernel : Kernel

    Raises
    ------
    DeviceError
        The device is absent, busy, not this user's to open, or its map is too small.
    """

    def __init__(self, where: str, kernel: Kernel = LINUX):
        name = find_uio(where, kernel)
        first = kernel.classes / "uio" / name / "maps" / "map0"
        size = kernel.read_number(first / "size")
        if size < PAGE_BYTES:
            raise DeviceError(
                f"{first / 'size'}: {size} bytes are too few for the registers, which take "
                f"{PAGE_BYTES}"
            )
        # Map n is mapped at n pages; the device may begin within its page.
        offset = kernel.read_number(first / "offset")
        node = kernel.nodes / name
        super().__init__(node, str(node), offset, kernel)
        self._events = kernel.events(self._node)
        self._poll = select.poll()
        self._poll.register(self._events, select.POLLIN)

    def wait(self, raised: Callable[[], bool], seconds: float) -> bool:
        """Wait until the interrupt is raised, at most some time; whether it is."""
        end = time.monotonic() + seconds
        while not raised():
            remaining = end - time.monotonic()
            if remaining <= 0:
                return raised()  # once more: this process may have slept past the end
            # The interrupt is a level: one that is raised from here on comes as soon as it is
            # enabled. One that came earlier and was never waited for is counted, and found to be
            # none by the next look at the registers.
            if not self._enable():
                return super().wait(raised, remaining)
            if self._poll.poll(min(math.ceil(remaining * 1000), LONGEST_POLL)):
                self._take_count()
        return True

    def _enable(self) -> bool:
        """Let the next interrupt come; False if the device has none."""
        try:
            os.write(self._events, ENABLE)
        except OSError as error:
            if error.errno in (errno.EIO, errno.ENOSYS):
                return False
            raise DeviceError(f"{self.where}: interrupt: {error.strerror}") from None
        return True

    def _take_count(self) -> None:
        """Read the count, so that the next poll is for a new interrupt."""
        try:
            os.read(self._events, COUNT_BYTES)
        except OSError as error:
            raise DeviceError(f"{self.where}: interrupt: {error.strerror}") from None
