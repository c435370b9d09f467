"""`MmapDevice`: an accelerator whose registers and memory are in this process's address space."""

import math
from fractions import Fraction

import numpy as np

from host.console import StageProgress
from host.devices.dma_buffer import DmaBuffer
from host.devices.register_page import RegisterPage
from host.devices.upload import Upload, checksum, load, no_progress
from host.jobs.registers import Registers
from hw.register_map import OFFSETS


class MmapDevice:
    """The accelerator of a Zynq, as a device of the host driver.

    It is for one thread at a time. What it is made of is closed with it.

    Parameters
    ----------
    registers : RegisterPage
    memory : DmaBuffer
    clock_hz : float
        The accelerator's clock, which it cannot tell: deadlines and rates follow from it.
    progress : callable (stage, bytes done, bytes in all), optional
        Of uploads.

    Attributes
    ----------
    uploads : list of Upload
        What `map_memory` has done.
    """

    def __init__(
        self,
        registers: RegisterPage,
        memory: DmaBuffer,
        clock_hz: float | Fraction,
        progress: StageProgress = no_progress,
    ):
        self.clock_hz = clock_hz
        self.uploads: list[Upload] = []
        self._registers = registers
        self._memory = memory
        self._progress = progress

    def __enter__(self) -> "MmapDevice":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def close(self) -> None:
        """Release registers and memory; the memory keeps its content."""
        self._registers.close()
        self._memory.close()

    @property
    def name(self) -> str:
        return self._registers.where

    # Registers.

    def read_register(self, offset: int) -> int:
        """The 32-bit register at a byte offset.

        A bus that does not answer, as without the bitstream, stops the processor, or the kernel
        ends the process: neither can be told from here.
        """
        return self._registers.read(offset)

    def write_register(self, offset: int, value: int) -> None:
        """Write the 32-bit register at a byte offset."""
        self._registers.write(offset, value)

    # Memory.

    @property
    def memory_base(self) -> int:
        return self._memory.base

    @property
    def memory_bytes(self) -> int:
        return self._memory.size

    def read_memory(self, address: int, size: int) -> np.ndarray:
        """A copy of `size` bytes at `address`, uint8 [size]."""
        return self._memory.view(address, size).copy()

    def write_memory(self, address: int, data) -> None:
        """Write a contiguous buffer of bytes at `address`."""
        self._memory.write(address, data)

    def checksum(self, address: int, size: int) -> int:
        """`host.devices.upload.checksum` of `size` bytes at `address`."""
        return checksum(self._memory.view(address, size))

    def map_memory(self, address: int, array: np.ndarray) -> None:
        """Make an array the memory's content at `address`: what is not there yet, is written.

        Raises
        ------
        DeviceError
            The memory does not keep it.
        """
        self.uploads.append(load(self, address, array, progress=self._progress))

    # Time.

    def wait_interrupt(self, cycles: int) -> None:
        """Return as soon as the interrupt is raised, at once if it is.

        Raises
        ------
        TimeoutError
            It was not raised within `cycles` clocks; the message shows the status registers.
        """
        seconds = math.ceil(cycles) / float(self.clock_hz)
        if not self._registers.wait(self._raised, seconds):
            status = Registers(self).status_line()
            raise TimeoutError(f"no interrupt within {cycles} cycles ({status})")

    def _raised(self) -> bool:
        """Whether the interrupt is, by the registers that drive it."""
        return bool(self.read_register(OFFSETS["ISR"]) and self.read_register(OFFSETS["GIE"]) & 1)
