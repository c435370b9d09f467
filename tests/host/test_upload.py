"""Upload of an image: what is written, what is found, and what is told of a memory that fails."""

import numpy as np
import pytest

from host.device import DeviceError
from host.devices.upload import CHUNK_BYTES, Upload, checksum, load

BASE = 0x8_0000_0000
CHUNK = 1000
DATA = np.random.default_rng(1).integers(0, 256, 4 * CHUNK + 300, dtype=np.uint8)


class Memory:
    """Memory of a device; after some writes the link to it breaks."""

    name = "board"

    def __init__(self, size=1 << 14, writes=1000):
        self.bytes = np.zeros(size, np.uint8)
        self.writes = writes
        self.written = []
        self.checked = []

    def checksum(self, address, size):
        self.checked.append((address - BASE, size))
        return checksum(self.bytes[address - BASE :][:size])

    def write_memory(self, address, data):
        if len(self.written) == self.writes:
            raise DeviceError("board: the link is down")
        self.written.append((address - BASE, data.size))
        self.bytes[address - BASE :][: data.size] = data


def loaded(memory, data=DATA, **options):
    return load(memory, BASE, data, chunk_bytes=CHUNK, **options)


def test_an_image_is_written_once_and_found_again():
    memory = Memory()
    assert loaded(memory) == Upload(BASE, DATA.size, DATA.size)
    assert np.array_equal(memory.bytes[: DATA.size], DATA)
    assert memory.written == [(CHUNK * n, min(CHUNK, DATA.size - CHUNK * n)) for n in range(5)]
    memory.written.clear()
    assert loaded(memory) == Upload(BASE, DATA.size, 0)
    assert memory.written == []


def test_all_of_it_is_checked_before_and_verified_after():
    memory = Memory()
    loaded(memory)
    assert memory.checked == 2 * memory.written


def test_only_chunks_that_differ_are_written():
    memory = Memory()
    loaded(memory)
    memory.written.clear()
    memory.bytes[[CHUNK, 4 * CHUNK + 299]] ^= 1
    assert loaded(memory) == Upload(BASE, DATA.size, CHUNK + 300)
    assert memory.written == [(CHUNK, CHUNK), (4 * CHUNK, 300)]


def test_an_upload_that_was_interrupted_goes_on_where_it_was():
    memory = Memory(writes=2)
    with pytest.raises(DeviceError, match="the link is down"):
        loaded(memory)
    memory.writes = 1000
    memory.written.clear()
    assert loaded(memory).written == 2 * CHUNK + 300
    assert memory.written[0] == (2 * CHUNK, CHUNK)
    assert np.array_equal(memory.bytes[: DATA.size], DATA)


def test_a_bit_that_is_stuck_is_told_with_its_chunk():
    memory = Memory()
    write = memory.write_memory

    def stuck(address, data):
        write(address, data)
        memory.bytes[2 * CHUNK + 5] = ~DATA[2 * CHUNK + 5]

    memory.write_memory = stuck
    with pytest.raises(DeviceError, match="board: .* 1 of 5 chunks .*, the first at 0x8000007d0$"):
        loaded(memory)


def test_addresses_that_alias_are_found_though_each_write_reads_back():
    memory = Memory()
    write, check = memory.write_memory, memory.checksum
    memory.write_memory = lambda address, data: write(BASE + (address - BASE) % (2 * CHUNK), data)
    memory.checksum = lambda address, size: check(BASE + (address - BASE) % (2 * CHUNK), size)
    with pytest.raises(DeviceError, match="the first at 0x800000000$"):
        loaded(memory)


def test_progress_tells_bytes_of_every_stage():
    told = []
    memory = Memory()
    memory.bytes[:CHUNK] = DATA[:CHUNK]
    loaded(memory, progress=lambda *step: told.append(step))
    stages = list(dict.fromkeys(stage for stage, *_ in told))
    assert stages == ["checking image", "uploading image", "verifying image"]
    uploads = [step for step in told if step[0] == "uploading image"]
    assert [done for _, done, _ in uploads] == [0, 1000, 2000, 3000, 3300]
    assert {total for *_, total in uploads} == {3300}
    assert ("checking image", DATA.size, DATA.size) in told


def test_an_image_without_bytes_is_there():
    assert load(Memory(), BASE, DATA[:0]) == Upload(BASE, 0, 0)


def test_a_chunk_is_larger_than_a_small_image():
    memory = Memory()
    load(memory, BASE, DATA)
    assert memory.written == [(0, DATA.size)]
    assert DATA.size < CHUNK_BYTES


def test_the_checksum_is_the_crc_of_ieee_802_3():
    # The check value of CRC-32 in the catalogue of parametrised CRC algorithms.
    assert checksum(b"123456789") == 0xCBF4_3926
