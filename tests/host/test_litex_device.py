"""The device behind a LiteX bridge, on a system in Python: memory, its failures, and time."""

import numpy as np
import pytest

from host.device import DeviceError
from host.devices.litex import LitexDevice
from host.devices.upload import checksum
from tests.host.fake_dram import FakeDram, Lane

REGISTERS, RAM, SIZE = 0x3000_0000, 0x4000_0000, 1 << 16
PORT_BYTES = 16


class FakeSystem(FakeDram):
    """A system's registers by name and memory by address; see `host.litex.bridge.Bridge`.

    Attributes
    ----------
    stuck : bool
        A bit of the memory is.
    silent : bool
        The checksum unit stays busy.
    checksums : int
        How many that unit has computed.
    """

    datagrams = False

    def __init__(self):
        super().__init__([Lane(1, range(2, 7)), Lane(3, range(0, 5))])
        self.memory = np.zeros(SIZE, np.uint8)
        self.stuck = self.silent = False
        self.checksums = 0
        self.cycles = 0xFFFF_F000  # wraps soon

    def close(self):
        pass

    def constant(self, name):
        return 75_000_000 if name == "config_clock_frequency" else super().constant(name)

    def region(self, name):
        return {"unembed": (REGISTERS, 4096), "main_ram": (RAM, SIZE)}[name]

    def read(self, name):
        match name:
            case "link_memory_ready" | "unembed_interrupt":
                return self.values.get(name, 0)
            case "link_cycles":
                self.cycles = (self.cycles + 1000) & 0xFFFF_FFFF
                return self.cycles
            case "checksum_busy":
                return int(self.silent)
            case "checksum_value":
                self.checksums += 1
                start = PORT_BYTES * self.values["checksum_address"]
                return checksum(self.memory[start:][: PORT_BYTES * self.values["checksum_words"]])
        return super().read(name)

    def read_words(self, address, count):
        if address < RAM:
            return [0] * count
        return self.memory[address - RAM :][: 4 * count].view("<u4").tolist()

    def write_words(self, address, words):
        self.memory[address - RAM :][: 4 * len(words)] = np.array(words, "<u4").view(np.uint8)
        self.memory[40] |= self.stuck


def test_the_memory_is_initialised_once_and_keeps_its_content():
    system = FakeSystem()
    with LitexDevice(system) as device:
        assert [setting.bitslip for setting in device.settings] == [1, 3]
        device.write_memory(0x100, b"kept" * 4)
    loads = list(system.loads)
    with LitexDevice(system) as device:
        assert device.settings == ()
        assert bytes(device.read_memory(0x100, 16)) == b"kept" * 4
    assert system.loads == loads


def test_a_memory_that_loses_bits_is_told_and_initialised_again():
    system = FakeSystem()
    system.stuck = True
    for _ in range(2):
        with pytest.raises(DeviceError, match="board: the DRAM was levelled but does not keep"):
            LitexDevice(system)
    system.stuck = False
    assert LitexDevice(system).settings


def test_a_checksum_that_does_not_end_is_told():
    system = FakeSystem()
    with LitexDevice(system) as device:
        system.silent = True
        with pytest.raises(DeviceError, match="board: the DRAM does not answer the checksum unit"):
            device.checksum(0, 4096)


@pytest.mark.parametrize(
    ("address", "size", "by_the_system"),
    [(0, 4096, True), (16, 16, True), (8, 32, False), (0, 24, False), (3, 5, False), (5, 0, False)],
)
def test_whole_words_of_the_port_are_summed_where_they_are(address, size, by_the_system):
    system = FakeSystem()
    with LitexDevice(system) as device:
        before = system.checksums
        assert device.checksum(address, size) == checksum(system.memory[address:][:size])
    assert system.checksums - before == by_the_system


@pytest.mark.parametrize(("address", "size"), [(0, 8), (1, 2), (3, 2), (2, 9), (7, 0), (4, 3)])
def test_bytes_beside_a_write_stay(address, size):
    system = FakeSystem()
    with LitexDevice(system) as device:
        expected = system.memory.copy()
        data = np.arange(1, size + 1, dtype=np.uint8)
        expected[address : address + size] = data
        device.write_memory(address, data)
    assert np.array_equal(system.memory, expected)


def test_what_a_datagram_brought_wrong_is_told():
    system = FakeSystem()
    with LitexDevice(system) as device:
        system.datagrams = system.stuck = True
        with pytest.raises(DeviceError, match="board: 64 bytes at 0x0 did not arrive"):
            device.write_memory(0, np.zeros(64, np.uint8))


@pytest.mark.parametrize(("address", "size"), [(-4, 8), (SIZE - 4, 8), (SIZE, 1)])
def test_no_byte_outside_the_memory_is_accessed(address, size):
    with LitexDevice(FakeSystem()) as device:
        for access in (device.read_memory, device.checksum):
            with pytest.raises(ValueError, match="are not in the memory"):
                access(address, size)
        with pytest.raises(ValueError, match="are not in the memory"):
            device.write_memory(address, bytes(size))


def test_a_wait_ends_by_the_systems_clock_also_where_its_counter_wraps():
    system = FakeSystem()
    with LitexDevice(system) as device:
        system.cycles = 0xFFFF_F000
        with pytest.raises(TimeoutError, match=r"within 50000 cycles \(CONTROL 0x0"):
            device.wait_interrupt(50_000)
        assert 50_000 <= (system.cycles + 0x1000) & 0xFFFF_FFFF < 60_000
        system.values["unembed_interrupt"] = 1
        device.wait_interrupt(0)
