"""The AXI4 write master: memory segments and a stream of bus beats in."""

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes import KEPT
from hw.axi import RESP_OKAY, drive_constant_pins, write_master_members
from hw.burst import BurstPlanner, segment_layout
from hw.config import HeadConfig

BEATS_BITS = 16
"""Width of a segment's beat count."""
MAX_PENDING = 15
"""Most bursts that wait for their response."""
REQUEST_CLOCKS = 2
"""From the last beat of a burst to the clock in which the burst is requested."""
PASSAGE_CLOCKS = 1
"""From that clock to the one of that beat on the pins, if the beats before have gone."""
LONGEST_BURST = {64: 16, 128: 16, 256: 8, 512: 8}
"""Most beats of a burst by the width of the bus. Two are buffered: 16 words, as LUT RAM has, where
the bus is wide, twice as many where it is narrow."""


def longest_write_burst(config: HeadConfig) -> int:
    """Most beats of a burst."""
    return min(LONGEST_BURST[config.bus_bits], config.max_burst)


class Writer(wiring.Component):
    """Writes beats to the segments of its commands, in order.

    A burst is requested only when all of its beats are buffered, so WVALID is never low inside it
    and a shared memory port is never blocked. AWVALID and WVALID wait neither for each other nor
    for the other's READY; the next burst starts when both are accepted, at best with a clock
    between their beats, and with two behind a burst of one beat. WDATA is read from LUT RAM by an
    address in flip-flops: WREADY, which comes late, reaches that address and no register of the
    bus's width.

    Bursts are incrementing, of whole beats, at most `longest_write_burst` long, and never cross
    4 KiB. BREADY is constantly high. No AXI output depends on an AXI input in the same clock.

    Parameters
    ----------
    config : HeadConfig
        ``bus_bits`` and ``max_burst``.

    Members
    -------
    command : In
        Stream of ``{address: 64, beats: 16}``: a byte address aligned to the bus, beats >= 1.
    i : In
        Stream of beats. Those of a burst may come before their command.
    aw*, w*, b* : the AXI4 pins
    abort : In
        While high no AWVALID rises and commands and beats are dropped; bursts whose AWVALID has
        risen are completed. Once it was high that goes on until the last response has come;
        commands and beats wait for that when it is low.
    idle : Out
        In the clock before no command or beat came, nothing was buffered and every burst answered.
    error : Out
        Pulse: a response other than OKAY came.
    beat : Out
        In this clock a beat is accepted.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(segment_layout(BEATS_BITS))),
                "i": In(stream.Signature(unsigned(config.bus_bits))),
                "abort": In(1),
                "idle": Out(1, init=1),
                "error": Out(1),
                "beat": Out(1),
            }
            | write_master_members(config.bus_bits)
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        longest = longest_write_burst(config)

        m.submodules.planner = planner = BurstPlanner(config.bus_bits, BEATS_BITS, longest)
        clear = Signal()
        depth = 2 * LONGEST_BURST[config.bus_bits]
        m.submodules.buffer = buffer = memory.Memory(
            shape=unsigned(config.bus_bits),
            depth=depth,
            init=[],
            attrs={"no_rw_check": 1, "ram_style": "distributed"},
        )
        write, read = buffer.write_port(), buffer.read_port(domain="comb")
        write_address, read_address = Signal(range(depth)), Signal(range(depth))
        drive_constant_pins(m, self, "aw", config.bus_bits)

        # Abort: what the block holds is cleared a clock later, from flip-flops, since that reaches
        # far; but for the beats of a burst that has begun, until they are sent.
        sending = Signal()
        pending = Signal(range(MAX_PENDING + 1))
        draining = Signal()
        has_room = Signal(init=1)
        m.d.comb += [
            planner.clear.eq(draining),
            clear.eq(draining & ~sending),
            planner.command.payload.eq(self.command.payload),
            planner.command.valid.eq(self.command.valid & ~draining),
            self.command.ready.eq(self.abort | (planner.command.ready & ~draining)),
            self.i.ready.eq(self.abort | (has_room & ~draining)),
        ]
        m.d.sync += draining.eq(self.abort | (draining & (pending != 0)))

        # Room is known from a flip-flop, which learns of a beat that was sent a clock late.
        push = Signal()
        sent = Signal()
        held = Signal(range(depth + 1))
        # What a beat that comes makes of it is settled before it is known whether one does.
        room_without, room_with = Signal(attrs=KEPT), Signal(attrs=KEPT)
        m.d.comb += [
            room_without.eq(clear | sent | (held != depth)),
            room_with.eq(clear | sent | (held != depth - 1)),
            push.eq(self.i.valid & has_room),
            write.addr.eq(write_address),
            write.data.eq(self.i.payload),
            write.en.eq(push),
        ]
        m.d.sync += [
            sent.eq(self.beat),
            write_address.eq(write_address + push),
            held.eq(held + push - sent),
            has_room.eq(Mux(push, room_with, room_without)),
        ]

        # Beats that no request asked for, minus one: nothing has to be added before they are
        # compared. Whether all beats of the burst are here is known from a flip-flop.
        beyond = Signal(signed(depth.bit_length() + 1), init=-1)
        burst = planner.o.payload
        complete = Signal()
        request = Signal()
        requested = Signal()  # in the clock before
        address = Signal.like(self.awaddr, reset_less=True)
        burst_len = Signal.like(self.awlen, reset_less=True)
        may_be_next = planner.o.valid & ~(request | requested) & (pending != MAX_PENDING)
        m.d.sync += [
            requested.eq(request),
            beyond.eq(beyond + push - Mux(requested, burst_len + 1, 0)),
            complete.eq(may_be_next & (beyond >= burst.len)),
        ]
        with m.If(clear):
            m.d.sync += [
                held.eq(0),
                beyond.eq(-1),
                complete.eq(0),
                write_address.eq(read_address),
            ]
        m.d.comb += [
            self.awaddr.eq(address),
            self.awlen.eq(burst_len),
            request.eq(complete & ~self.awvalid & ~sending & ~(self.abort | draining)),
            planner.o.ready.eq(request),
        ]
        with m.If(~self.awvalid):
            m.d.sync += [
                self.awvalid.eq(request),
                address.eq(burst.address),
                burst_len.eq(burst.len),
            ]
        with m.Elif(self.awready):
            m.d.sync += self.awvalid.eq(0)

        left = Signal(range(max(2, longest)), reset_less=True)  # beats after this one
        m.d.comb += [
            read.addr.eq(read_address),
            self.wdata.eq(read.data),
            self.wstrb.eq(~0),
            self.wlast.eq(left == 0),
            self.wvalid.eq(sending),
            self.beat.eq(self.wvalid & self.wready),
        ]
        m.d.sync += read_address.eq(read_address + self.beat)
        with m.If(request):
            m.d.sync += [sending.eq(1), left.eq(burst.len)]
        with m.Elif(self.beat):
            m.d.sync += [sending.eq(~self.wlast), left.eq(left - 1)]

        m.d.comb += [
            self.bready.eq(1),
            self.error.eq(self.bvalid & (self.bresp != RESP_OKAY)),
        ]
        nothing = ~planner.busy & (beyond < 0) & (pending == 0)
        m.d.sync += self.idle.eq(nothing & ~self.command.valid & ~self.i.valid)
        m.d.sync += pending.eq(pending + request - self.bvalid)
        return m
