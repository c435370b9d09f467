"""The buffer between the headers of the image and the scale multipliers."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig, ceil_div
from hw.converter import WidthConverter
from hw.early_ready import EarlyReady
from hw.fifo import StreamFIFO
from hw.header import ScaleBeat, scale_word_bits, scales_begin_anywhere, words_per_beat

IN_FLIGHT_BEATS = 32
"""Body beats that the pipeline between unpacker and scale multipliers can hold, rounded up."""

BEATS_AHEAD = 4
"""Beats that come until it is told that the level is high, the one that makes it so included."""


def most_scale_beats(config: HeadConfig) -> int:
    """Beats of a header that scales may lie in."""
    scales = config.tile_rows * config.groups(config.max_dim)
    beats = ceil_div(scales * config.scale_bits, config.bus_bits)
    return beats + scales_begin_anywhere(config)


class ScaleBuffer(wiring.Component):
    """Queues header beats and hands out the scales of `lane_units` rows at a time.

    The image stores the scales in the order in which the farm needs them, so a queue does it. It
    holds the scales of a largest header and all those that the beats in flight still need: the
    header of tile t + 1 neither waits for tile t nor overwrites it.

    A word is there at most 6 clocks after its beat was taken on `i`.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    i : In(EarlyReady of ScaleBeat)
    o : Out(EarlyReady)
        `lane_units` scales, the lowest row first.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "i": In(EarlyReady(ScaleBeat(config))),
                "o": Out(EarlyReady(unsigned(scale_word_bits(config)))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beats = most_scale_beats(config) + config.body_fifo_beats + IN_FLIGHT_BEATS
        word_bits = scale_word_bits(config)
        cuts = words_per_beat(config) > 1
        with_first = cuts and scales_begin_anywhere(config)
        # `ready` enables RAMs that lie far apart, so it is told a clock ahead; a converter with
        # `with_first` cannot be told.
        tells_ready = cuts and not with_first
        m.submodules.converter = converter = WidthConverter(
            config.bus_bits, word_bits, with_first=with_first, tells_ready=tells_ready
        )
        if tells_ready:
            m.d.comb += converter.ready_next.eq(self.o.ready_next)
        if cuts:
            m.submodules.queue = queue = StreamFIFO(
                self.i.payload.shape().size, beats + BEATS_AHEAD, has_room=True
            )
            # A beat takes a clock for its way to the RAMs, which lie far apart.
            beat = Signal(len(queue.i.payload), reset_less=True)
            valid = Signal()
            m.d.comb += [
                queue.i.payload.eq(beat),
                queue.i.valid.eq(valid),
                converter.i.payload.as_value().eq(queue.o.payload),
                converter.i.valid.eq(queue.o.valid),
                queue.o.ready.eq(converter.i.ready),
            ]
            m.d.sync += [valid.eq(self.i.valid), beat.eq(self.i.payload.as_value())]
            words = converter.o
            room = queue.level <= beats
        else:
            # Joined before they are queued: a folded farm takes words in consecutive clocks.
            depth = ceil_div(beats * config.bus_bits, word_bits)
            m.submodules.queue = queue = StreamFIFO(word_bits, depth + BEATS_AHEAD, has_room=True)
            m.d.comb += [
                converter.i.payload.eq(self.i.payload.data),
                converter.i.valid.eq(self.i.valid),
            ]
            wiring.connect(m, converter.o, queue.i)
            words = queue.o
            room = queue.level <= depth
        m.d.sync += [self.i.ready_next.eq(room), words.ready.eq(self.o.ready_next)]
        m.d.comb += [
            self.o.payload.eq(words.payload),
            self.o.valid.eq(words.valid & words.ready),
        ]
        return m
