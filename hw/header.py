"""The headers of tiles: beats in which the sections of row terms and of scales may meet."""

from amaranth.hdl import Cat, Module, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import TERM_BITS, HeadConfig
from hw.early_ready import EarlyReady


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
    """Gives each header beat to those who have a part in it, when all can take one.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    i : In(EarlyReady of HeaderBeat)
    scales : Out(EarlyReady of ScaleBeat)
    bias0, ..., bound0, ... : Out(EarlyReady of TermBeat)
        The row terms that there are, for each ranker.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        members = {
            "i": In(EarlyReady(HeaderBeat(config))),
            "scales": Out(EarlyReady(ScaleBeat(config))),
        }
        for name in term_names(config):
            for ranker in range(config.rankers):
                members[f"{name}{ranker}"] = Out(EarlyReady(TermBeat(config)))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beat = self.i.payload
        for name, _ in ScaleBeat(config):
            m.d.comb += self.scales.payload[name].eq(beat[name])
        has_scales = beat.scales if config.terms else 1
        m.d.comb += self.scales.valid.eq(self.i.valid & has_scales)
        takers = [self.scales]
        for name in term_names(config):
            for ranker in range(config.rankers):
                output = getattr(self, f"{name}{ranker}")
                m.d.comb += [
                    output.payload.data.eq(beat.data),
                    output.payload.first.eq(beat[name].first),
                    output.payload.last.eq(beat[name].last),
                    output.valid.eq(self.i.valid & beat[name].part),
                ]
                takers.append(output)
        m.d.comb += self.i.ready_next.eq(Cat(taker.ready_next for taker in takers).all())
        return m
