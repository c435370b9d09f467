"""The memory-mapped device, on ordinary files with an accelerator behind them."""

import errno
import os
from types import SimpleNamespace

import numpy as np
import pytest

from host.checks.verify import golden_results, mismatches
from host.device import Device, DeviceError
from host.devices.dma_buffer import DmaBuffer
from host.devices.uio import UioRegisters
from host.driver import Head, JobTimeout
from host.image import save_image
from host.jobs.capabilities import identify
from host.jobs.registers import Registers
from hw.config import HeadConfig
from hw.register_map import MAGIC, OFFSETS, Control
from sim.device import SimDevice
from sim.memory import Dram, MemoryModel

from .fake_device import FakeDevice
from .stand_in import CLOCK_HZ, PAGE, failing, mem_device, uio_device

# The default hardware, whose simulator other tests need as well.
CONFIG = HeadConfig()
K = 16
RNG = np.random.default_rng(5)
HIDDEN = RNG.normal(size=(3, 70))
HIGH = 0x8_7000_0000
MILLISECOND_CYCLES = int(CLOCK_HZ / 1000)

SMALL = HeadConfig(bus_bits=64, group=0, k=8)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    weights = RNG.integers(-128, 128, (300, 70))
    scales = RNG.integers(1, 2**16, (300, 3))
    path = tmp_path_factory.mktemp("image") / "head.safetensors"
    return save_image(path, CONFIG, weights, scales, 1e-6)


@pytest.fixture
def small(stand_in):
    """A stand-in with a device in plain Python."""
    return stand_in(FakeDevice(SMALL))


OPENERS = pytest.mark.parametrize("opener", [uio_device, mem_device])


# Jobs.


@OPENERS
def test_jobs_are_exact_above_4_gib_behind_a_cache(stand_in, image, opener):
    with SimDevice(CONFIG, MemoryModel(base=HIGH, size=1 << 24)) as machine:
        kernel = stand_in(machine)
        with opener(kernel) as device:
            assert isinstance(device, Device)
            results = Head(device, image).run(HIDDEN, K)
        assert not len(mismatches(results, *golden_results(image, HIDDEN, K, 16)))
        with opener(kernel) as device:
            results = Head(device, image).run(HIDDEN[:1], K)
            assert [upload.written for upload in device.uploads] == [0]
        assert not len(mismatches(results, *golden_results(image, HIDDEN[:1], K, 16)))
        kernel.close()


def test_a_job_waits_for_its_interrupt_instead_of_polling(small, tmp_path):
    weights = RNG.integers(-128, 128, (20, 16))
    scales = RNG.integers(1, 2**16, (20, 1))
    image = save_image(tmp_path / "small.safetensors", SMALL, weights, scales, 1e-6)
    with uio_device(small) as device:
        Head(device, image).run(HIDDEN[:, :16], 4)
    assert small.enabled == len(HIDDEN)


def test_a_device_left_at_work_is_reset_before_the_image_is_loaded(small, tmp_path, monkeypatch):
    weights = RNG.integers(-128, 128, (20, 16))
    scales = RNG.integers(1, 2**16, (20, 1))
    image = save_image(tmp_path / "small.safetensors", SMALL, weights, scales, 1e-6)
    machine = small.machine
    machine.registers["CONTROL"] = int(Control.START)
    resets = []
    write = machine.write_memory
    monkeypatch.setattr(
        machine, "write_memory", lambda *given: resets.append(machine.resets) or write(*given)
    )
    with uio_device(small) as device:
        Head(device, image)
    assert resets and set(resets) == {1}


# Registers.


