"""What Linux shows of devices: nodes to open, lock and map, and attributes."""

import errno
import fcntl
import mmap
import os
import struct
from pathlib import Path

import numpy as np

from host.device import DeviceError

WORD = np.dtype("<u4")


class Kernel:
    """The files of devices; tests put others in their place.

    Attributes
    ----------
    nodes : Path
        The folder of device nodes.
    classes : Path
        The folder of what sysfs shows, by class.
    """

    def __init__(self, nodes: Path = Path("/dev"), classes: Path = Path("/sys/class")):
        self.nodes = nodes
        self.classes = classes

    def read(self, attribute: Path) -> str:
        """The text of an attribute.

        Raises
        ------
        DeviceError
            It cannot be read.
        """
        try:
            return attribute.read_text().strip()
        except OSError as error:
            raise DeviceError(f"{attribute}: cannot be read: {error.strerror}") from None

    def read_number(self, attribute: Path) -> int:
        """An attribute that is a number, decimal or with 0x; raises like `read`."""
        text = self.read(attribute)
        try:
            return int(text, 0)
        except ValueError:
            raise DeviceError(f"{attribute}: is no number, found {text!r}") from None

    def open(self, path: Path, flags: int) -> int:
        """Open a node or an attribute; the descriptor is the caller's to close.

        Raises
        ------
        DeviceError
            It is not there, busy, or not this user's to open.
        """
        try:
            return os.open(path, flags | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.EBUSY:
                raise DeviceError(f"{path}: device busy") from None
            hint = ""
            if error.errno in (errno.EACCES, errno.EPERM):
                hint = "; run as root, or let a udev rule give this user access"
            raise DeviceError(f"{path}: {error.strerror}{hint}") from None

    def lock(self, descriptor: int, where: str, start: int = 0, size: int = 0) -> None:
        """Keep other users of a node from the same bytes of it, until it is closed or this process
        ends; a size of 0 is all of them. `where` names it in messages.

        Raises
        ------
        DeviceError
            Device busy: another user, in this process or another, has it.
        """
        # Of the open file rather than of the process: two devices of one process are told apart.
        request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, size, 0)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, request)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise DeviceError(f"{where}: cannot be locked: {error.strerror}") from None
            raise DeviceError(f"{where}: device busy: it is in use by another driver") from None

    def map(self, descriptor: int, where: str, size: int, offset: int = 0) -> mmap.mmap:
        """Map `size` bytes from `offset`, a multiple of the page size, for reading and writing.

        Raises
        ------
        DeviceError
            The kernel refuses.
        """
        try:
            return mmap.mmap(descriptor, size, mmap.MAP_SHARED, offset=offset)
        except (OSError, ValueError, OverflowError) as error:
            raise DeviceError(f"{where}: {size} bytes cannot be mapped: {error}") from None

    def words(self, mapping: mmap.mmap, offset: int, size: int) -> np.ndarray:
        """Registers of a mapping, uint32 [size / 4]; each is read and written in one access.

        Views of NumPy, unlike ctypes, do not read a word that is to be written: a read of a
        register may have an effect. They must not be copied as a whole: a copy's accesses are of
        any width.
        """
        return np.frombuffer(mapping, WORD, size // WORD.itemsize, offset)

    def write(self, attribute: int, value: int) -> None:
        """Write a number to an attribute that is open."""
        os.pwrite(attribute, b"%d" % value, 0)

    def events(self, node: int) -> int:
        """The descriptor for the interrupts of a UIO node: itself."""
        return node


LINUX = Kernel()
