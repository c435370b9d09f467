"""The on-chip copy of the hidden state."""

from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig, ceil_div, log2
from hw.converter import WidthConverter
from hw.plan import hidden_beats
from hw.ram import BlockRAM


def slice_bits(config: HeadConfig) -> int:
    """Bits of the hidden values that are multiplied at once."""
    return config.lane_width * config.hidden_bits


def slices(config: HeadConfig) -> int:
    """Slices that the memory holds: those of the largest hidden state, in whole beats."""
    return ceil_div(hidden_beats(config, config.max_dim) * config.bus_bits, slice_bits(config))


class HiddenMemory(wiring.Component):
    """Takes the hidden state from the bus and serves one slice of `lane_width` values a clock.

    Throughput of loading: one slice or one beat a clock, whichever is longer. A slice is read
    `LATENCY` clocks after its address.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    restart : In
        One clock: the next beats on `i` are a new hidden state; `loaded` falls.
    beats : In
        Beats of the hidden state, stable from two clocks after `restart`.
    i : In(stream)
        Bus beats of the hidden state.
    loaded : Out
        The whole state has been written.
    address : In
        Slice to read.
    slice : Out(ArrayLayout)
        Signed values of the slice at `address`.
    """

    LATENCY = BlockRAM.LATENCY

    def __init__(self, config: HeadConfig):
        self.config = config
        self.slice_bits = slice_bits(config)
        self.slices = slices(config)
        super().__init__(
            {
                "restart": In(1),
                "beats": In(range(hidden_beats(config, config.max_dim) + 1)),
                "i": In(stream.Signature(unsigned(config.bus_bits))),
                "loaded": Out(1),
                "address": In(range(max(2, self.slices))),
                "slice": Out(data.ArrayLayout(signed(config.hidden_bits), config.lane_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.converter = converter = WidthConverter(config.bus_bits, self.slice_bits)
        m.submodules.ram = ram = BlockRAM(self.slice_bits, self.slices)

        m.d.comb += [
            converter.i.valid.eq(self.i.valid),
            self.i.ready.eq(converter.i.ready),
            ram.write_data.eq(converter.o.payload),
            ram.write_enable.eq(converter.o.valid),
            converter.o.ready.eq(1),
            ram.read_address.eq(self.address),
            self.slice.as_value().eq(ram.read_data),
        ]
        if config.bus_bits > self.slice_bits:
            # Every word of a beat is written; those behind the padded state are never read.
            per_beat = config.bus_bits // self.slice_bits
            m.d.comb += [
                converter.i.payload.data.eq(self.i.payload),
                converter.i.payload.words.eq(per_beat - 1),
            ]
            expected = Signal(range(self.slices + 1))
            m.d.comb += expected.eq(self.beats * per_beat)
        else:
            per_slice = self.slice_bits // config.bus_bits
            m.d.comb += converter.i.payload.eq(self.i.payload)
            expected = Signal(range(self.slices + 1))
            m.d.comb += expected.eq(self.beats >> log2(per_slice))

        written = Signal(range(self.slices + 1))
        m.d.comb += ram.write_address.eq(written)
        with m.If(converter.o.valid):
            m.d.sync += written.eq(written + 1)
            with m.If(written + 1 == expected):
                m.d.sync += self.loaded.eq(1)
        with m.If(self.restart):
            m.d.sync += [written.eq(0), self.loaded.eq(0)]
        return m
