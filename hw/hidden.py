"""The on-chip copies of the hidden states."""

from itertools import product

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig, ceil_div, log2
from hw.converter import WidthConverter
from hw.copies import RegisterCopies
from hw.early_ready import EarlyReady
from hw.plan import state_beats
from hw.ram import BlockRAM

PART_BITS = 256
"""Bits of a slice that share an address register: 16 lanes of 16 bits."""


def slice_bits(config: HeadConfig) -> int:
    """Bits of the hidden values that are multiplied at once."""
    return config.lane_width * config.hidden_bits


def loading_clocks(config: HeadConfig) -> int:
    """From the clock in which the last beat of a state is taken to that in which `HiddenWrite` says
    that it is loaded.
    """
    words = config.bus_bits // slice_bits(config)
    # Wide beats are cut a word a clock; others pass a register, and are joined where they are
    # narrower than a slice.
    return words + 1 if words > 1 else 2 + (words == 0)


def slices(config: HeadConfig) -> int:
    """Slices that the memory holds: those of the largest hidden state, in whole beats."""
    return ceil_div(state_beats(config, config.max_dim) * config.bus_bits, slice_bits(config))


def hidden_slices(config: HeadConfig) -> data.ArrayLayout:
    """By vector, a slice of `lane_width` signed values."""
    values = data.ArrayLayout(signed(config.hidden_bits), config.lane_width)
    return data.ArrayLayout(values, config.batch)


class HiddenWrite(data.StructLayout):
    """What the memories of all channels store in a clock.

    Members: `enable` by vector, `address` of the slice, `data`; `loaded`, high when the states of
    all vectors of the job have been written and, for the other channels, when their parameters are
    there, too.
    """

    def __init__(self, config: HeadConfig):
        super().__init__(
            {
                "enable": unsigned(config.batch),
                "address": range(slices(config)),
                "data": unsigned(slice_bits(config)),
                "loaded": 1,
            }
        )


class HiddenLoader(wiring.Component):
    """Cuts the hidden states from the bus into slices of `lane_width` values, and counts them.

    Throughput: one slice or one beat a clock, whichever is longer.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    restart : In
        One clock: the next beats on `i` are the states of a new job; `loaded` falls.
    beats, vectors : In
        Beats of a state and number of states, stable from two clocks after `restart`.
    i : In(EarlyReady)
        Bus beats of the states, one after the other.
    write : Out(HiddenWrite)
        In slices that lie behind a padded state there is anything.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "restart": In(1),
                "beats": In(range(state_beats(config, config.max_dim) + 1)),
                "vectors": In(range(config.batch + 1)),
                "i": In(EarlyReady(unsigned(config.bus_bits))),
                "write": Out(HiddenWrite(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        bits = slice_bits(config)
        m.submodules.converter = converter = WidthConverter(config.bus_bits, bits)
        expected = Signal(range(slices(config) + 1))
        if config.bus_bits > bits:
            per_beat = config.bus_bits // bits
            # A beat is cut in `per_beat` clocks, in which no other is taken.
            cuts = Signal(range(per_beat))
            m.d.comb += [
                converter.i.payload.data.eq(self.i.payload),
                converter.i.payload.words.eq(per_beat - 1),
                converter.i.valid.eq(self.i.valid),
                self.i.ready_next.eq(~self.i.valid & (cuts <= 1)),
                expected.eq(self.beats * per_beat),
            ]
            with m.If(self.i.valid):
                m.d.sync += cuts.eq(per_beat - 1)
            with m.Elif(cuts != 0):
                m.d.sync += cuts.eq(cuts - 1)
        else:
            # Nothing holds a beat up here: it takes a clock for its way.
            beat = Signal(config.bus_bits, reset_less=True)
            valid = Signal()
            m.d.sync += [beat.eq(self.i.payload), valid.eq(self.i.valid & ~self.restart)]
            m.d.comb += [
                converter.i.payload.eq(beat),
                converter.i.valid.eq(valid),
                self.i.ready_next.eq(1),
                expected.eq(self.beats >> log2(bits // config.bus_bits)),
            ]

        written = Signal(range(slices(config) + 1))
        vector = Signal(range(max(2, config.batch)))
        loaded = Signal()
        m.d.comb += [
            converter.o.ready.eq(1),
            self.write.address.eq(written),
            self.write.data.eq(converter.o.payload),
            self.write.loaded.eq(loaded),
        ]
        for number in range(config.batch):
            m.d.comb += self.write.enable[number].eq(converter.o.valid & (vector == number))
        # Whether the next slice is the last of its state is known from a flip-flop.
        last, only = Signal(), Signal()
        end, before_end = Signal.like(expected), Signal.like(expected)
        m.d.sync += [
            end.eq(expected - 1),
            before_end.eq(expected - 2),
            only.eq(end == 0),
            last.eq(written == end),
        ]
        with m.If(converter.o.valid):
            m.d.sync += [written.eq(written + 1), last.eq(Mux(last, only, written == before_end))]
            with m.If(last):
                if config.batch == 1:
                    m.d.sync += loaded.eq(1)
                else:
                    m.d.sync += [written.eq(0), vector.eq(vector + 1)]
                    with m.If(vector + 1 == self.vectors):
                        m.d.sync += loaded.eq(1)
        with m.If(self.restart):
            m.d.sync += [written.eq(0), vector.eq(0), loaded.eq(0), last.eq(only)]
        return m


class HiddenMemory(wiring.Component):
    """Holds the hidden states of a job and serves the same slice of all of them.

    A slice is read `LATENCY` clocks after its address. Vectors that the job does not have are what
    an earlier job left.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    write : In(HiddenWrite)
    address : In
        Slice to read.
    slice : Out(ArrayLayout)
        By vector, the signed values of the slice at `address`.
    """

    LATENCY = RegisterCopies.LATENCY + BlockRAM.LATENCY

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "write": In(HiddenWrite(config)),
                "address": In(range(max(2, slices(config)))),
                "slice": Out(hidden_slices(config)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # The address has many RAMs to reach, which lie as far apart as the lanes: each part has a
        # register of its own.
        bits = min(slice_bits(config), PART_BITS)
        parts = slice_bits(config) // bits
        m.submodules.addresses = addresses = RegisterCopies(len(self.address), parts * config.batch)
        m.d.comb += addresses.i.eq(self.address)
        for vector, part in product(range(config.batch), range(parts)):
            ram = BlockRAM(bits, slices(config))
            name = f"ram{vector}" if config.batch > 1 else "ram"
            m.submodules[f"{name}_{part}" if parts > 1 else name] = ram
            m.d.comb += [
                ram.write_address.eq(self.write.address),
                ram.write_data.eq(self.write.data.word_select(part, bits)),
                ram.write_enable.eq(self.write.enable[vector]),
                ram.read_address.eq(addresses.o[vector * parts + part]),
                self.slice[vector].as_value().word_select(part, bits).eq(ram.read_data),
            ]
        return m
