"""What the host driver needs of an accelerator: registers, memory and its interrupt."""

from typing import Protocol, runtime_checkable

import numpy as np


class DeviceError(RuntimeError):
    """The accelerator is not what it should be, or does not do what it should."""


@runtime_checkable
class Device(Protocol):
    """One accelerator and the memory that it reads and writes, at the same addresses on all of its
    ports.

    Simulated devices, memory-mapped hardware and bridges satisfy this by structure; none has to
    inherit from it. All calls are synchronous.
    """

    @property
    def name(self) -> str:
        """A few words that identify the device in messages."""

    @property
    def clock_hz(self) -> float:
        """Clock of the accelerator, for rates."""

    @property
    def memory_base(self) -> int:
        """First address of the memory the driver may use, a multiple of 4096."""

    @property
    def memory_bytes(self) -> int:
        """Size of that memory."""

    def read_register(self, offset: int) -> int:
        """The 32-bit register at a byte offset.

        Raises
        ------
        RuntimeError
            The access was answered with an error, or not at all.
        """

    def write_register(self, offset: int, value: int) -> None:
        """Write the 32-bit register at a byte offset; raises like `read_register`."""

    def read_memory(self, address: int, size: int) -> np.ndarray:
        """A copy of `size` bytes at `address`, uint8 [size]."""

    def write_memory(self, address: int, data) -> None:
        """Write a buffer of bytes at `address`."""

    def map_memory(self, address: int, array: np.ndarray) -> None:
        """Make a read-only uint8 array the memory's content at `address`, a multiple of 4096.

        Without a copy where the device can; the caller does not change the array while it is
        mapped.
        """

    def wait_interrupt(self, cycles: int) -> None:
        """Return as soon as the interrupt is raised, at once if it is.

        Raises
        ------
        TimeoutError
            It was not raised within `cycles` clocks; the message shows the status registers.
        """

    def close(self) -> None:
        """Release the device; it is of no use afterwards."""

    def __enter__(self):
        """The device itself."""

    def __exit__(self, *exception):
        """Close the device."""
