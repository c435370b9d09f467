"""The headers of tiles: beats in which the sections of row terms and of scales may meet."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import TERM_BITS, HeadConfig


def term_names(config: HeadConfig) -> list[str]:
    """The row terms of the image, in their order."""
    return ["bias"] * config.bias + ["bound"] * config.bound


def scale_word_bits(config: HeadConfig) -> int:
    """Bits of the scales that the farm takes at once."""
    return config.lane_units * config.scale_bits


def words_per_beat(config: HeadConfig) -> int:
    """Scale words in a full header beat; 0 where a word takes more than one beat."""
    return config.bus_bits // scale_word_bits(config)


def values_per_beat(config: HeadConfig) -> int:
    """Values of a row term in a full header beat."""
    return config.bus_bits // TERM_BITS


def scales_begin_anywhere(config: HeadConfig) -> bool:
    """Scales may begin in the middle of a beat, behind row terms."""
    return config.terms * config.units % values_per_beat(config) != 0


class TermBeat(data.StructLayout):
    """A header beat whose values number `first` to `last` belong to a row term."""

    def __init__(self, config: HeadConfig):
        values = range(values_per_beat(config))
        super().__init__({"data": unsigned(config.bus_bits), "first": values, "last": values})


class ScaleBeat(data.StructLayout):
    """A header beat whose words number `first` to `words` are scale words.

    `first` is absent where it is always 0, `words` where a scale word fills at least one beat.
    """

    def __init__(self, config: HeadConfig):
        members = {"data": unsigned(config.bus_bits)}
        if words_per_beat(config) > 1:
            members["words"] = range(words_per_beat(config))
            if scales_begin_anywhere(config):
                members["first"] = range(words_per_beat(config))
        super().__init__(members)


class HeaderBeat(data.StructLayout):
    """A header beat with what each section has in it.

    Members: `data`; `words` and `first` as in `ScaleBeat`; and, where there are row terms,
    `scales`, which says that there are scale words, and for each term of `term_names` a structure
    of `part`, which says that there are values, and of `first` and `last` as in `TermBeat`.
    """

    def __init__(self, config: HeadConfig):
        members = {name: field.shape for name, field in ScaleBeat(config)}
        if config.terms:
            members["scales"] = 1
        values = range(values_per_beat(config))
        for name in term_names(config):
            members[name] = data.StructLayout({"part": 1, "first": values, "last": values})
        super().__init__(members)


class HeaderFork(wiring.Component):
    """Gives each header beat to those who have a part in it, to each as soon as it is ready.

    A beat is taken from `i` when the last of them takes it. Without row terms it is wired through.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    i : In(stream of HeaderBeat)
    scales : Out(stream of ScaleBeat)
    bias0, ..., bound0, ... : Out(stream of TermBeat)
        The row terms that there are, for each ranker.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        members = {
            "i": In(stream.Signature(HeaderBeat(config))),
            "scales": Out(stream.Signature(ScaleBeat(config))),
        }
        for name in term_names(config):
            for ranker in range(config.rankers):
                members[f"{name}{ranker}"] = Out(stream.Signature(TermBeat(config)))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beat = self.i.payload
        for name, _ in ScaleBeat(config):
            m.d.comb += self.scales.payload[name].eq(beat[name])
        if not config.terms:
            m.d.comb += [self.scales.valid.eq(self.i.valid), self.i.ready.eq(self.scales.ready)]
            return m

        takers = [(self.scales, beat.scales)]
        for name in term_names(config):
            for ranker in range(config.rankers):
                output = getattr(self, f"{name}{ranker}")
                m.d.comb += [
                    output.payload.data.eq(beat.data),
                    output.payload.first.eq(beat[name].first),
                    output.payload.last.eq(beat[name].last),
                ]
                takers.append((output, beat[name].part))
        served = Signal(len(takers))
        taken = Signal(len(takers))
        for index, (output, part) in enumerate(takers):
            m.d.comb += [
                output.valid.eq(self.i.valid & part & ~taken[index]),
                served[index].eq(~part | taken[index] | output.ready),
            ]
        m.d.comb += self.i.ready.eq(served.all())
        with m.If(self.i.valid):
            m.d.sync += taken.eq(served)
            with m.If(self.i.ready):
                m.d.sync += taken.eq(0)
        return m
