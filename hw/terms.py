"""Row terms: their values on the way from the headers of the image to the rows they belong to."""

from amaranth.hdl import Const, Module, ResetInserter, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import MULTIPLIER_BITS, TERM_BITS, HeadConfig, ceil_div
from hw.converter import WidthConverter
from hw.early_ready import EarlyReady
from hw.farm import delayed
from hw.fifo import StreamFIFO
from hw.header import TermBeat, term_names
from hw.multiplier import WideMultiplier
from hw.rows import RowLayout
from hw.scales import IN_FLIGHT_BEATS

OUTPUT_ROWS = 16
"""Rows on their way through the multipliers or waiting behind them: a clock each, and some."""


class TermBuffer(wiring.Component):
    """Queues the header beats of a term and hands its values out one at a time.

    It holds the values of two full tiles and those of the blocks that may be under way between
    unpacker and top-k: the header of tile t + 1 neither waits for tile t nor overwrites it.

    Throughput: a value a clock. The first one is valid at most 5 clocks after its beat was taken.

    Parameters
    ----------
    config : HeadConfig
    term : int
        Its place among the terms of a header.

    Members
    -------
    start : In
        One clock, before the first beat of a job: drops what is left.
    i : In(EarlyReady of TermBeat)
    o : Out(stream of signed 16 bits)
        Values in the order of rows, those of padding rows in a last block included.

    Raises
    ------
    ValueError
        The configuration has no such term.
    """

    def __init__(self, config: HeadConfig, term: int):
        if not 0 <= term < config.terms:
            raise ValueError(f"term must be one of the {config.terms} of a header, got {term}")
        self.config = config
        self.term = term
        super().__init__(
            {
                "start": In(1),
                "i": In(EarlyReady(TermBeat(config))),
                "o": Out(stream.Signature(signed(TERM_BITS))),
            }
        )

    @property
    def beats(self) -> int:
        """Capacity. A tile's values may begin and end within a beat, unless they come first."""
        config = self.config
        tile_beats = ceil_div(config.tile_rows * TERM_BITS, config.bus_bits) + self.term
        blocks = config.body_fifo_beats + IN_FLIGHT_BEATS + config.row_queue_blocks
        return tile_beats * (2 + blocks // config.tile_blocks)

    def elaborate(self, platform):
        m = Module()
        # The first term begins with the header.
        names = {"data": "data", "last": "words"}
        if self.term:
            names["first"] = "first"
        converter = WidthConverter(self.config.bus_bits, TERM_BITS, with_first="first" in names)
        kept = converter.i.payload.shape()
        # The last two beats that fit are not told a clock ahead.
        queue = StreamFIFO(kept.size, self.beats + 2, memory="auto", has_room=True)
        m.submodules.queue = ResetInserter(self.start)(queue)
        m.submodules.converter = ResetInserter(self.start)(converter)
        beat = Signal(kept)
        m.d.comb += [beat[new].eq(self.i.payload[old]) for old, new in names.items()]
        m.d.comb += [
            queue.i.valid.eq(self.i.valid),
            queue.i.payload.eq(beat.as_value()),
            self.i.ready_next.eq(queue.ready_next),
            converter.i.valid.eq(queue.o.valid),
            converter.i.payload.as_value().eq(queue.o.payload),
            queue.o.ready.eq(converter.i.ready),
            self.o.valid.eq(converter.o.valid),
            self.o.payload.eq(converter.o.payload),
            converter.o.ready.eq(self.o.ready),
        ]
        return m


class ScoredLayout(data.StructLayout):
    """A row with its terms added.

    Without a bound the rank is the score and has no member of its own; with one, the score is only
    there if something besides the top-k takes it.
    """

    def __init__(self, config: HeadConfig, vectors: int = 1):
        members = {}
        if not config.bound or config.logsumexp or config.all_logits:
            members["score"] = signed(config.score_bits)
        if config.bound:
            members["rank"] = signed(config.rank_bits)
            members["term"] = signed(TERM_BITS)
        members["id"] = unsigned(config.id_bits)
        members["slot"] = range(max(2, vectors))
        if config.mask:
            members["allowed"] = 1
        super().__init__(members)


class RowTerms(wiring.Component):
    """Adds the terms of each row: the bias to its score, the bound to its rank.

    A term is multiplied by the multiplier of the row's slot. All slots of a row take the same
    value of a term.

    Throughput: a row a clock. Latency: 10 clocks at most, where nothing waits.

    Parameters
    ----------
    config : HeadConfig
    ranker : int

    Members
    -------
    i : In(stream of RowLayout)
    bias, bound : In(stream of signed 16 bits)
        A value for each row. Only those that are built.
    bias_multipliers, bound_multipliers : In(ArrayLayout)
        A multiplier for each slot; likewise.
    drop : In
        Values are taken and dropped: there is no vector here that needs them.
    o : Out(stream of ScoredLayout)
    idle : Out
        No row is on its way or waits on `o`.

    Raises
    ------
    ValueError
        The configuration has no terms.
    """

    def __init__(self, config: HeadConfig, ranker: int = 0):
        if not config.terms:
            raise ValueError("a configuration with bias or bound is needed, got none")
        self.config = config
        self.names = term_names(config)
        vectors = config.ranker_vectors(ranker)
        self.vectors = vectors
        members = {
            "i": In(stream.Signature(RowLayout(config, vectors))),
            "drop": In(1),
            "o": Out(stream.Signature(ScoredLayout(config, vectors))),
            "idle": Out(1, init=1),
        }
        for name in self.names:
            members[name] = In(stream.Signature(signed(TERM_BITS)))
            members[f"{name}_multipliers"] = In(
                data.ArrayLayout(unsigned(MULTIPLIER_BITS), vectors)
            )
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        row = self.i.payload
        terms = {name: getattr(self, name) for name in self.names}

        # The pipeline cannot stop, so a row is only taken when there is room for it behind it.
        held = Signal(range(OUTPUT_ROWS + 1))
        room = Signal(init=1)
        take = Signal()
        give = Signal()
        ready = room
        for term in terms.values():
            ready &= term.valid
        m.d.comb += [
            self.i.ready.eq(ready),
            take.eq(self.i.valid & self.i.ready),
            give.eq(self.o.valid & self.o.ready),
        ]
        with m.If(take & ~give):
            m.d.sync += [held.eq(held + 1), room.eq(held != OUTPUT_ROWS - 1), self.idle.eq(0)]
        with m.Elif(give & ~take):
            m.d.sync += [held.eq(held - 1), room.eq(1), self.idle.eq(held == 1)]
        row_ends = row.last if self.vectors > 1 else Const(1)
        m.d.comb += [term.ready.eq((take & row_ends) | self.drop) for term in terms.values()]

        products = {}
        for name, term in terms.items():
            multiplier = WideMultiplier(MULTIPLIER_BITS + 1, TERM_BITS)
            m.submodules[f"{name}_multiplier"] = multiplier
            m.d.comb += [
                multiplier.a.eq(getattr(self, f"{name}_multipliers")[row.slot]),
                multiplier.b.eq(term.payload),
            ]
            products[name] = multiplier.product
        latency = WideMultiplier.latency_of(MULTIPLIER_BITS + 1)
        row = delayed(m, row, latency, "row")
        score = row.score
        late = latency
        if config.bias:
            late += 1
            total = Signal(signed(config.score_bits), name="biased", reset_less=True)
            m.d.sync += total.eq(score + products["bias"])
            score = total
            row = delayed(m, row, 1, "biased_row")
        if config.bound:
            late += 1
            rank = Signal(signed(config.rank_bits), reset_less=True)
            term = delayed(m, terms["bound"].payload, late, "term")
            product = delayed(m, products["bound"], config.bias, "bound_product")
            m.d.sync += rank.eq(score + product)
            score = delayed(m, score, 1, "score")
            row = delayed(m, row, 1, "bounded_row")
        valid = delayed(m, take, late, "valid", reset_less=False)

        layout = ScoredLayout(config, self.vectors)
        m.submodules.queue = queue = StreamFIFO(
            layout.size, OUTPUT_ROWS, memory="auto", has_room=True
        )
        scored = Signal(layout)
        found = {"score": score, "id": row.id, "slot": row.slot}
        if config.bound:
            found |= {"rank": rank, "term": term}
        if config.mask:
            found["allowed"] = row.allowed
        m.d.comb += [scored[name].eq(found[name]) for name in layout.members]
        m.d.comb += [
            queue.i.valid.eq(valid),
            queue.i.payload.eq(scored.as_value()),
            queue.o.ready.eq(self.o.ready),
            self.o.valid.eq(queue.o.valid),
            self.o.payload.eq(data.View(layout, queue.o.payload)),
        ]
        return m
