"""The buffer between the headers of the image and the scale multipliers."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig, ceil_div
from hw.converter import WidthConverter
from hw.fifo import StreamFIFO

IN_FLIGHT_BEATS = 32
"""Body beats that the pipeline between unpacker and scale multipliers can hold, rounded up."""


class HeaderBeat(data.StructLayout):
    """A header beat; `words` is the number of scale words in it minus one.

    The last beat of a header may hold fewer words than fit. `words` is absent where a scale word
    fills at least one beat.
    """

    def __init__(self, config: HeadConfig):
        members = {"data": unsigned(config.bus_bits)}
        if words_per_beat(config) > 1:
            members["words"] = range(words_per_beat(config))
        super().__init__(members)


def scale_word_bits(config: HeadConfig) -> int:
    """Bits of the scales that the farm takes at once."""
    return config.lane_units * config.scale_bits


def words_per_beat(config: HeadConfig) -> int:
    """Scale words in a full header beat; 0 where a word takes more than one beat."""
    return config.bus_bits // scale_word_bits(config)


class ScaleBuffer(wiring.Component):
    """Queues header beats and hands out the scales of `lane_units` rows at a time.

    The image stores the scales in the order in which the farm needs them, so a queue does it. It
    holds a largest header and all the scales that the beats in flight still need: the header of
    tile t + 1 neither waits for tile t nor overwrites it.

    A word is valid on `o` at most 5 clocks after its beat was taken on `i`.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    i : In(stream of HeaderBeat)
    o : Out(stream)
        `lane_units` scales, the lowest row first.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(HeaderBeat(config))),
                "o": Out(stream.Signature(unsigned(scale_word_bits(config)))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beats = config.max_header_beats + config.body_fifo_beats + IN_FLIGHT_BEATS
        word_bits = scale_word_bits(config)
        m.submodules.converter = converter = WidthConverter(config.bus_bits, word_bits)
        if words_per_beat(config) > 1:
            m.submodules.queue = queue = StreamFIFO(self.i.payload.shape().size, beats)
            m.d.comb += [
                queue.i.payload.eq(self.i.payload.as_value()),
                queue.i.valid.eq(self.i.valid),
                self.i.ready.eq(queue.i.ready),
                converter.i.payload.as_value().eq(queue.o.payload),
                converter.i.valid.eq(queue.o.valid),
                queue.o.ready.eq(converter.i.ready),
            ]
            wiring.connect(m, converter.o, wiring.flipped(self.o))
        else:
            # Joined before they are queued: a folded farm takes words in consecutive clocks.
            words = ceil_div(beats * config.bus_bits, word_bits)
            m.submodules.queue = queue = StreamFIFO(word_bits, words)
            m.d.comb += [
                converter.i.payload.eq(self.i.payload.data),
                converter.i.valid.eq(self.i.valid),
                self.i.ready.eq(converter.i.ready),
            ]
            wiring.connect(m, converter.o, queue.i)
            wiring.connect(m, queue.o, wiring.flipped(self.o))
        return m
