"""`LitexDevice`: an accelerator in a LiteX system, over the system's bridge."""

from pathlib import Path

import numpy as np

from host.console import StageProgress
from host.device import DeviceError
from host.devices.upload import Upload, checksum, load, no_progress
from host.jobs.registers import Registers
from host.litex.bridge import Bridge, connect
from host.litex.levelling import initialise

CHUNK_BYTES = 1 << 16
"""Of an upload: a second over UART."""

PORT_BYTES = 16
"""Width of the DRAM's ports, in which the checksum unit counts."""

TEST_BYTES = 4096
"""Written and read after the initialisation."""


def open_litex(
    host: str, port: int, csr: Path, progress: StageProgress = no_progress
) -> "LitexDevice":
    """The device behind a LiteX server.

    Parameters
    ----------
    host, port : str, int
        Where `litex_server` listens.
    csr : Path
        The system's ``csr.csv``.
    progress : callable (stage, done, total), optional

    Raises
    ------
    UserError
        LiteX is not installed, or the file is not of such a system.
    DeviceError
        Nobody answers, or the DRAM does not work.
    """
    bridge = connect(host, port, csr)
    try:
        return LitexDevice(bridge, progress)
    except BaseException:
        bridge.close()
        raise


class LitexDevice:
    """The accelerator of `host.litex.soc`, as a device of the host driver.

    The DRAM is initialised unless that was done since the FPGA was configured; what it holds then
    stays, and so do images.

    Parameters
    ----------
    bridge : Bridge
        Closed with the device.
    progress : callable (stage, done, total), optional
        Of initialisation and uploads.

    Attributes
    ----------
    uploads : list of Upload
        What `map_memory` has done.
    settings : tuple of Setting
        How the DRAM's byte lanes were levelled; empty if they had been before.

    Raises
    ------
    UserError
        The register list is not of such a system.
    DeviceError
        The DRAM does not work.
    """

    memory_base = 0

    def __init__(self, bridge: Bridge, progress: StageProgress = no_progress):
        self._bridge = bridge
        self._progress = progress
        self.name = f"accelerator at {bridge.name}"
        self.uploads: list[Upload] = []
        self.settings = ()
        self.clock_hz = float(bridge.constant("config_clock_frequency"))
        self._register_origin, _ = bridge.region("unembed")
        self._memory_origin, self.memory_bytes = bridge.region("main_ram")
        if not bridge.read("link_memory_ready"):
            self._initialise_memory()

    def _initialise_memory(self) -> None:
        self._progress("initialising the DRAM", 0, 1)
        self.settings = initialise(self._bridge)
        data = np.random.default_rng(0).integers(0, 256, TEST_BYTES, np.uint8)
        self.write_memory(0, data)
        if self.checksum(0, data.size) != checksum(data):
            raise DeviceError(
                f"{self.name}: the DRAM was levelled but does not keep what is written to it"
            )
        self._bridge.write("link_memory_ready", 1)
        self._progress("initialising the DRAM", 1, 1)

    def close(self) -> None:
        """Release the bridge; the memory keeps its content."""
        self._bridge.close()

    def __enter__(self) -> "LitexDevice":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    # Registers.

    def read_register(self, offset: int) -> int:
        """The 32-bit register at a byte offset."""
        return self._bridge.read_words(self._register_origin + offset, 1)[0]

    def write_register(self, offset: int, value: int) -> None:
        """Write the 32-bit register at a byte offset."""
        self._bridge.write_words(self._register_origin + offset, [value])

    # Memory.

    def _check_range(self, address: int, size: int) -> None:
        if not 0 <= address <= address + size <= self.memory_bytes:
            raise ValueError(f"{size} bytes at {address:#x} are not in the memory")

    def _read_words(self, address: int, count: int) -> np.ndarray:
        words = self._bridge.read_words(self._memory_origin + address, count)
        return np.array(words, "<u4").view(np.uint8)

    def read_memory(self, address: int, size: int) -> np.ndarray:
        """A copy of `size` bytes at `address`, uint8 [size]."""
        self._check_range(address, size)
        start = address & ~3
        count = (address + size - start + 3) // 4
        return self._read_words(start, count)[address - start :][:size]

    def write_memory(self, address: int, data) -> None:
        """Write a contiguous buffer of bytes at `address`.

        Raises
        ------
        DeviceError
            The link does not bring it as it is.
        """
        data = np.frombuffer(data, np.uint8)
        self._check_range(address, data.size)
        start, stop = address & ~3, (address + data.size + 3) & ~3
        if (start, stop) != (address, address + data.size):
            # The bridge writes whole words.
            whole = np.empty(stop - start, np.uint8)
            whole[:4] = self._read_words(start, 1)
            whole[-4:] = self._read_words(stop - 4, 1)
            whole[address - start :][: data.size] = data
            data = whole
        self._bridge.write_words(self._memory_origin + start, data.view("<u4").tolist())
        # The system executes datagrams whose CRC is wrong as well.
        if self._bridge.datagrams and self.checksum(start, data.size) != checksum(data):
            raise DeviceError(
                f"{self.name}: {data.size} bytes at {start:#x} did not arrive as they were sent"
            )

    def checksum(self, address: int, size: int) -> int:
        """`host.devices.upload.checksum` of `size` bytes at `address`, computed by the system."""
        self._check_range(address, size)
        if not size or address % PORT_BYTES or size % PORT_BYTES:
            return checksum(self.read_memory(address, size))
        bridge = self._bridge
        bridge.write("checksum_address", address // PORT_BYTES)
        bridge.write("checksum_words", size // PORT_BYTES)
        bridge.write("checksum_start", 1)
        # It takes a clock for each 32-bit word; the DRAM delivers twice as much.
        if not self._until(lambda: not bridge.read("checksum_busy"), 100_000 + 4 * size):
            raise DeviceError(f"{self.name}: the DRAM does not answer the checksum unit")
        return bridge.read("checksum_value")

    def map_memory(self, address: int, array: np.ndarray) -> None:
        """Make an array the memory's content at `address`: what is not there yet, is written.

        Raises
        ------
        DeviceError
            The memory does not keep it.
        """
        upload = load(self, address, array, chunk_bytes=CHUNK_BYTES, progress=self._progress)
        self.uploads.append(upload)

    # Time.

    def _until(self, condition, cycles: int) -> bool:
        """Wait for a condition; whether it came true within a number of the system's clocks."""
        passed, last = 0, self._bridge.read("link_cycles")
        while not condition():
            if passed >= cycles:
                return False
            # The counter has 32 bits, a minute; deadlines may be longer.
            now = self._bridge.read("link_cycles")
            passed += (now - last) & 0xFFFF_FFFF
            last = now
        return True

    def wait_interrupt(self, cycles: int) -> None:
        """Return as soon as the interrupt is raised, at once if it is.

        Raises
        ------
        TimeoutError
            It was not raised within `cycles` clocks; the message shows the status registers.
        """
        if not self._until(lambda: self._bridge.read("unembed_interrupt"), cycles):
            status = Registers(self).status_line()
            raise TimeoutError(f"no interrupt within {cycles} cycles ({status})")
