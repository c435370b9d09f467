"""Takes the stream of the reader apart: hidden states, headers and bodies of tiles."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import TERM_BITS, HeadConfig, log2
from hw.header import (
    HeaderBeat,
    scale_word_bits,
    term_names,
    values_per_beat,
    words_per_beat,
)
from hw.parameters import parameter_beats
from hw.plan import PlanLayout, state_beats


class Unpacker(wiring.Component):
    """Routes each beat of a channel to the block that wants it, without storing any.

    Order on `i`: on channel 0 for each vector its hidden state and its parameters; then per tile
    of the channel its header and its body. After the last tile every further beat is swallowed and
    `excess` rises.

    Parameters
    ----------
    config : HeadConfig
    channel : int

    Members
    -------
    start : In
        One clock, before the first beat; `state_beats` and `row_beats` of `plan` are right.
    vectors : In
        Hidden vectors of the job, stable from `start`.
    plan : In(PlanLayout)
        Of this channel.
    plan_ready : In
        Stops the stream at the first header until the plan is complete.
    i : In(stream)
        Bus beats.
    hidden, parameters : Out(stream)
        Bus beats. Only on channel 0, the parameters if there are any.
    header : Out(stream of HeaderBeat)
    body : Out(stream)
        Bus beats.
    done : Out
        The last beat of the last tile has been passed on, or the channel has no tile; high until
        `start`.
    excess : Out
        A beat came after that; high until `start`.
    """

    def __init__(self, config: HeadConfig, channel: int = 0):
        self.config = config
        self.channel = channel
        self.with_parameters = channel == 0 and config.has_parameters
        bus = stream.Signature(unsigned(config.bus_bits))
        members = {
            "start": In(1),
            "vectors": In(range(config.batch + 1)),
            "plan": In(PlanLayout(config)),
            "plan_ready": In(1),
            "i": In(bus),
            "header": Out(stream.Signature(HeaderBeat(config))),
            "body": Out(bus),
            "done": Out(1),
            "excess": Out(1),
        }
        if channel == 0:
            members["hidden"] = Out(bus)
        if self.with_parameters:
            members["parameters"] = Out(bus)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        plan = self.plan
        per_beat = max(1, words_per_beat(config))
        transfer = Signal()
        m.d.comb += [
            transfer.eq(self.i.valid & self.i.ready),
            self.header.payload.data.eq(self.i.payload),
            self.body.payload.eq(self.i.payload),
        ]

        tiles_left = Signal.like(plan.tiles)
        blocks_left = Signal.like(plan.full_blocks)
        slices_left = Signal.like(plan.row_beats)
        # Words of the header still to come; where a word takes several beats, beats.
        beats_per_word = max(1, scale_word_bits(config) // config.bus_bits)
        word_limit = 2 ** len(plan.full_words) * beats_per_word
        # At least wide enough for the comparison below not to be a constant.
        words_left = Signal(range(max(word_limit, 2 * per_beat + 2)))
        header_last = Signal()
        if per_beat > 1:
            words = self.header.payload.words
            m.d.comb += words.eq(Mux(header_last, words_left - 1, per_beat - 1))
        load_terms, next_terms = self._terms(m)
        # What ends with a beat is known from flip-flops. Those of the plan and of the tiles are a
        # clock late: there is a clock between a plan and its use, and a tile takes two or more.
        one_slice, one_full_block, one_last_block = Signal(), Signal(), Signal()
        one_full_beat, one_last_beat = Signal(), Signal()  # of a header
        slices_last, blocks_last = Signal(), Signal()
        tiles_last, tiles_next_last = Signal(), Signal()
        m.d.sync += [
            one_slice.eq(plan.row_beats == 1),
            one_full_block.eq(plan.full_blocks == 1),
            one_last_block.eq(plan.last_blocks == 1),
            one_full_beat.eq(plan.full_words * beats_per_word <= per_beat),
            one_last_beat.eq(plan.last_words * beats_per_word <= per_beat),
            tiles_last.eq(tiles_left == 1),
            tiles_next_last.eq(tiles_left == 2),
        ]
        # A section's counters are loaded in every clock of the one before, and not at its end: that
        # is known late. The blocks of a tile are known with its header.
        tile_blocks = Signal.like(blocks_left)
        tile_block_last = Signal()
        state_left = Signal(range(state_beats(config, config.max_dim) + 1))
        vectors_left = Signal(range(config.batch + 1))

        def load_tile(last):
            header_words = Mux(last, plan.last_words, plan.full_words)
            blocks = Mux(last, plan.last_blocks, plan.full_blocks)
            return [
                words_left.eq(header_words * beats_per_word),
                header_last.eq(Mux(last, one_last_beat, one_full_beat)),
                tile_blocks.eq(blocks),
                tile_block_last.eq(Mux(last, one_last_block, one_full_block)),
            ]

        def load_body():
            return [
                blocks_left.eq(tile_blocks),
                blocks_last.eq(tile_block_last),
                slices_left.eq(plan.row_beats),
                slices_last.eq(one_slice),
            ]

        def load_first():
            last = plan.tiles == 1
            return [
                tiles_left.eq(plan.tiles),
                load_tile(last),
                load_terms(Mux(last, plan.last_blocks, plan.full_blocks)),
            ]

        # `ready` reaches far: who takes what comes is known from flip-flops, one for each state.
        takers = {"DONE": Const(1), "HEADER": self.header.ready, "BODY": self.body.ready}
        if self.channel == 0:
            takers["HIDDEN"] = self.hidden.ready
        if self.with_parameters:
            takers["PARAMETERS"] = self.parameters.ready
        turns = {
            state: Signal(init=state == "DONE", name=f"turn_{state.lower()}") for state in takers
        }
        m.d.comb += self.i.ready.eq(Cat(turns[state] & takers[state] for state in takers).any())

        def enter(state):
            m.next = state
            m.d.sync += [turn.eq(each == state) for each, turn in turns.items()]

        # A clock late, when the first tile has been loaded from the complete plan.
        planned = Signal()
        m.d.sync += planned.eq(self.plan_ready)
        with m.FSM(name="section"):
            with m.State("DONE"):
                with m.If(transfer):
                    m.d.sync += self.excess.eq(1)
                with m.If(self.start):
                    m.d.sync += [self.done.eq(0), self.excess.eq(0)]
                    enter("PLAN")
                    if self.channel == 0:
                        m.d.sync += state_left.eq(plan.state_beats)
                        if config.batch > 1:
                            m.d.sync += vectors_left.eq(self.vectors)
                        enter("HIDDEN")
            if self.channel == 0:
                self._unpack_hidden(
                    m, enter, transfer, load_first, planned, state_left, vectors_left
                )
            with m.State("PLAN"):
                m.d.sync += load_first()
                with m.If(planned):
                    enter("HEADER")
                    if self.channel > 0:
                        with m.If(plan.tiles == 0):
                            m.d.sync += self.done.eq(1)
                            enter("DONE")
            with m.State("HEADER"):
                m.d.sync += load_body()
                m.d.comb += self.header.valid.eq(self.i.valid)
                with m.If(transfer):
                    m.d.sync += [
                        words_left.eq(words_left - per_beat),
                        header_last.eq(words_left <= 2 * per_beat),
                        next_terms,
                    ]
                    with m.If(header_last):
                        enter("BODY")
            with m.State("BODY"):
                m.d.sync += load_tile(tiles_next_last)
                m.d.comb += self.body.valid.eq(self.i.valid)
                with m.If(transfer):
                    m.d.sync += [slices_left.eq(slices_left - 1), slices_last.eq(slices_left == 2)]
                    with m.If(slices_last):
                        m.d.sync += [
                            slices_left.eq(plan.row_beats),
                            slices_last.eq(one_slice),
                            blocks_left.eq(blocks_left - 1),
                            blocks_last.eq(blocks_left == 2),
                        ]
                        with m.If(blocks_last):
                            next_blocks = Mux(tiles_next_last, plan.last_blocks, plan.full_blocks)
                            m.d.sync += [tiles_left.eq(tiles_left - 1), load_terms(next_blocks)]
                            enter("HEADER")
                            with m.If(tiles_last):
                                m.d.sync += self.done.eq(1)
                                enter("DONE")
        return m

    def _unpack_hidden(self, m, enter, transfer, load_first, planned, state_left, vectors_left):
        """States HIDDEN and PARAMETERS: for each vector its state and its parameters."""
        config = self.config
        m.d.comb += self.hidden.payload.eq(self.i.payload)

        def begin_image():
            enter("PLAN")
            with m.If(planned):
                enter("HEADER")

        def end_vector():
            if config.batch == 1:
                begin_image()
                return
            m.d.sync += [state_left.eq(self.plan.state_beats), vectors_left.eq(vectors_left - 1)]
            enter("HIDDEN")
            with m.If(vectors_left == 1):
                begin_image()

        with m.State("HIDDEN"):
            m.d.comb += self.hidden.valid.eq(self.i.valid)
            m.d.sync += load_first()
            with m.If(transfer):
                m.d.sync += state_left.eq(state_left - 1)
                with m.If(state_left == 1):
                    if self.with_parameters:
                        enter("PARAMETERS")
                    else:
                        end_vector()
        if not self.with_parameters:
            return
        beats = parameter_beats(config)
        beat = Signal(range(max(2, beats)))
        m.d.comb += self.parameters.payload.eq(self.i.payload)
        with m.State("PARAMETERS"):
            m.d.comb += self.parameters.valid.eq(self.i.valid)
            m.d.sync += load_first()
            with m.If(transfer):
                m.d.sync += beat.eq(beat + 1)
                with m.If(beat == beats - 1):
                    m.d.sync += beat.eq(0)
                    end_vector()

    def _terms(self, m):
        """Where the sections of a header begin and end, counted in values from the current beat.

        Returns a function from the blocks of a tile to the statements that load the counters at
        its first beat, and the statements that take them to the next beat.
        """
        config = self.config
        if not config.terms:
            return lambda blocks: [], []
        per_beat = values_per_beat(config)
        payload = self.header.payload
        ends = [
            Signal(range(config.terms * config.tile_rows + 1), name=f"{name}_end")
            for name in term_names(config)
        ]
        # Whether a section has a part in the beat comes from a flip-flop: `ready` depends on it.
        parts = [Signal(name=f"{name}_part") for name in (*term_names(config), "scales")]
        m.d.comb += payload.scales.eq(parts[-1])
        for term, name in enumerate(term_names(config)):
            section = payload[name]
            last = Mux(ends[term] > per_beat, per_beat - 1, ends[term] - 1)
            m.d.comb += [section.part.eq(parts[term]), section.last.eq(last)]
            if term:
                m.d.comb += section.first.eq(ends[term - 1])
        if "first" in dict(payload.shape()):
            m.d.comb += payload.first.eq(ends[-1] * TERM_BITS >> log2(scale_word_bits(config)))

        def load(blocks):
            rows = blocks << log2(config.units)
            return [
                *(end.eq(rows * (term + 1)) for term, end in enumerate(ends)),
                *(part.eq(rows * term < per_beat) for term, part in enumerate(parts)),
            ]

        begins = [0, *ends]
        to_next = [end.eq(Mux(end > per_beat, end - per_beat, 0)) for end in ends]
        for begin, end, part in zip(begins, ends, parts, strict=False):
            to_next.append(part.eq((begin < 2 * per_beat) & (end > per_beat)))
        to_next.append(parts[-1].eq(ends[-1] < 2 * per_beat))
        return load, to_next
