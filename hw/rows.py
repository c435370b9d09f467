"""The queue between the farm and the top-k: blocks of sums in, one row of one vector at a time out.

Vectors are the ranker's own: its slot s is vector ``ranker + s * rankers`` of the job.
"""

from amaranth.hdl import Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.buffer import StreamBuffer, StreamRegister
from hw.config import HeadConfig, log2
from hw.fifo import StreamFIFO


def sums_layout(config: HeadConfig, vectors: int) -> data.ArrayLayout:
    """Sums that the farm finishes at once: per vector `lane_units` rows, the lowest first."""
    return data.ArrayLayout(data.ArrayLayout(signed(config.sum_bits), config.lane_units), vectors)


class RowLayout(data.StructLayout):
    """A vocabulary row that was multiplied with the vector in `slot`.

    `allowed` says that the mask lets it take part; it exists with a mask only. `last` marks the
    last slot of a row; it exists if there are row terms, which belong to rows, and several slots.
    """

    def __init__(self, config: HeadConfig, vectors: int = 1):
        members = {
            "score": signed(config.sum_bits),
            "id": unsigned(config.id_bits),
            "slot": range(max(2, vectors)),
        }
        if config.mask:
            members["allowed"] = 1
        if config.terms and vectors > 1:
            members["last"] = 1
        super().__init__(members)


