"""The AXI4 read master: memory segments in, a stream of bus beats out."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import RESP_OKAY, drive_constant_pins, read_master_members
from hw.burst import BurstPlanner, segment_layout
from hw.config import HeadConfig
from hw.fifo import StreamFIFO

BEATS_BITS = 40
"""Width of a segment's beat count."""


class Reader(wiring.Component):
    """Reads segments of memory in the order of their commands.

    A burst is requested only when the FIFO has room for all of it: the room is reserved when
    ARVALID rises and freed beat by beat as `o` takes them. So RREADY is constantly high, a shared
    memory port is never blocked, and a slow consumer throttles the requests alone. Bursts are
    incrementing, of whole beats, at most ``config.max_burst`` long, and never cross 4 KiB.

    A beat is on `o` three clocks after its R handshake, at up to one per clock. An address is
    requested every two clocks at best, four clocks after its command. No AXI output depends on an
    AXI input in the same clock.

    Parameters
    ----------
    config : HeadConfig
        ``bus_bits``, ``max_burst`` and ``outstanding_beats``, the room of the FIFO.

    Members
    -------
    command : In
        Stream of ``{address: 64, beats: 40}``: a byte address aligned to the bus, beats >= 1.
    ar*, r* : the AXI4 pins
    o : Out
        Stream of beats.
    abort : In
        While high no ARVALID rises and commands and beats are dropped. Once it was high the drop
        goes on until the last requested beat has come; commands wait for that when it is low.
    idle : Out
        No command, nothing requested, nothing buffered.
    error : Out
        Pulse: a beat came with an RRESP other than OKAY (it is passed on like any other).
    beat, address, address_wait : Out
        In this clock a beat comes, a request is accepted, a request waits.
    outstanding_beats : Out
        Beats of accepted requests that have not come, as of the clock before.
    active : Out
        From the first ARVALID after idle to the clock in which `o` takes the last beat of all
        commands taken so far.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "command": In(stream.Signature(segment_layout(BEATS_BITS))),
                "o": Out(stream.Signature(unsigned(config.bus_bits))),
                "abort": In(1),
                "idle": Out(1),
                "error": Out(1),
                "beat": Out(1),
                "address": Out(1),
                "address_wait": Out(1),
                "outstanding_beats": Out(range(config.outstanding_beats + 1)),
                "active": Out(1),
            }
            | read_master_members(config.bus_bits)
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        room_beats = config.outstanding_beats

        m.submodules.planner = planner = BurstPlanner(config.bus_bits, BEATS_BITS, config.max_burst)
        draining = Signal()
        m.submodules.fifo = fifo = ResetInserter(draining)(StreamFIFO(config.bus_bits, room_beats))
        drive_constant_pins(m, self, "ar", config.bus_bits)

        # Abort. Requests made are not withdrawn; their beats are taken and dropped. What the block
        # holds is cleared a clock later, from a flip-flop, since that reaches far.
        drained = Signal()
        m.d.comb += [
            drained.eq(~self.arvalid & (self.outstanding_beats == 0)),
            planner.clear.eq(draining),
            planner.command.payload.eq(self.command.payload),
            planner.command.valid.eq(self.command.valid & ~draining),
            self.command.ready.eq(self.abort | (planner.command.ready & ~draining)),
        ]
        m.d.sync += draining.eq(self.abort | (draining & ~drained))

        # The room that is not reserved. It is a power of two, so its top bit alone says that
        # nothing is requested or buffered. A request is subtracted in the first clock of its
        # ARVALID, before the planner's next burst can be compared.
        room = Signal(range(room_beats + 1), init=room_beats)
        all_free = room[-1]
        reserve = Signal()
        taken = Signal()
        length = Signal(len(room))  # beats minus one: its complement is minus the beats
        m.d.comb += [
            taken.eq(self.o.valid & self.o.ready),
            length.eq(self.arlen),
        ]
        m.d.sync += room.eq(room + Mux(reserve, ~length, 0) + taken)
        with m.If(draining & drained):
            m.d.sync += room.eq(room_beats)

        request = Signal()
        free = Signal()
        address = Signal.like(self.araddr, reset_less=True)
        burst_len = Signal.like(self.arlen, reset_less=True)
        burst = planner.o.payload
        m.d.comb += [
            self.araddr.eq(address),
            self.arlen.eq(burst_len),
            free.eq(~self.arvalid | self.arready),
            request.eq(planner.o.valid & (room > burst.len) & free & ~(self.abort | draining)),
            planner.o.ready.eq(request),
        ]
        m.d.sync += reserve.eq(request)
        with m.If(free):
            m.d.sync += [
                self.arvalid.eq(request),
                address.eq(burst.address),
                burst_len.eq(burst.len),
            ]

        # Beats go straight into the FIFO, where their room is reserved. It takes none in reset.
        m.d.comb += [
            self.rready.eq(1),
            fifo.i.valid.eq(self.rvalid),
            fifo.i.payload.eq(self.rdata),
            self.o.valid.eq(fifo.o.valid),
            self.o.payload.eq(fifo.o.payload),
            fifo.o.ready.eq(self.o.ready),
        ]

        m.d.comb += [
            self.beat.eq(self.rvalid),
            self.error.eq(self.rvalid & (self.rresp != RESP_OKAY)),
            self.address.eq(self.arvalid & self.arready),
            self.address_wait.eq(self.arvalid & ~self.arready),
        ]
        m.d.sync += self.outstanding_beats.eq(
            self.outstanding_beats + Mux(self.address, self.arlen + 1, 0) - self.beat
        )

        begun = Signal()
        m.d.comb += [
            self.idle.eq(~planner.busy & ~self.arvalid & all_free),
            self.active.eq(self.arvalid | ~all_free | (begun & planner.busy)),
        ]
        m.d.sync += begun.eq(self.active)
        return m
