"""The content of the simulated DRAM."""

import numpy as np
import pytest

from sim.memory import Dram
from tests.cosim.copier import random_bytes

PAGE = 1 << 16


@pytest.fixture
def dram():
    memory = Dram(0, 2**64 - 1)
    yield memory
    memory.close()


def test_untouched_memory_reads_zero_and_takes_no_space(dram):
    assert not dram.read(0x123456789, 3 * PAGE).any()
    assert dram.owned_pages == 0


@pytest.mark.parametrize("address", [0, 5, PAGE - 3, 0xFFFF_FFFF_0000_FFF0])
@pytest.mark.parametrize("size", [1, 100, 2 * PAGE + 7])
def test_reads_what_was_written_across_pages(dram, address, size):
    data = random_bytes(size)
    address = min(address, dram.size - size)
    dram.write(address, data)
    np.testing.assert_array_equal(dram.read(address, size), data)


def test_a_write_changes_only_its_bytes(dram):
    dram.write(PAGE - 8, np.full(16, 7, np.uint8))
    dram.write(PAGE - 1, b"\x01\x02")
    assert dram.read(PAGE - 8, 16).tolist() == [7] * 7 + [1, 2] + [7] * 7


def test_arrays_of_any_kind_are_written_as_their_bytes(dram):
    dram.write(0, np.arange(6, dtype="<i4").reshape(2, 3)[:, ::-1])
    assert dram.read(0, 24).view("<i4").tolist() == [2, 1, 0, 5, 4, 3]


def test_a_mapped_buffer_is_not_copied(dram):
    buffer = random_bytes(10 * PAGE)
    dram.map(3 * PAGE + 64, buffer)
    np.testing.assert_array_equal(dram.read(3 * PAGE + 64, buffer.size), buffer)
    assert dram.owned_pages == 2  # the partial pages at its two ends
    buffer[5 * PAGE] ^= 0xFF
    assert dram.read(8 * PAGE + 64, 1)[0] == buffer[5 * PAGE]


def test_a_read_only_file_can_be_mapped(dram, tmp_path):
    path = tmp_path / "image"
    data = random_bytes(4 * PAGE)
    path.write_bytes(data.tobytes())
    dram.map(0, np.memmap(path, np.uint8, "r"))
    dram.write(PAGE, b"\xaa")
    assert dram.read(PAGE, 1)[0] == 0xAA
    assert path.read_bytes() == data.tobytes()


def test_writing_into_a_mapped_buffer_leaves_the_buffer_alone(dram):
    buffer = random_bytes(4 * PAGE)
    original = buffer.copy()
    dram.map(0, buffer)
    assert dram.read(2 * PAGE + 1, 1)[0] == original[2 * PAGE + 1]
    dram.write(2 * PAGE, b"\x55")
    assert dram.read(2 * PAGE, 1)[0] == 0x55
    expected = original.copy()
    expected[2 * PAGE] = 0x55
    np.testing.assert_array_equal(dram.read(0, buffer.size), expected)
    np.testing.assert_array_equal(buffer, original)


def test_mapping_replaces_what_was_written_before(dram):
    old = random_bytes(2 * PAGE, seed=1)
    dram.write(0, old)
    assert dram.read(PAGE, 1)[0] == old[PAGE]
    buffer = ~old
    dram.map(0, buffer)
    assert dram.read(PAGE, 1)[0] == buffer[PAGE]
    np.testing.assert_array_equal(dram.read(0, buffer.size), buffer)


def test_the_library_keeps_a_mapped_buffer_alive(dram):
    expected = random_bytes(PAGE)
    dram.map(0, random_bytes(PAGE))
    for seed in range(4):
        random_bytes(PAGE, seed)
    np.testing.assert_array_equal(dram.read(0, PAGE), expected)


@pytest.mark.parametrize(("address", "size"), [(0xFFF, 1), (0x1000, 0x1001), (0x2000, 1)])
def test_ranges_outside_the_memory_are_refused(address, size):
    memory = Dram(0x1000, 0x1000)
    for access in (
        lambda: memory.read(address, size),
        lambda: memory.write(address, bytes(size)),
        lambda: memory.map(address, bytes(size)),
    ):
        with pytest.raises(ValueError, match="memory is 0x1000..0x1fff, got"):
            access()
    memory.close()
