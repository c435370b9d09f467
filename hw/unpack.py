"""Takes the stream of the reader apart: hidden state, headers and bodies of tiles."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig
from hw.plan import PlanLayout, hidden_beats
from hw.scales import HeaderBeat, words_per_beat


class Unpacker(wiring.Component):
    """Routes each beat of a job to the block that wants it, without storing any.

    Order on `i`: the hidden state, then per tile its header and its body. After the last tile
    every further beat is swallowed and `excess` rises.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    start : In
        One clock, before the first beat; `hidden_beats` and `row_beats` of `plan` are right.
    plan : In(PlanLayout)
    plan_ready : In
        Stops the stream at the first header until the plan is complete.
    i : In(stream)
        Bus beats.
    hidden, body : Out(stream)
        Bus beats.
    header : Out(stream of HeaderBeat)
    done : Out
        The last beat of the last tile has been passed on; high until `start`.
    excess : Out
        A beat came after that; high until `start`.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        bus = stream.Signature(unsigned(config.bus_bits))
        super().__init__(
            {
                "start": In(1),
                "plan": In(PlanLayout(config)),
                "plan_ready": In(1),
                "i": In(bus),
                "hidden": Out(bus),
                "header": Out(stream.Signature(HeaderBeat(config))),
                "body": Out(bus),
                "done": Out(1),
                "excess": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        plan = self.plan
        per_beat = max(1, words_per_beat(config))
        transfer = self.i.valid & self.i.ready

        m.d.comb += [
            self.hidden.payload.eq(self.i.payload),
            self.header.payload.data.eq(self.i.payload),
            self.body.payload.eq(self.i.payload),
        ]

        tiles_left = Signal.like(plan.tiles)
        blocks_left = Signal.like(plan.full_blocks)
        slices_left = Signal.like(plan.row_beats)
        hidden_left = Signal(range(hidden_beats(config, config.max_dim) + 1))
        # Scale words still to come; where a word takes several beats, beats still to come.
        beats_per_word = max(1, config.lane_units * config.scale_bits // config.bus_bits)
        word_limit = 2 ** len(plan.full_words) * beats_per_word
        # At least wide enough for the comparison below not to be a constant.
        words_left = Signal(range(max(word_limit, per_beat + 2)))
        header_last = Signal()
        m.d.comb += header_last.eq(words_left <= per_beat)
        if per_beat > 1:
            words = self.header.payload.words
            m.d.comb += words.eq(Mux(header_last, words_left - 1, per_beat - 1))

        def load_tile(last):
            header_words = Mux(last, plan.last_words, plan.full_words)
            return [
                words_left.eq(header_words * beats_per_word),
                blocks_left.eq(Mux(last, plan.last_blocks, plan.full_blocks)),
                slices_left.eq(plan.row_beats),
            ]

        # A clock late, when the first tile has been loaded from the complete plan.
        planned = Signal()
        m.d.sync += planned.eq(self.plan_ready)

        with m.FSM(name="section"):
            with m.State("DONE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(transfer):
                    m.d.sync += self.excess.eq(1)
                with m.If(self.start):
                    m.d.sync += [
                        self.done.eq(0),
                        self.excess.eq(0),
                        hidden_left.eq(plan.hidden_beats),
                    ]
                    m.next = "HIDDEN"
            with m.State("HIDDEN"):
                m.d.comb += [self.hidden.valid.eq(self.i.valid), self.i.ready.eq(self.hidden.ready)]
                m.d.sync += [tiles_left.eq(plan.tiles), load_tile(plan.tiles == 1)]
                with m.If(transfer):
                    m.d.sync += hidden_left.eq(hidden_left - 1)
                    with m.If(hidden_left == 1):
                        m.next = "PLAN"
                        with m.If(planned):
                            m.next = "HEADER"
            with m.State("PLAN"):
                m.d.sync += [tiles_left.eq(plan.tiles), load_tile(plan.tiles == 1)]
                with m.If(self.plan_ready):
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.comb += [self.header.valid.eq(self.i.valid), self.i.ready.eq(self.header.ready)]
                with m.If(transfer):
                    m.d.sync += words_left.eq(words_left - per_beat)
                    with m.If(header_last):
                        m.next = "BODY"
            with m.State("BODY"):
                m.d.comb += [self.body.valid.eq(self.i.valid), self.i.ready.eq(self.body.ready)]
                with m.If(transfer):
                    m.d.sync += slices_left.eq(slices_left - 1)
                    with m.If(slices_left == 1):
                        m.d.sync += [
                            slices_left.eq(plan.row_beats),
                            blocks_left.eq(blocks_left - 1),
                        ]
                        with m.If(blocks_left == 1):
                            m.d.sync += [tiles_left.eq(tiles_left - 1), load_tile(tiles_left == 2)]
                            m.next = "HEADER"
                            with m.If(tiles_left == 1):
                                m.d.sync += self.done.eq(1)
                                m.next = "DONE"
        return m
