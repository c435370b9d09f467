"""What opening a memory-mapped device refuses: one in use, absent, forbidden or of no use."""

import errno
import gc
import os
import subprocess
import sys

import pytest

from host.device import DeviceError
from host.devices.dma_buffer import DmaBuffer
from host.devices.register_page import RegisterPage
from host.devices.uio import UioRegisters
from hw.config import HeadConfig

from .fake_device import FakeDevice
from .stand_in import PAGE, REGISTERS_ADDRESS, failing, mem_device, uio_device

CONFIG = HeadConfig(bus_bits=64, group=0, k=8)


@pytest.fixture
def small(stand_in):
    """A stand-in with a device in plain Python."""
    return stand_in(FakeDevice(CONFIG))


# One driver at a time.


@pytest.mark.parametrize("opener", [uio_device, mem_device])
def test_a_second_open_is_refused_until_the_first_is_closed(small, opener):
    with opener(small):
        with pytest.raises(DeviceError, match="device busy"):
            opener(small)
        with pytest.raises(DeviceError, match=r"udmabuf0: device busy"):
            DmaBuffer("udmabuf0", small)
    opener(small).close()


def test_a_device_is_free_when_the_process_that_had_it_dies(small):
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from host.devices.kernel import Kernel\n"
        "from host.devices.uio import UioRegisters\n"
        "kernel = Kernel(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "registers = UioRegisters('uio0', kernel)\n"
        "print('open', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program, small.nodes, small.classes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "open\n"
            with pytest.raises(DeviceError, match=r"uio0: device busy"):
                uio_device(small)
        finally:
            other.kill()
        other.wait()
        uio_device(small).close()


def test_two_accelerators_in_the_address_space_do_not_exclude_each_other(small):
    node = small.nodes / "mem"
    os.truncate(node, REGISTERS_ADDRESS + 2 * PAGE)
    first = RegisterPage(node, "first", REGISTERS_ADDRESS, small)
    second = RegisterPage(node, "second", REGISTERS_ADDRESS + PAGE, small)
    with pytest.raises(DeviceError, match="third: device busy"):
        RegisterPage(node, "third", REGISTERS_ADDRESS, small)
    first.close()
    second.close()


def test_a_busy_buffer_leaves_no_register_locked(small):
    buffer = DmaBuffer("udmabuf0", small)
    registers = UioRegisters("uio0", small)
    registers.close()
    buffer.close()
    uio_device(small).close()


@pytest.mark.parametrize("opener", [uio_device, mem_device])
def test_a_second_close_leaves_files_of_others_open(small, opener):
    device = opener(small)
    device.close()
    with open(os.devnull) as other:  # has the number of the first that was closed
        device.close()
        os.fstat(other.fileno())


def test_a_view_in_use_keeps_the_buffer_no_longer_than_itself(small):
    buffer = DmaBuffer("udmabuf0", small)
    view = buffer.view(buffer.base, 64)
    try:
        buffer.close()
    except BufferError:
        pass
    else:
        pytest.fail("the view should keep the buffer mapped")
    with pytest.raises(DeviceError, match="device busy"):
        DmaBuffer("udmabuf0", small)
    del view, buffer
    gc.collect()  # the traceback of the error
    DmaBuffer("udmabuf0", small).close()


# What cannot be opened.


@pytest.mark.parametrize("where", ["uio7", "/dev/uio7", "other"])
def test_an_absent_uio_device_is_told_with_those_that_are_there(small, where):
    with pytest.raises(DeviceError, match=rf"{where}: no such UIO device; .*: uio0 \(unembed0\)"):
        UioRegisters(where, small)


def test_a_name_of_several_uio_devices_is_told(stand_in):
    kernel = stand_in(FakeDevice(CONFIG))
    other = stand_in(FakeDevice(CONFIG), number=1)
    (other.uio / "name").write_text("unembed0\n")
    with pytest.raises(DeviceError, match="2 UIO devices have this name: uio0, uio1"):
        UioRegisters("unembed0", kernel)


def test_an_absent_buffer_is_told_with_those_that_are_there(small):
    with pytest.raises(DeviceError, match="udmabuf1: no such DMA buffer; there are: udmabuf0"):
        DmaBuffer("udmabuf1", small)
    small.buffer.rename(small.classes / "gone")
    with pytest.raises(DeviceError, match="there are: none; is the module u-dma-buf loaded"):
        DmaBuffer("udmabuf0", small)


def test_a_missing_node_is_told(small):
    (small.nodes / "uio0").unlink()
    with pytest.raises(DeviceError, match=r"dev/uio0: No such file or directory$"):
        UioRegisters("uio0", small)


@pytest.mark.parametrize("name", ["uio0", "udmabuf0", "sync_for_cpu"])
def test_a_file_that_is_not_the_users_is_told_with_what_helps(small, monkeypatch, name):
    opened = os.open

    def refuse(path, *arguments):
        if path.name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DeviceError, match=rf"{name}: Permission denied; run as root, or .*udev"):
        uio_device(small)


def test_a_node_that_its_driver_gives_to_one_only_is_busy(small, monkeypatch):
    monkeypatch.setattr(os, "open", failing(errno.EBUSY))
    with pytest.raises(DeviceError, match="uio0: device busy"):
        UioRegisters("uio0", small)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("uio/uio0/maps/map0/size", "0x800", r"map0/size: 2048 bytes are too few .* take 4096"),
        ("uio/uio0/maps/map0/size", "many", "map0/size: is no number, found 'many'"),
        ("u-dma-buf/udmabuf0/phys_addr", "0x40000800", "must be a multiple of 4096, found 0x40000"),
        ("u-dma-buf/udmabuf0/sync_mode", "5", "sync_mode: 5 maps the buffer as device memory"),
        ("u-dma-buf/udmabuf0/size", "1048577", "udmabuf0: 1048577 bytes cannot be mapped"),
    ],
)
def test_what_sysfs_says_of_no_use_is_told_with_its_file(small, file, text, message):
    (small.classes / file).write_text(text)
    with pytest.raises(DeviceError, match=message):
        uio_device(small)


def test_an_attribute_that_is_missing_is_told(small):
    (small.buffer / "size").unlink()
    with pytest.raises(DeviceError, match="udmabuf0/size: cannot be read: No such file"):
        DmaBuffer("udmabuf0", small)


def test_what_cannot_be_opened_leaves_nothing_open(small):
    (small.buffer / "sync_for_device").unlink()
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(DeviceError, match="sync_for_device"):
        DmaBuffer("udmabuf0", small)
    with pytest.raises(DeviceError, match="cannot be mapped"):
        RegisterPage(small.nodes / "mem", "mem", REGISTERS_ADDRESS + PAGE, small)
    assert sorted(os.listdir("/proc/self/fd")) == before