class RowQueue(wiring.Component):
    """Queues finished blocks and hands their rows over one at a time, in the order of ids.

    A row comes once for each vector of the job that the ranker has, in the order of slots, one a
    clock. Rows of the last block past the vocabulary are dropped here, and so is everything if the
    job has no vector of this ranker. The queue cannot be overrun, since the farm only begins a
    block when one was released.

    Parameters
    ----------
    config : HeadConfig
    channel, ranker : int

    Members
    -------
    start : In
        One clock, before the first sums of a job.
    rows : In
        Rows of the channel, stable from `start`.
    vectors : In
        Vectors of the job, likewise.
    valid, scores : In
        As the farm gives them, those of this ranker.
    mask : In(stream)
        With a mask: a word per row of the channel, bit s for the vector in slot s. Without a vector
        of this ranker none is taken.
    o : Out(stream of RowLayout)
        All rows of the channel.
    release : Out
        One clock: all sums of a block have left.
    unused : Out
        The job has no vector of this ranker.
    done : Out
        All rows have been handed over, and nothing of the last block is left here or in the farm;
        high until `start`.
    """

    def __init__(self, config: HeadConfig, channel: int = 0, ranker: int = 0):
        self.config = config
        self.channel = channel
        self.ranker = ranker
        self.vectors_here = config.ranker_vectors(ranker)
        members = {
            "start": In(1),
            "rows": In(range(config.max_rows + 1)),
            "vectors": In(range(config.batch + 1)),
            "valid": In(1),
            "scores": In(sums_layout(config, self.vectors_here)),
            "o": Out(stream.Signature(RowLayout(config, self.vectors_here))),
            "release": Out(1),
            "unused": Out(1),
            "done": Out(1),
        }
        if config.mask:
            members["mask"] = In(stream.Signature(unsigned(self.vectors_here)))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        layout = sums_layout(config, self.vectors_here)
        depth = config.row_queue_blocks * config.fold_units
        m.submodules.queue = queue = StreamFIFO(layout.size, depth, memory="auto", has_room=True)
        # Whether a set is wanted follows from the set before, which has its own reasons to wait. A
        # set of several rows is wanted in every second clock at most.
        between = StreamRegister if config.lane_units > 1 else StreamBuffer
        m.submodules.buffer = buffer = between(layout.size)
        m.d.comb += [queue.i.valid.eq(self.valid), queue.i.payload.eq(self.scores.as_value())]
        wiring.connect(m, queue.o, buffer.i)

        # One set of `lane_units` rows is shifted out towards its lowest one, and the sums of that
        # one towards slot 0.
        scores = Signal(layout, reset_less=True)
        left = Signal(range(config.lane_units + 1))
        rows_left = Signal(range(config.max_rows + 1))
        row_last = Signal()  # rows_left == 1
        row_id = Signal(config.id_bits)
        ways_left = Signal(range(max(2, config.fold_units)), init=config.fold_units - 1)
        ended = Signal(init=1)
        taken = Signal()
        shift = Signal()
        load = Signal()

        m.d.comb += [
            self.o.valid.eq((left != 0) & ~ended),
            self.o.payload.score.eq(scores[0][0]),
            self.o.payload.id.eq(row_id),
            taken.eq(self.o.valid & self.o.ready),
            load.eq(buffer.o.valid & ((left == 0) | (shift & (left == 1)))),
            buffer.o.ready.eq(load),
        ]
        row_taken = self._slots(m, scores, taken)
        m.d.comb += shift.eq(row_taken)
        if config.mask:
            m.d.comb += [
                self.o.valid.eq((left != 0) & ~ended & self.mask.valid),
                self.o.payload.allowed.eq(self.mask.payload.bit_select(self.o.payload.slot, 1)),
                self.mask.ready.eq(row_taken),
            ]
        with m.If(shift):
            m.d.sync += [
                left.eq(left - 1),
                rows_left.eq(rows_left - 1),
                row_last.eq(rows_left == 2),
            ]
            for slot in range(self.vectors_here):
                for lower in range(config.lane_units - 1):
                    m.d.sync += scores[slot][lower].eq(scores[slot][lower + 1])
            with m.If(row_last):
                m.d.sync += ended.eq(1)
        self._count_ids(m, row_id, shift)
        m.d.sync += self.release.eq(0)
        with m.If(load):
            m.d.sync += [
                scores.as_value().eq(buffer.o.payload),
                left.eq(config.lane_units),
                ways_left.eq(ways_left - 1),
            ]
            # Synthesis does not see that a counter of one value stands still.
            with m.If(ways_left == 0 if config.fold_units > 1 else Const(1)):
                m.d.sync += [ways_left.eq(config.fold_units - 1), self.release.eq(1)]
        # What is left of the last block goes as fast as it comes out of the buffer.
        with m.If(ended):
            m.d.sync += left.eq(0)
        whole = ways_left == config.fold_units - 1 if config.fold_units > 1 else Const(1)
        m.d.comb += self.done.eq(ended & whole)
        with m.If(self.start):
            m.d.sync += [rows_left.eq(self.rows), row_last.eq(self.rows == 1), ended.eq(0)]
            if config.channels > 1:
                m.d.sync += ended.eq(self.rows == 0)
            if self.ranker:
                none = self.vectors <= self.ranker
                m.d.sync += self.unused.eq(none)
                with m.If(none):
                    m.d.sync += ended.eq(1)
        return m

    def _slots(self, m, scores, taken):
        """Walks through the slots of a row; gives the signal that its last one is taken."""
        if self.vectors_here == 1:
            return taken
        slot = Signal(range(self.vectors_here))
        last_slot = Signal.like(slot)
        with m.If(self.start):
            m.d.sync += last_slot.eq((self.vectors - 1 - self.ranker) >> log2(self.config.rankers))
        is_last = slot == last_slot
        m.d.comb += self.o.payload.slot.eq(slot)
        if self.config.terms:
            m.d.comb += self.o.payload.last.eq(is_last)
        with m.If(taken):
            m.d.sync += slot.eq(Mux(is_last, 0, slot + 1))
            for lower in range(self.vectors_here - 1):
                m.d.sync += scores[lower][0].eq(scores[lower + 1][0])
        return taken & is_last

    def _count_ids(self, m, row_id, shift):
        """Counts `row_id` through the tiles of the channel: every `channels`-th one of all."""
        config = self.config
        step = Const(1)
        if config.channels > 1:
            others = (config.channels - 1) * config.tile_rows
            tile_left = Signal(range(max(2, config.tile_rows)))
            tile_ends = tile_left == 0
            step = Mux(tile_ends, 1 + others, 1)
            with m.If(shift):
                m.d.sync += tile_left.eq(Mux(tile_ends, config.tile_rows - 1, tile_left - 1))
            with m.If(self.start):
                m.d.sync += tile_left.eq(config.tile_rows - 1)
        with m.If(shift):
            m.d.sync += row_id.eq(row_id + step)
        with m.If(self.start):
            m.d.sync += row_id.eq(self.channel * config.tile_rows)
