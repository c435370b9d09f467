"""AXI4 slaves in Python for Amaranth's simulator; they check what the master does."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from hw.axi import BURST_INCR, bus_size

from .streams import HandshakeChecker

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Burst:
    """An accepted burst."""

    address: int
    beats: int
    cycle: int
    """The clock of its address handshake."""


def expected_bursts(address: int, beats: int, bus_bytes: int, max_burst: int):
    """(address, beats) of the bursts of a segment, found beat by beat."""
    bursts = []
    for beat in range(beats):
        here = address + beat * bus_bytes
        if bursts and here % PAGE_BYTES and bursts[-1][1] < max_burst:
            bursts[-1][1] += 1
        else:
            bursts.append([here, 1])
    return [tuple(burst) for burst in bursts]


def pattern(address: int, bus_bits: int) -> int:
    """The beat a memory holds at `address` before anything is written: no two are alike."""
    word = (address * 0x9E3779B97F4A7C15 + 0x1234567) & (1 << 64) - 1
    return sum((word ^ lane * 0x0101010101010101) << 64 * lane for lane in range(bus_bits // 64))


def _address_pins(port, letter):
    names = ("valid", "ready", "addr", "len", "size", "burst")
    return [getattr(port, letter + name) for name in names]


class _AddressChannel:
    def __init__(self, letter, bus_bits):
        self.bus_bits = bus_bits
        self.checker = HandshakeChecker(letter)

    def step(self, cycle, valid, ready, address, length, size, burst):
        if valid:
            beats = length + 1
            assert size == bus_size(self.bus_bits)
            assert burst == BURST_INCR
            assert address % (self.bus_bits // 8) == 0
            last = address + beats * self.bus_bits // 8 - 1
            assert address // PAGE_BYTES == last // PAGE_BYTES, f"{address:#x} crosses 4 KiB"
        if self.checker.step(cycle, valid, ready, (address, length)):
            return Burst(address, length + 1, cycle)
        return None


class ReadMemory:
    """The slave of a read master; holds `pattern` everywhere.

    The first beat of a burst comes `latency` clocks after its address, the others follow, bursts
    in order. While RVALID is low RRESP is SLVERR and RDATA is garbage.

    Parameters
    ----------
    port : component with the pins of `hw.axi.read_master_members`
    bus_bits : int
    latency : int
        Clocks from the address handshake to the first beat, at least 1.
    address_go, data_go : iterators, optional
        As `streams.stalls` gives them: ARREADY, and when a beat may come.
    responses : dict, optional
        RRESP of single beats, by their number since the start.

    Attributes
    ----------
    bursts : list of Burst
    beats : int
        R handshakes.
    """

    def __init__(
        self,
        port,
        bus_bits: int,
        latency: int = 8,
        address_go: Iterator[bool] | None = None,
        data_go: Iterator[bool] | None = None,
        responses: dict[int, int] | None = None,
    ):
        self.port = port
        self.bus_bits = bus_bits
        self.latency = latency
        self.address_go = repeat(True) if address_go is None else address_go
        self.data_go = repeat(True) if data_go is None else data_go
        self.responses = responses or {}
        self.bursts = []
        self.beats = 0

    async def run(self, ctx):
        port = self.port
        channel = _AddressChannel("ar", self.bus_bits)
        queue = deque()  # (first clock, address, last)
        offered = False
        cycle = 0
        while True:
            ctx.set(port.arready, next(self.address_go))
            go = next(self.data_go)
            if not offered and go and queue and queue[0][0] <= cycle:
                offered = True
                _, address, last = queue[0]
                ctx.set(port.rdata, pattern(address, self.bus_bits))
                ctx.set(port.rresp, self.responses.get(self.beats, 0))
                ctx.set(port.rlast, last)
            elif not offered:
                ctx.set(port.rdata, ~cycle)
                ctx.set(port.rresp, 2)
            ctx.set(port.rvalid, offered)
            _, _, *address_pins, ready = await ctx.tick().sample(
                *_address_pins(port, "ar"), port.rready
            )
            burst = channel.step(cycle, *address_pins)
            if burst:
                self.bursts.append(burst)
                queue += (
                    (
                        cycle + self.latency,
                        burst.address + beat * self.bus_bits // 8,
                        beat == burst.beats - 1,
                    )
                    for beat in range(burst.beats)
                )
            assert ready, f"RREADY low in clock {cycle}"
            if offered:
                queue.popleft()
                self.beats += 1
                offered = False
            cycle += 1


class WriteMemory:
    """The slave of a write master.

    Checks that WVALID stays high inside a burst, that WLAST is where AWLEN says, that every byte
    is strobed and BREADY is high.

    Parameters
    ----------
    port : component with the pins of `hw.axi.write_master_members`
    bus_bits : int
    latency : int
        Clocks from the last handshake of a burst to its response, at least 1.
    order : "any", "address" or "data"
        "address": no beat of a burst is accepted before its address; "data": no address is
        accepted before its burst's last beat.
    address_go, data_go, response_go : iterators, optional
    responses : dict, optional
        BRESP of single bursts, by their number since the start.

    Attributes
    ----------
    bursts : list of Burst
    words : dict
        Beats written, by address.
    beats, answers : int
        W and B handshakes.
    """

    def __init__(
        self,
        port,
        bus_bits: int,
        latency: int = 4,
        order: str = "any",
        address_go: Iterator[bool] | None = None,
        data_go: Iterator[bool] | None = None,
        response_go: Iterator[bool] | None = None,
        responses: dict[int, int] | None = None,
    ):
        self.port = port
        self.bus_bits = bus_bits
        self.latency = latency
        self.order = order
        self.address_go = repeat(True) if address_go is None else address_go
        self.data_go = repeat(True) if data_go is None else data_go
        self.response_go = repeat(True) if response_go is None else response_go
        self.responses = responses or {}
        self.bursts = []
        self.words = {}
        self.beats = 0
        self.answers = 0
        self._data = []  # complete bursts of beats

    async def run(self, ctx):
        port = self.port
        channel = _AddressChannel("aw", self.bus_bits)
        checker = HandshakeChecker("w")
        beats = []  # of the burst under way
        answers = deque()  # clocks
        stored = 0
        began = False
        offered = False
        cycle = 0
        while True:
            accept_address = next(self.address_go)
            accept_data = next(self.data_go)
            if self.order == "address":
                accept_data &= len(self.bursts) > len(self._data)
            elif self.order == "data":
                accept_address &= len(self._data) > len(self.bursts)
            ctx.set(port.awready, accept_address)
            ctx.set(port.wready, accept_data)
            offered |= next(self.response_go) and bool(answers) and answers[0] <= cycle
            ctx.set(port.bvalid, offered)
            ctx.set(port.bresp, self.responses.get(self.answers, 0) if offered else 2)
            samples = await ctx.tick().sample(
                *_address_pins(port, "aw"),
                port.wvalid,
                port.wready,
                port.wdata,
                port.wstrb,
                port.wlast,
                port.bready,
            )
            *address_pins, valid, wready, word, strobe, last, bready = samples[2:]
            burst = channel.step(cycle, *address_pins)
            if burst:
                self.bursts.append(burst)
            assert valid or not began, f"WVALID low inside a burst in clock {cycle}"
            if valid:
                began = True
                assert strobe == (1 << self.bus_bits // 8) - 1
            if checker.step(cycle, valid, wready, (word, last)):
                beats.append(word)
                self.beats += 1
                if last:
                    self._data.append(beats)
                    beats = []
                    began = False
            if stored < min(len(self.bursts), len(self._data)):
                self._store(self.bursts[stored], self._data[stored])
                stored += 1
                answers.append(cycle + self.latency)
            assert bready, f"BREADY low in clock {cycle}"
            if offered:
                answers.popleft()
                self.answers += 1
                offered = False
            cycle += 1

    def _store(self, burst, beats):
        assert len(beats) == burst.beats, f"burst of {burst.beats} got {len(beats)} beats"
        for index, word in enumerate(beats):
            address = burst.address + index * self.bus_bits // 8
            assert address not in self.words, f"{address:#x} written twice"
            self.words[address] = word
