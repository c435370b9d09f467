"""Packs the scores of a ranker into bus beats and cuts them into segments of memory."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import ADDRESS_BITS
from hw.burst import segment_layout
from hw.config import HeadConfig, log2
from hw.fifo import StreamFIFO
from hw.layout import LOGIT_BYTES, LOGITS_BEATS
from hw.writer import BEATS_BITS

LOGIT_BITS = 8 * LOGIT_BYTES


class LogitsWriter(wiring.Component):
    """Turns one ranker's scores into chunks of `LOGITS_BEATS` beats and their segments.

    Chunk j goes to ``address + (j * rankers + ranker) * LOGITS_BEATS * bus_bytes``; see
    `hw.layout.ImageLayout.logit`. The segment of a chunk is offered when all of its beats are in
    the FIFO, that of what is left, zeros behind the last score, after `flush`: a writer shared
    with others never waits in the middle of a segment. A score is taken per clock.

    Parameters
    ----------
    config : HeadConfig
        ``bus_bits``, ``rankers``.
    ranker : int
        0..rankers - 1.

    Members
    -------
    start : In
        One clock: a new job begins, what was left of another is dropped.
    address : In
        Byte address of the channel's scores, a multiple of the bus; taken at `start`.
    i : In
        Stream of scores, two's complement; from the clock after `start` on.
    flush : In
        No score follows. A pulse or longer, with the last transfer or later.
    o_command : Out
        Stream of segments, as `Writer.command`.
    o : Out
        Stream of beats, those of a segment no later than three clocks after its command.
    done : Out
        Flushed, and every segment and beat was taken; until `start`.

    Raises
    ------
    ValueError
        `ranker` is out of its range.
    """

    def __init__(self, config: HeadConfig, ranker: int):
        if not 0 <= ranker < config.rankers:
            raise ValueError(f"ranker must be in 0..{config.rankers - 1}, got {ranker}")
        self.config = config
        self.ranker = ranker
        super().__init__(
            {
                "start": In(1),
                "address": In(ADDRESS_BITS),
                "i": In(stream.Signature(unsigned(LOGIT_BITS))),
                "flush": In(1),
                "o_command": Out(stream.Signature(segment_layout(BEATS_BITS))),
                "o": Out(stream.Signature(unsigned(config.bus_bits))),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        lanes = config.bus_bits // LOGIT_BITS
        # Two chunks, so that one fills while the other waits for the writer.
        m.submodules.fifo = fifo = ResetInserter(self.start)(
            StreamFIFO(config.bus_bits, 2 * LOGITS_BEATS)
        )

        # A beat is offered to the FIFO from a register. Its first score clears the others.
        filled = Signal()
        lane = Signal(range(max(2, lanes)))
        beat = [Signal(LOGIT_BITS, name=f"lane{n}", reset_less=True) for n in range(lanes)]
        flushing = Signal()
        take = Signal()
        push = Signal()
        chunks = Signal(range(4))  # whose beats are in the FIFO and whose command was not taken
        m.d.comb += [
            # Whatever becomes of the beats, no more than two chunks are counted.
            self.i.ready.eq((~filled | fifo.i.ready) & ~chunks[1]),
            take.eq(self.i.valid & self.i.ready),
            fifo.i.valid.eq(filled),
            push.eq(filled & fifo.i.ready),
        ]
        m.d.comb += [
            fifo.i.payload.word_select(n, LOGIT_BITS).eq(each) for n, each in enumerate(beat)
        ]
        with m.If(push):
            m.d.sync += filled.eq(0)
        with m.If(take):
            m.d.sync += [lane.eq(lane + (lanes > 1)), filled.eq(lane == lanes - 1)]
            for n, each in enumerate(beat):
                with m.If((lane == 0) | (lane == n)):
                    m.d.sync += each.eq(Mux(lane == n, self.i.payload, 0))
        with m.If(flushing & (lane != 0)):
            m.d.sync += [lane.eq(0), filled.eq(1)]

        # Segments.
        chunk_bits = log2(LOGITS_BEATS * config.bus_bytes)
        beats = Signal(range(LOGITS_BEATS))  # of the chunk that fills
        settled = Signal()  # flushed, and all beats are in the FIFO
        whole = Signal()
        accepted = Signal()
        position = Signal(ADDRESS_BITS, reset_less=True)
        starting = Signal()
        m.d.comb += [
            whole.eq(push & (beats == LOGITS_BEATS - 1)),
            accepted.eq(self.o_command.valid & self.o_command.ready),
            settled.eq(flushing & ~filled & (lane == 0)),
            self.o_command.valid.eq((chunks != 0) | (settled & (beats != 0))),
            self.o_command.payload.address.eq(position),
            self.o_command.payload.beats.eq(Mux(chunks != 0, LOGITS_BEATS, beats)),
            self.done.eq(settled & (chunks == 0) & (beats == 0) & (fifo.level == 0)),
        ]
        with m.If(push):
            m.d.sync += beats.eq(beats + 1)
        with m.Elif(accepted & (chunks == 0)):
            m.d.sync += beats.eq(0)
        m.d.sync += chunks.eq(chunks + whole - (accepted & (chunks != 0)))
        with m.If(self.flush):
            m.d.sync += flushing.eq(1)
        with m.If(accepted):
            m.d.sync += position[chunk_bits:].eq(position[chunk_bits:] + config.rankers)
        if self.ranker:
            m.d.sync += starting.eq(self.start)
            with m.If(starting):
                m.d.sync += position[chunk_bits:].eq(position[chunk_bits:] + self.ranker)
        with m.If(self.start):
            m.d.sync += [
                position.eq(self.address),
                flushing.eq(0),
                filled.eq(0),
                lane.eq(0),
                chunks.eq(0),
                beats.eq(0),
            ]
        wiring.connect(m, fifo.o, wiring.flipped(self.o))
        return m
