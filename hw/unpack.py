"""Takes the stream of the reader apart: hidden states, headers and bodies of tiles."""

from functools import partial

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes import KEPT
from hw.config import TERM_BITS, HeadConfig, log2
from hw.early_ready import EarlyReady
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
        Bus beats; `ready` comes from a flip-flop.
    hidden, parameters : Out(EarlyReady)
        Bus beats. Only on channel 0, the parameters if there are any.
    header : Out(EarlyReady of HeaderBeat)
    body : Out(EarlyReady)
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
        beats = unsigned(config.bus_bits)
        members = {
            "start": In(1),
            "vectors": In(range(config.batch + 1)),
            "plan": In(PlanLayout(config)),
            "plan_ready": In(1),
            "i": In(stream.Signature(beats)),
            "header": Out(EarlyReady(HeaderBeat(config))),
            "body": Out(EarlyReady(beats)),
            "done": Out(1),
            "excess": Out(1),
        }
        if channel == 0:
            members["hidden"] = Out(EarlyReady(beats))
        if self.with_parameters:
            members["parameters"] = Out(EarlyReady(beats))
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
        if self.channel == 0:
            m.d.comb += self.hidden.payload.eq(self.i.payload)

        tiles_left = Signal.like(plan.tiles)
        blocks_left = Signal.like(plan.full_blocks)
        slices_left = Signal.like(plan.row_beats)
        beats_per_word = max(1, scale_word_bits(config) // config.bus_bits)
        header_left = Signal(range(2 ** len(plan.full_words) * beats_per_word))  # beats
        header_last = Signal()
        last_words = Signal(range(max(2, per_beat)))  # in the last beat, minus one
        if per_beat > 1:
            words = self.header.payload.words
            m.d.comb += words.eq(Mux(header_last, last_words, per_beat - 1))
        load_terms, next_terms = self._terms(m)
        # What ends with a beat is known from flip-flops. Those of the plan and of the tiles are a
        # clock late: there is a clock between a plan and its use, and a tile takes two or more.
        one_slice, one_full_block, one_last_block = Signal(), Signal(), Signal()
        full_header, last_header = (
            self._header(m, plan.full_words),
            self._header(m, plan.last_words),
        )
        slices_last, blocks_last = Signal(), Signal()
        tiles_last, tiles_next_last = Signal(), Signal()
        m.d.sync += [
            one_slice.eq(plan.row_beats == 1),
            one_full_block.eq(plan.full_blocks == 1),
            one_last_block.eq(plan.last_blocks == 1),
            tiles_last.eq(tiles_left == 1),
            tiles_next_last.eq(tiles_left == 2),
        ]
        # A section's counters are loaded in every clock of the one before, and not at its end: that
        # is known late. The blocks of a tile are known with its header.
        tile_blocks = Signal.like(blocks_left)
        tile_block_last = Signal()
        state_left = Signal(range(state_beats(config, config.max_dim) + 1))
        state_last, one_state_beat = Signal(), Signal()
        m.d.sync += one_state_beat.eq(plan.state_beats == 1)
        load_state = [state_left.eq(plan.state_beats), state_last.eq(one_state_beat)]
        vectors_left = Signal(range(config.batch + 1))
        count_vector = [vectors_left.eq(vectors_left - 1)] if config.batch > 1 else []

        def load_tile(last):
            blocks = Mux(last, plan.last_blocks, plan.full_blocks)
            kept = (header_left, header_last, last_words)
            of_header = zip(kept, last_header, full_header, strict=True)
            return [
                *(each.eq(Mux(last, of_last, of_full)) for each, of_last, of_full in of_header),
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

        # `ready` reaches far and comes from a flip-flop: for that it must be known whose turn it is
        # in the next clock, and whether that one will take a beat. Whether a beat comes in this
        # clock is known last and only selects.
        takers = {"HEADER": self.header, "BODY": self.body}
        if self.channel == 0:
            takers["HIDDEN"] = self.hidden
        if self.with_parameters:
            takers["PARAMETERS"] = self.parameters
        states = ("DONE", "PLAN", *takers)
        turns = {
            state: Signal(init=state == "DONE", name=f"turn_{state.lower()}") for state in states
        }
        comes, leaves = ({state: [] for state in states} for _ in range(2))

        def enter(before, after):
            """In state `before`, with the next beat if it takes any: go on with `after`."""
            move = Signal(name=f"{before}_{after}".lower())
            m.d.comb += move.eq(1)
            comes[after].append((before, move))
            leaves[before].append(move)

        # A clock late, when the first tile has been loaded from the complete plan.
        planned = Signal()
        m.d.sync += planned.eq(self.plan_ready)
        with m.If(turns["DONE"]):
            with m.If(transfer):
                m.d.sync += self.excess.eq(1)
            with m.If(self.start):
                m.d.sync += [self.done.eq(0), self.excess.eq(0)]
                enter("DONE", "HIDDEN" if self.channel == 0 else "PLAN")
                if self.channel == 0:
                    m.d.sync += load_state
                    if config.batch > 1:
                        m.d.sync += vectors_left.eq(self.vectors)
        if self.channel == 0:
            end_vector = partial(self._end_vector, m, enter, planned, vectors_left)
            with m.If(turns["HIDDEN"]):
                m.d.sync += load_first()
                with m.If(transfer):
                    m.d.sync += [state_left.eq(state_left - 1), state_last.eq(state_left == 2)]
                    with m.If(state_last):
                        m.d.sync += load_state
                        if not self.with_parameters:
                            m.d.sync += count_vector
                with m.If(state_last):
                    if self.with_parameters:
                        enter("HIDDEN", "PARAMETERS")
                    else:
                        end_vector("HIDDEN")
            if self.with_parameters:
                beats = parameter_beats(config)
                beat = Signal(range(max(2, beats)))
                m.d.comb += self.parameters.payload.eq(self.i.payload)
                with m.If(turns["PARAMETERS"]):
                    m.d.sync += load_first()
                    with m.If(transfer):
                        m.d.sync += beat.eq(beat + 1)
                        with m.If(beat == beats - 1):
                            m.d.sync += [beat.eq(0), *count_vector]
                    with m.If(beat == beats - 1):
                        end_vector("PARAMETERS")
        with m.If(turns["PLAN"]):
            m.d.sync += load_first()
            with m.If(planned):
                with m.If(plan.tiles == 0 if self.channel > 0 else Const(0)):
                    m.d.sync += self.done.eq(1)
                    enter("PLAN", "DONE")
                with m.Else():
                    enter("PLAN", "HEADER")
        with m.If(turns["HEADER"]):
            m.d.sync += load_body()
            with m.If(transfer):
                m.d.sync += [
                    header_left.eq(header_left - 1),
                    header_last.eq(header_left == 2),
                    next_terms,
                ]
            with m.If(header_last):
                enter("HEADER", "BODY")
        with m.If(turns["BODY"]):
            m.d.sync += load_tile(tiles_next_last)
            with m.If(transfer):
                m.d.sync += [slices_left.eq(slices_left - 1), slices_last.eq(slices_left == 2)]
                with m.If(slices_last):
                    m.d.sync += [
                        slices_left.eq(plan.row_beats),
                        slices_last.eq(one_slice),
                        blocks_left.eq(blocks_left - 1),
                        blocks_last.eq(blocks_left == 2),
                    ]
            with m.If(slices_last & blocks_last):
                with m.If(tiles_last):
                    enter("BODY", "DONE")
                with m.Else():
                    enter("BODY", "HEADER")
        tile_last = Signal(attrs=KEPT)
        m.d.comb += tile_last.eq(turns["BODY"] & slices_last & blocks_last)
        with m.If(tile_last & transfer):
            next_blocks = Mux(tiles_next_last, plan.last_blocks, plan.full_blocks)
            m.d.sync += [tiles_left.eq(tiles_left - 1), load_terms(next_blocks)]
            with m.If(tiles_last):
                m.d.sync += self.done.eq(1)

        ready_still, ready_after = Signal(attrs=KEPT), Signal(attrs=KEPT)
        takes_still, takes_after = [], []
        for state in states:
            at_once = [move for before, move in comes[state] if before not in takers]
            stays = turns[state] & ~Cat(leaves[state]).any()
            still, after = (Signal(name=f"{state}_{name}".lower()) for name in ("still", "after"))
            m.d.comb += [
                still.eq(Cat(turns[state] if state in takers else stays, *at_once).any()),
                after.eq(Cat(stays, *(move for _, move in comes[state])).any()),
            ]
            m.d.sync += turns[state].eq(Mux(transfer, after, still))
            if state != "PLAN":
                takes = takers[state].ready_next if state in takers else 1
                takes_still.append(still & takes)
                takes_after.append(after & takes)
        m.d.comb += [
            *(taker.valid.eq(transfer & turns[state]) for state, taker in takers.items()),
            ready_still.eq(Cat(takes_still).any()),
            ready_after.eq(Cat(takes_after).any()),
        ]
        m.d.sync += self.i.ready.eq(Mux(transfer, ready_after, ready_still))
        return m

    def _end_vector(self, m, enter, planned, vectors_left, before):
        """What follows a vector, of which state `before` is the last: another one, or the image."""
        more = Const(0)
        if self.config.batch > 1:
            more = vectors_left != 1
        with m.If(more):
            enter(before, "HIDDEN")
        with m.Elif(planned):
            enter(before, "HEADER")
        with m.Else():
            enter(before, "PLAN")

    def _header(self, m, words):
        """Of a header of `words`, from flip-flops: its beats, that it is a single one, and the
        words of its last beat minus one.
        """
        per_beat = words_per_beat(self.config)
        if per_beat > 1:
            beats = (words + per_beat - 1) >> log2(per_beat)
            last_words = (words - 1)[: log2(per_beat)]
        else:
            beats = words << log2(scale_word_bits(self.config) // self.config.bus_bits)
            last_words = Const(0)
        values = (beats, beats == 1, last_words)
        kept = [Signal.like(value) for value in values]
        m.d.sync += [each.eq(value) for each, value in zip(kept, values, strict=True)]
        return kept

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
        # Whether a section has a part in the beat comes from a flip-flop: it reaches the `valid` of
        # its taker.
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
