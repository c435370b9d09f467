"""The AXI4 read master: memory segments in, streams of bus beats out."""

from dataclasses import dataclass

from amaranth.hdl import Module, Mux, ResetInserter, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes import KEPT
from hw.axi import RESP_OKAY, drive_constant_pins, read_master_members
from hw.burst import BURST_LAYOUT, BurstPlanner, segment_layout
from hw.config import HeadConfig
from hw.fifo import StreamFIFO

BEATS_BITS = 40
"""Width of a segment's beat count."""
MASK_BURST = 16
"""Most beats of a burst of the mask; two of them are requested or buffered at most."""

READ_LATENCY = StreamFIFO.LATENCY
"""Clocks of a beat from its R handshake to the reader's output if nothing is before it."""
ROOM_CLOCKS = READ_LATENCY + 2
"""Clocks after that of a beat's R handshake in which its room cannot be requested again: until the
beat is on the reader's output, which takes it at once, and two more for the room."""


def most_outstanding_beats(config: HeadConfig) -> int:
    """Most beats of accepted requests that have not come."""
    mask_beats = min(MASK_BURST, config.max_burst) if config.mask else 0
    return config.outstanding_beats + mask_beats


@dataclass(frozen=True)
class _MaskSignals:
    """What the requests and beats of the image must know of those of the mask."""

    offer: Signal
    request: Signal
    burst: data.View
    addressed: Signal
    expected: Signal
    busy: Signal
    all_free: Signal