def test_registers_lie_where_the_map_begins(stand_in, tmp_path):
    kernel = stand_in(FakeDevice(SMALL), page_offset=0x800)
    with uio_device(kernel) as device:
        assert device.read_register(OFFSETS["MAGIC"]) == MAGIC
        device.write_register(OFFSETS["ROWS"], 0xFEDC_BA98)
    node = np.fromfile(tmp_path / "dev" / "uio0", "<u4")
    assert node[(0x800 + OFFSETS["MAGIC"]) // 4] == MAGIC
    assert node[(0x800 + OFFSETS["ROWS"]) // 4] == 0xFEDC_BA98
    assert np.count_nonzero(node) == 2


@pytest.mark.parametrize("offset", [-4, 2, PAGE])
def test_no_register_is_accessed_in_part_or_beyond_the_page(small, offset):
    with uio_device(small) as device:
        with pytest.raises(ValueError, match=r"offset must be a multiple of 4 in 0\.\.4092"):
            device.read_register(offset)
        with pytest.raises(ValueError, match="offset must be"):
            device.write_register(offset, 0)


@pytest.mark.parametrize("where", ["uio0", "unembed0", "{dev}/uio0"])
def test_a_uio_device_is_found_by_number_name_and_path(small, where):
    registers = UioRegisters(where.format(dev=small.nodes), small)
    assert registers.read(OFFSETS["MAGIC"]) == MAGIC
    registers.close()


@OPENERS
def test_another_slave_at_the_address_is_no_accelerator(stand_in, opener):
    machine = FakeDevice(SMALL)
    machine.registers["MAGIC"] = 0
    with (
        opener(stand_in(machine)) as device,
        pytest.raises(DeviceError, match="no unembed accelerator, MAGIC is 0x00000000"),
    ):
        identify(Registers(device))


# Memory.


def filled(kernel):
    """Random bytes that the accelerator has written, unseen by the CPU."""
    data = RNG.integers(0, 256, kernel.machine.memory_bytes, dtype=np.uint8)
    kernel.machine.write_memory(kernel.machine.memory_base, data)
    return data


def test_the_cache_is_dropped_before_a_read_and_written_back_after_a_write(small):
    data = filled(small)
    with uio_device(small) as device:
        base = device.memory_base
        assert np.array_equal(device.read_memory(base + 130, 70), data[130:200])
        device.write_memory(base + 256, np.arange(64, dtype=np.uint16))
    assert small.syncs == [("for_cpu", 2, 128, 128), ("for_device", 1, 256, 128)]
    seen = small.machine.read_memory(base + 256, 128)
    assert np.array_equal(seen.view(np.uint16), np.arange(64))


@pytest.mark.parametrize(("start", "size"), [(70, 100), (64, 10), (100, 28), (70, 8), (0, 64)])
def test_a_write_of_part_of_a_line_keeps_what_the_accelerator_wrote_beside_it(small, start, size):
    data = filled(small)
    data[start : start + size] = 0xA5
    with uio_device(small) as device:
        device.write_memory(device.memory_base + start, b"\xa5" * size)
        found = small.machine.read_memory(device.memory_base, data.size)
    assert np.array_equal(found, data)


def test_maintenance_at_the_end_of_the_buffer_stays_within_it(stand_in):
    kernel = stand_in(FakeDevice(SMALL, memory_bytes=PAGE + 40))
    with uio_device(kernel) as device:
        device.write_memory(device.memory_base + PAGE + 30, b"x" * 10)
    assert kernel.syncs == [("for_cpu", 2, PAGE, 40), ("for_device", 1, PAGE, 40)]


def test_a_coherent_buffer_needs_no_maintenance(stand_in):
    kernel = stand_in(FakeDevice(SMALL), coherent=True)
    (kernel.buffer / "sync_for_cpu").unlink()
    with uio_device(kernel) as device:
        device.write_memory(device.memory_base + 70, b"seen")
        assert bytes(device.read_memory(device.memory_base + 70, 4)) == b"seen"
    assert kernel.syncs == []
    assert bytes(kernel.cpu[70:74]) == b"seen"


def test_a_buffer_above_and_larger_than_4_gib_is_addressed_in_full(stand_in):
    base, size = 0x8_0000_0000, 6 << 30
    memory = Dram(base, size)
    machine = SimpleNamespace(
        memory_base=base, memory_bytes=size, read_memory=memory.read, write_memory=memory.write
    )
    kernel = stand_in(machine)
    with uio_device(kernel) as device:
        assert (device.memory_base, device.memory_bytes) == (base, size)
        address = base + (5 << 30)
        device.write_memory(address, b"\x5a" * 64)
        device.write_memory(base + (1 << 30), b"\xa5" * 64)
        assert bytes(memory.read(address, 64)) == b"\x5a" * 64
        memory.write(base + size - 64, b"\xc3" * 64)
        assert bytes(device.read_memory(base + size - 64, 64)) == b"\xc3" * 64
    assert kernel.syncs[0] == ("for_device", 1, 5 << 30, 64)
    memory.close()


@pytest.mark.parametrize(("start", "size"), [(-1, 1), (0, (1 << 20) + 1), (1 << 20, 1)])
def test_no_byte_outside_the_buffer_is_accessed(small, start, size):
    with uio_device(small) as device:
        with pytest.raises(ValueError, match="udmabuf0 is 0x40000000..0x400fffff"):
            device.read_memory(device.memory_base + start, size)
        with pytest.raises(ValueError, match="udmabuf0 is"):
            device.write_memory(device.memory_base + start, bytes(size))


def test_maintenance_that_is_refused_is_told(small, monkeypatch):
    with uio_device(small) as device:
        monkeypatch.setattr(small, "write", failing(errno.EINVAL))
        with pytest.raises(DeviceError, match="udmabuf0: cache maintenance: sync_offset does not"):
            device.write_memory(device.memory_base, bytes(64))


def test_a_buffer_of_the_module_by_its_old_name_is_found(small):
    small.buffer.parent.rename(small.classes / "udmabuf")
    buffer = DmaBuffer(f"{small.nodes}/udmabuf0", small)
    assert buffer.base == small.machine.memory_base
    buffer.close()


# The interrupt.


def raise_interrupt(machine):
    machine.registers |= {"GIE": 1, "ISR": 1}


@OPENERS
def test_an_interrupt_that_was_pending_is_not_waited_for(small, opener):
    with opener(small) as device:
        raise_interrupt(small.machine)
        device.wait_interrupt(MILLISECOND_CYCLES)
    assert small.enabled == 0


def test_an_interrupt_that_nobody_waited_for_does_not_end_the_next_wait(small):
    with uio_device(small) as device:
        small.notify()  # counted earlier, and acknowledged since
        with pytest.raises(TimeoutError):
            device.wait_interrupt(20 * MILLISECOND_CYCLES)
        with small.turn:
            small.notify()
            raise_interrupt(small.machine)
        device.wait_interrupt(10_000 * MILLISECOND_CYCLES)


def test_an_interrupt_that_is_masked_does_not_end_a_wait(small):
    with mem_device(small) as device:
        small.machine.registers |= {"GIE": 0, "ISR": 1}
        with pytest.raises(TimeoutError):
            device.wait_interrupt(MILLISECOND_CYCLES)


@OPENERS
def test_a_wait_ends_at_its_deadline_with_the_status(small, opener):
    with opener(small) as device:
        text = r"no interrupt within 20 cycles \(CONTROL 0x4, ISR 0x0, RESET 0x0, STATUS 0x0"
        with pytest.raises(TimeoutError, match=text):
            device.wait_interrupt(2 * MILLISECOND_CYCLES)


@OPENERS
def test_an_interrupt_raised_before_the_deadline_counts_though_it_is_seen_after(
    small, opener, monkeypatch
):
    with opener(small) as device:
        looks = iter([False, True])
        monkeypatch.setattr(device, "_raised", lambda: next(looks))
        device.wait_interrupt(0)


def test_a_job_that_does_not_end_is_a_timeout_of_the_driver(small, tmp_path):
    weights = RNG.integers(-128, 128, (20, 16))
    scales = RNG.integers(1, 2**16, (20, 1))
    image = save_image(tmp_path / "small.safetensors", SMALL, weights, scales, 1e-6)
    small.machine.hang = True
    with uio_device(small) as device, pytest.raises(JobTimeout, match="uio0: job 1 did not end"):
        Head(device, image).run(HIDDEN[:, :16], 4, deadline_cycles=MILLISECOND_CYCLES)


def test_a_uio_device_without_an_interrupt_is_polled(small, monkeypatch):
    looks = iter([False] * 5 + [True])
    with uio_device(small) as device:
        monkeypatch.setattr(device, "_raised", lambda: next(looks))
        monkeypatch.setattr(os, "write", failing(errno.EIO))
        device.wait_interrupt(10_000 * MILLISECOND_CYCLES)
    assert list(looks) == []


def test_a_deadline_may_be_later_than_the_kernel_waits_at_a_time(small, monkeypatch):
    looks = iter([False, True])
    with uio_device(small) as device:
        monkeypatch.setattr(device, "_raised", lambda: next(looks))
        small.notify()
        device.wait_interrupt(1 << 60)


@pytest.mark.parametrize("call", ["read", "write"])
def test_an_interrupt_that_the_kernel_takes_away_is_told(small, monkeypatch, call):
    with uio_device(small) as device:
        small.notify()
        monkeypatch.setattr(os, call, failing(errno.ENODEV))
        with pytest.raises(DeviceError, match="uio0: interrupt: No such device"):
            device.wait_interrupt(10_000 * MILLISECOND_CYCLES)


def test_interrupts_of_another_device_do_not_keep_a_wait_past_its_deadline(small, monkeypatch):
    # A shared line that stays raised: there is always a count to read.
    descriptor = os.open("/dev/zero", os.O_RDWR)
    monkeypatch.setattr(small, "events", lambda node: descriptor)
    with uio_device(small) as device, pytest.raises(TimeoutError):
        device.wait_interrupt(20 * MILLISECOND_CYCLES)
    os.close(descriptor)
