"""The queue between the farm and the top-k: blocks of scores in, single rows with their id out."""

from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig
from hw.farm import score_layout
from hw.fifo import StreamFIFO


class RowLayout(data.StructLayout):
    """A vocabulary row that was scored."""

    def __init__(self, config: HeadConfig):
        super().__init__({"score": signed(config.score_bits), "id": unsigned(config.id_bits)})


class RowQueue(wiring.Component):
    """Queues finished blocks and hands their rows over one at a time, in the order of ids.

    Rows of the last block past the vocabulary are dropped here. It cannot be overrun, since the
    farm only begins a block when one was released.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    start : In
        One clock, before the first scores of a job.
    rows : In
        V, stable from `start`.
    valid, scores : In
        As the farm gives them.
    o : Out(stream of RowLayout)
        Rows 0 to V - 1.
    release : Out
        One clock: all scores of a block have left.
    done : Out
        All V rows have been handed over; high until `start`.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "rows": In(range(config.max_rows + 1)),
                "valid": In(1),
                "scores": In(score_layout(config)),
                "o": Out(stream.Signature(RowLayout(config))),
                "release": Out(1),
                "done": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        layout = score_layout(config)
        depth = config.row_queue_blocks * config.fold_units
        m.submodules.queue = queue = StreamFIFO(layout.size, depth, memory="auto")
        m.d.comb += [queue.i.valid.eq(self.valid), queue.i.payload.eq(self.scores.as_value())]

        # One set of `lane_units` scores is shifted out towards its lowest row.
        scores = Signal(layout, reset_less=True)
        left = Signal(range(config.lane_units + 1))
        rows_left = Signal(range(config.max_rows + 1))
        row_id = Signal(config.id_bits)
        ways_left = Signal(range(max(2, config.fold_units)), init=config.fold_units - 1)
        shift = Signal()
        load = Signal()

        m.d.comb += [
            self.o.valid.eq((left != 0) & ~self.done),
            self.o.payload.score.eq(scores[0]),
            self.o.payload.id.eq(row_id),
            shift.eq((left != 0) & (self.o.ready | self.done)),
            load.eq(queue.o.valid & ((left == 0) | (shift & (left == 1)))),
            queue.o.ready.eq(load),
        ]
        with m.If(shift):
            m.d.sync += left.eq(left - 1)
            for lower in range(config.lane_units - 1):
                m.d.sync += scores[lower].eq(scores[lower + 1])
            with m.If(~self.done):
                m.d.sync += [row_id.eq(row_id + 1), rows_left.eq(rows_left - 1)]
                with m.If(rows_left == 1):
                    m.d.sync += self.done.eq(1)
        m.d.sync += self.release.eq(0)
        with m.If(load):
            m.d.sync += [
                scores.as_value().eq(queue.o.payload),
                left.eq(config.lane_units),
                ways_left.eq(ways_left - 1),
            ]
            with m.If(ways_left == 0):
                m.d.sync += [ways_left.eq(config.fold_units - 1), self.release.eq(1)]
        with m.If(self.start):
            m.d.sync += [row_id.eq(0), rows_left.eq(self.rows), self.done.eq(0)]
        return m