class Reader(wiring.Component):
    """Reads segments of memory in the order of their commands.

    A burst is requested only when the FIFO has room for all of it: the room is reserved when
    ARVALID rises and freed beat by beat as `o` takes them, two clocks later. So RREADY is
    constantly high, a shared memory port is never blocked, and a slow consumer throttles the
    requests alone. Bursts are incrementing, of whole beats, at most ``config.max_burst`` long, and
    never cross 4 KiB.

    A beat is on `o` three clocks after its R handshake, at up to one per clock. An address is
    requested every two clocks at best, four clocks after its command. No AXI output depends on an
    AXI input in the same clock.

    With ``config.mask`` a second stream, that of the mask, shares the port. Its bursts, at most
    `MASK_BURST` beats long, go before those of `command`, but only one at a time is under way and
    only when its own FIFO has room for all of it, so that neither stream can hold up the other.
    All reads have one ID and come back in order: the beats between the acceptance of a mask's
    address and its data are counted.

    Parameters
    ----------
    config : HeadConfig
        ``bus_bits``, ``max_burst``, ``outstanding_beats``, the room of the FIFO, and ``mask``.

    Members
    -------
    command : In
        Stream of ``{address: 64, beats: 40}``: a byte address aligned to the bus, beats >= 1.
    ar*, r* : the AXI4 pins
    o : Out
        Stream of beats.
    mask_command, mask_o
        Likewise, of the mask; only with ``config.mask``.
    abort : In
        While high no ARVALID rises and commands and beats are dropped. Once it was high the drop
        goes on until the last requested beat has come; commands wait for that when it is low.
    idle : Out
        No command, nothing requested, nothing buffered.
    image_idle : Out
        The same of the main stream alone, whatever the mask's state.
    error : Out
        Pulse: a beat came with an RRESP other than OKAY (it is passed on like any other).
    beat, address, address_wait : Out
        In this clock a beat comes, a request is accepted, a request waits.
    outstanding_beats : Out
        Beats of accepted requests that have not come, as of the clock before.
    active : Out
        From the first ARVALID after idle to the clock in which `o` takes the last beat of all
        commands taken so far. Unlike the signals above it leaves out the mask.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        segments = stream.Signature(segment_layout(BEATS_BITS))
        beats = stream.Signature(unsigned(config.bus_bits))
        super().__init__(
            {
                "command": In(segments),
                "o": Out(beats),
                "abort": In(1),
                "idle": Out(1),
                "image_idle": Out(1),
                "error": Out(1),
                "beat": Out(1),
                "address": Out(1),
                "address_wait": Out(1),
                "outstanding_beats": Out(range(most_outstanding_beats(config) + 1)),
                "active": Out(1),
            }
            | ({"mask_command": In(segments), "mask_o": Out(beats)} if config.mask else {})
            | read_master_members(config.bus_bits)
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        room_beats = config.outstanding_beats

        m.submodules.planner = planner = BurstPlanner(config.bus_bits, BEATS_BITS, config.max_burst)
        draining = Signal()
        m.submodules.fifo = fifo = ResetInserter(draining)(
            StreamFIFO(config.bus_bits, room_beats, has_room=True)
        )
        # The reader's own stream comes first: in Verilog it has the name that others share.
        m.d.comb += [
            self.o.valid.eq(fifo.o.valid),
            self.o.payload.eq(fifo.o.payload),
            fifo.o.ready.eq(self.o.ready),
        ]
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
        # `o.ready` comes late: what is taken is added a clock later.
        reserve = Signal()
        taken = Signal()
        all_free = room[-1] | ((room == room_beats - 1) & taken)
        length = Signal(len(room))  # beats minus one: its complement is minus the beats
        m.d.comb += [
            length.eq(self.arlen),
        ]
        m.d.sync += [
            taken.eq(self.o.valid & self.o.ready),
            room.eq(room + Mux(reserve, ~length, 0) + taken),
        ]
        with m.If(draining & drained):
            m.d.sync += [room.eq(room_beats), taken.eq(0)]

        request = Signal()
        free = Signal()
        address = Signal.like(self.araddr, reset_less=True)
        burst_len = Signal.like(self.arlen, reset_less=True)
        burst = planner.o.payload
        # The comparison comes last.
        may_request = Signal(attrs=KEPT)
        any_request, next_burst = request, burst
        own_address, own_beat = self.arvalid, self.rvalid
        allowed = planner.o.valid & free & ~(self.abort | draining)
        busy, all_returned = planner.busy, all_free
        if config.mask:
            mask = self._add_mask(m, draining, drained, free & ~(self.abort | draining))
            allowed &= ~mask.offer
            any_request = request | mask.request
            next_burst = Mux(mask.offer, mask.burst.as_value(), burst.as_value())
            next_burst = data.View(BURST_LAYOUT, next_burst)
            own_address &= ~mask.addressed
            own_beat &= ~mask.expected
            busy |= mask.busy
            all_returned &= mask.all_free
        m.d.comb += [
            self.araddr.eq(address),
            self.arlen.eq(burst_len),
            free.eq(~self.arvalid | self.arready),
            may_request.eq(allowed),
            request.eq(may_request & (room > burst.len)),
            planner.o.ready.eq(request),
        ]
        m.d.sync += reserve.eq(request)
        with m.If(free):
            m.d.sync += [
                self.arvalid.eq(any_request),
                address.eq(next_burst.address),
                burst_len.eq(next_burst.len),
            ]

        # Beats go straight into the FIFO, where their room is reserved. It takes none in reset.
        m.d.comb += [
            self.rready.eq(1),
            fifo.i.valid.eq(own_beat),
            fifo.i.payload.eq(self.rdata),
        ]

        m.d.comb += [
            self.beat.eq(self.rvalid),
            self.error.eq(self.rvalid & (self.rresp != RESP_OKAY)),
            self.address.eq(self.arvalid & self.arready),
            self.address_wait.eq(self.arvalid & ~self.arready),
        ]
        # One carry chain: an address adds `arlen` and a carry, which a beat takes away.
        difference = Signal(signed(len(self.arlen) + 1))
        m.d.comb += difference.eq(Mux(self.address, self.arlen, -self.beat))
        m.d.sync += self.outstanding_beats.eq(
            self.outstanding_beats + difference + (self.address & ~self.beat)
        )

        begun = Signal()
        m.d.comb += [
            self.idle.eq(~busy & ~self.arvalid & all_returned),
            self.image_idle.eq(~planner.busy & ~own_address & all_free),
            self.active.eq(own_address | ~all_free | (begun & planner.busy)),
        ]
        m.d.sync += begun.eq(self.active)
        return m

    def _add_mask(self, m, draining, drained, may_request):
        """Add the stream of the mask: its planner, its FIFO and the counting of the beats.

        `may_request` is high when a request may be made at all. A request is offered from a
        flip-flop, so that the choice between the streams is not at the end of a comparison.
        """
        config = self.config
        longest = min(MASK_BURST, config.max_burst)
        room_beats = 2 * MASK_BURST
        m.submodules.mask_planner = planner = BurstPlanner(config.bus_bits, BEATS_BITS, longest)
        m.submodules.mask_fifo = fifo = ResetInserter(draining)(
            StreamFIFO(config.bus_bits, room_beats, has_room=True)
        )
        m.d.comb += [
            planner.clear.eq(draining),
            planner.command.payload.eq(self.mask_command.payload),
            planner.command.valid.eq(self.mask_command.valid & ~draining),
            self.mask_command.ready.eq(self.abort | (planner.command.ready & ~draining)),
        ]

        offer = Signal()
        request = Signal()
        addressed = Signal()  # the request on AR is the mask's
        under_way = Signal()
        room = Signal(range(room_beats + 1), init=room_beats)
        reserve = Signal()
        taken = Signal()
        length = Signal(len(room))
        m.d.comb += [
            request.eq(offer & may_request),
            planner.o.ready.eq(request),
            taken.eq(self.mask_o.valid & self.mask_o.ready),
            length.eq(self.arlen),
        ]
        m.d.sync += [
            offer.eq(
                planner.o.valid
                & (room > planner.o.payload.len)
                & ~(under_way | request | self.abort | draining)
            ),
            reserve.eq(request),
            room.eq(room + Mux(reserve, ~length, 0) + taken),
        ]
        with m.If(draining & drained):
            m.d.sync += room.eq(room_beats)
        with m.If(~self.arvalid | self.arready):
            m.d.sync += addressed.eq(request)

        # When its address is accepted all beats that have not come are before those of the mask.
        counting = Signal()
        expected = Signal()  # the next beat is the mask's
        ahead = Signal.like(self.outstanding_beats, reset_less=True)
        left = Signal(range(MASK_BURST), reset_less=True)  # beats of the mask after the next one
        with m.If(request):
            m.d.sync += under_way.eq(1)
        with m.If(self.address & addressed):
            m.d.sync += [
                counting.eq(1),
                expected.eq(self.outstanding_beats == self.beat),
                ahead.eq(self.outstanding_beats - self.beat),
                left.eq(self.arlen),
            ]
        with m.Elif(self.beat & expected):
            m.d.sync += left.eq(left - 1)
            with m.If(left == 0):
                m.d.sync += [under_way.eq(0), counting.eq(0), expected.eq(0)]
        with m.Elif(self.beat):
            m.d.sync += [ahead.eq(ahead - 1), expected.eq(counting & (ahead == 1))]

        m.d.comb += [
            fifo.i.valid.eq(self.rvalid & expected),
            fifo.i.payload.eq(self.rdata),
        ]
        wiring.connect(m, fifo.o, wiring.flipped(self.mask_o))
        return _MaskSignals(
            offer, request, planner.o.payload, addressed, expected, planner.busy, room[-1]
        )
