"""Cuts a segment of memory into AXI bursts."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes import KEPT
from hw.axi import ADDRESS_BITS, BOUNDARY_BITS, bus_size
from hw.trees import is_less


def segment_layout(beats_bits: int) -> data.StructLayout:
    """A run of bus beats in memory: byte `address`, aligned to the bus, and `beats` >= 1."""
    return data.StructLayout({"address": ADDRESS_BITS, "beats": beats_bits})


BURST_LAYOUT = data.StructLayout({"address": ADDRESS_BITS, "len": 8})
"""A burst: its byte address and its beats minus one, as AxLEN has it."""


class BurstPlanner(wiring.Component):
    """Plans the bursts of segments: as long as `max_burst` allows, never across 4 KiB.

    The arithmetic takes two clocks a burst: the first finds how far the burst may reach and whether
    the segment ends with it, the second moves on. A burst every two clocks, one clock more at the
    start of a segment. `command.ready` and `o` come from flip-flops.

    Parameters
    ----------
    bus_bits : int
        Width of the bus.
    beats_bits : int
        Width of a segment's beat count.
    max_burst : int
        Most beats of a burst, 1..256 and at most 4 KiB.

    Members
    -------
    command : In
        Stream of segments, `segment_layout(beats_bits)`.
    o : Out
        Stream of bursts, `BURST_LAYOUT`, in the order of the addresses.
    clear : In
        Drops the segment at work and the burst that waits; `command` must not transfer meanwhile.
    busy : Out
        A segment is at work or a burst waits.
    """

    def __init__(self, bus_bits: int, beats_bits: int, max_burst: int):
        self.size = bus_size(bus_bits)
        self.page_bits = BOUNDARY_BITS - self.size
        if not 1 <= max_burst <= min(256, 1 << self.page_bits):
            raise ValueError(
                f"max_burst must be in 1..{min(256, 1 << self.page_bits)}, got {max_burst}"
            )
        self.beats_bits = beats_bits
        self.max_burst = max_burst
        super().__init__(
            {
                "command": In(stream.Signature(segment_layout(beats_bits))),
                "o": Out(stream.Signature(BURST_LAYOUT)),
                "clear": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        longest = self.max_burst - 1
        reach_bits = max(1, longest.bit_length())

        working = Signal()
        reached = Signal()  # the second clock of a burst
        # In beats; the carry into its upper part, the page, comes a clock late, which is in time.
        # Whether it goes on into the upper half of that is known before.
        position = Signal(ADDRESS_BITS - self.size, reset_less=True)
        offset = position[: self.page_bits]
        page = position[self.page_bits :]
        page_low, page_high = page[: len(page) // 2], page[len(page) // 2 :]
        page_low_full = Signal(reset_less=True)
        m.d.sync += page_low_full.eq(page_low.all())
        next_page = Signal()
        left = Signal(self.beats_bits, reset_less=True)  # of the segment, minus one
        m.d.comb += [
            self.command.ready.eq(~working),
            self.busy.eq(working | self.o.valid),
        ]

        # First clock. Beats to the 4 KiB boundary minus one are the complement of the position. The
        # segment ends with the burst if it is not longer than one and does not cross that.
        reach = Signal(reach_bits, reset_less=True)  # beats minus one
        tail = Signal(reach_bits, reset_less=True)  # likewise, if it is the last burst
        near, crosses = Signal(reset_less=True), Signal(reset_less=True)
        room = Signal(self.page_bits)
        next_reach = Signal(reach_bits)
        m.d.comb += [
            room.eq(~offset),
            next_reach.eq(Mux(room < longest, room, longest) if longest else 0),
        ]
        left_low = left[:reach_bits]
        # Of all bits set, tools would warn that the comparison is constant.
        fits = left_low <= longest if longest + 1 < 1 << reach_bits else Const(1)
        m.d.sync += [
            reach.eq(next_reach),
            tail.eq(left),
            near.eq(~left[reach_bits:].any() & fits),
            crosses.eq(is_less(room, left_low)),
        ]

        # Second clock. Minus the beats of the burst is the complement of `reach`, which is there
        # twice: nothing is before the carry chain.
        minus_burst = Signal(signed(reach_bits + 1))
        complement = Signal(reach_bits, init=-1, reset_less=True)
        m.d.sync += complement.eq(~next_reach)
        m.d.comb += minus_burst.eq(Cat(complement, Const(1, 1)))
        last = Signal()
        step = Signal()
        burst = Signal(BURST_LAYOUT, reset_less=True)
        m.d.comb += [
            last.eq(near & ~crosses),
            self.o.payload.eq(burst),
        ]
        with m.If(next_page):
            m.d.sync += [
                page_low.eq(page_low + 1),
                page_high.eq(page_high + page_low_full),
                next_page.eq(0),
            ]
        # The data path moves whenever it may, valid or not: its enables, which reach far, come from
        # a few flip-flops.
        with m.If(~working):
            m.d.sync += [
                working.eq(self.command.valid),
                position.eq(self.command.payload.address[self.size :]),
                left.eq(self.command.payload.beats - 1),
            ]
        with m.Elif(reached & ~self.o.valid):
            m.d.comb += step.eq(1)
            m.d.sync += [
                Cat(offset, next_page).eq(offset + reach + 1),
                left.eq(left + minus_burst),
                working.eq(~last),
            ]
        # `o.ready` comes late: without it this is so.
        valid_after = Signal(attrs=KEPT)
        m.d.comb += valid_after.eq((step | self.o.valid) & ~self.clear)
        m.d.sync += [
            reached.eq(working & ~step),
            self.o.valid.eq(valid_after & ~(self.o.valid & self.o.ready)),
        ]
        with m.If(~self.o.valid):
            m.d.sync += [
                burst.address.eq(position << self.size),
                burst.len.eq(Mux(last, tail, reach)),
            ]
        with m.If(self.clear):
            m.d.sync += [working.eq(0), reached.eq(0)]
        return m
