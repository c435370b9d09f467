"""The bridge of a LiteX system, with a stand-in for LiteX's client: what gets lost is noticed."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from host.device import DeviceError
from host.errors import UserError
from host.litex.bridge import BLOCK_WORDS, RECORD_WORDS, TRIES, Bridge

WRITES, WIDE, CYCLES, RAM = 0x1000, 0x1004, 0x100C, 0x4000_0000
CSR = Path("csr.csv")


class FakeClient:
    """A system's words, and a link that loses the records that `lost` says."""

    host, port = "board", 1234
    clocks_per_read = 1000

    def __init__(self, link="CommUART", lost=lambda record: False):
        self.link = link
        self.lost = lost
        self.words = {WRITES: 0xFFFF_FFF0}
        self.records = []
        self.reads = 0
        self.closed = False
        self.regs = SimpleNamespace(
            d={
                "link_writes": SimpleNamespace(addr=WRITES, length=1),
                "link_cycles": SimpleNamespace(addr=CYCLES, length=1),
                "wide": SimpleNamespace(addr=WIDE, length=2),
            }
        )
        self.mems = SimpleNamespace(d={"main_ram": SimpleNamespace(base=RAM, size=1 << 20)})
        self.constants = SimpleNamespace(d={"config_clock_frequency": 75_000_000})

    def close(self):
        self.closed = True

    def read(self, address, count):
        assert count <= RECORD_WORDS
        self.reads += 1
        self.words[CYCLES] = self.clocks_per_read * self.reads
        return [self.words.get(address + 4 * index, 0) for index in range(count)]

    def write(self, address, words):
        assert len(words) <= RECORD_WORDS
        self.records.append((address, words))
        if self.lost(len(self.records)):
            return
        for index, word in enumerate(words):
            self.words[address + 4 * index] = word
        self.words[WRITES] = (self.words[WRITES] + len(words)) & 0xFFFF_FFFF


def test_long_accesses_go_in_records():
    client = FakeClient()
    bridge = Bridge(client, CSR)
    words = list(range(BLOCK_WORDS + 700))
    bridge.write_words(RAM, words)
    assert bridge.read_words(RAM, len(words)) == words
    assert len(client.records) == 32 + 3


def test_a_wide_register_begins_with_its_highest_word():
    client = FakeClient()
    bridge = Bridge(client, CSR)
    bridge.write("wide", 0x1122_3344_5566_7788)
    assert client.words[WIDE] == 0x1122_3344
    assert bridge.read("wide") == 0x1122_3344_5566_7788


def test_lost_datagrams_are_sent_again():
    client = FakeClient("CommUDP", lost=lambda record: record % 3 == 0)
    bridge = Bridge(client, CSR)
    for value in range(10):
        bridge.write("wide", value)
        assert bridge.read("wide") == value
    words = list(range(BLOCK_WORDS + 5))
    bridge.write_words(RAM, words)
    assert bridge.read_words(RAM, len(words)) == words


def test_an_acknowledged_link_is_not_asked_after_every_register():
    client = FakeClient()
    bridge = Bridge(client, CSR)
    before = client.reads
    for value in range(10):
        bridge.write("wide", value)
    assert client.reads == before


def test_a_dead_link_is_an_error():
    bridge = Bridge(FakeClient("CommUDP", lost=lambda record: True), CSR)
    for words in ([1, 2], [0] * 2 * RECORD_WORDS):
        with pytest.raises(DeviceError, match=f"0x{RAM:x} got lost {TRIES} times"):
            bridge.write_words(RAM, words)


def test_another_writer_is_noticed():
    client = FakeClient("CommUDP")
    bridge = Bridge(client, CSR)
    client.words[WRITES] += 5
    with pytest.raises(DeviceError, match="device busy"):
        bridge.write("wide", 1)


def test_silence_is_an_error():
    client = FakeClient()
    bridge = Bridge(client, CSR)

    def silent(*arguments):
        raise TimeoutError("no answer")

    client.read = silent
    with pytest.raises(DeviceError, match="board:1234: read at 0x40000000: no answer"):
        bridge.read_words(RAM, 1)


def test_an_answer_that_comes_late_is_not_taken_for_the_next():
    client = FakeClient()
    bridge = Bridge(client, CSR)
    answer = client.read

    def late(*arguments):
        client.read = answer
        raise TimeoutError("no answer")

    client.read = late
    for reason in ("no answer", "the link was given up after an error"):
        with pytest.raises(DeviceError, match=reason):
            bridge.read("wide")
    with pytest.raises(DeviceError, match="write at 0x40000000: the link was given up"):
        bridge.write_words(RAM, [1])
    assert client.closed


def test_a_foreign_register_list_is_a_users_error():
    client = FakeClient()
    del client.regs.d["link_writes"]
    with pytest.raises(UserError, match="csr.csv: has no register link_writes"):
        Bridge(client, CSR)
    with pytest.raises(UserError, match="has no region unembed"):
        Bridge(FakeClient(), CSR).region("unembed")
    for foreign in ({}, {"sdram_phases": "two"}):
        client = FakeClient()
        client.constants.d = foreign
        with pytest.raises(UserError, match="csr.csv: has no constant sdram_phases"):
            Bridge(client, CSR).constant("sdram_phases")
    client = FakeClient()
    client.clocks_per_read = 0
    with pytest.raises(UserError, match="csr.csv: is not of the system at board:1234"):
        Bridge(client, CSR)
