"""From bus beats to scored rows: the blocks between the reader and the top-k, connected."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.config import HeadConfig
from hw.farm import DotFarm
from hw.hidden import HiddenMemory
from hw.plan import PlanLayout, TilePlan
from hw.rows import RowLayout, RowQueue
from hw.scales import ScaleBuffer
from hw.unpack import Unpacker


class DataPath(wiring.Component):
    """Scores every row of a job, in the order of ids.

    Unpacker -> {hidden memory, scale buffer, farm} -> row queue; the plan tells all of them what
    the job's shape is.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    start_plan : In
        One clock: `vocabulary` and `dim` are those of a job, stable from then on.
    start_data : In
        One clock, at least 3 clocks later: beats may come from the next clock on.
    vocabulary, dim : In
        V and d.
    plan : Out(PlanLayout)
        Its beat counts are right 2 clocks after `start_plan`.
    i : In(stream)
        Bus beats: the hidden state, then the image.
    o : Out(stream of RowLayout)
    unpacked, excess : Out
        See `Unpacker`.
    done : Out
        All rows have been handed over.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "start_plan": In(1),
                "start_data": In(1),
                "vocabulary": In(range(config.max_rows + 1)),
                "dim": In(range(config.max_dim + 1)),
                "plan": Out(PlanLayout(config)),
                "i": In(stream.Signature(config.bus_bits)),
                "o": Out(stream.Signature(RowLayout(config))),
                "unpacked": Out(1),
                "excess": Out(1),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.plan = plan = TilePlan(config)
        m.submodules.unpacker = unpacker = Unpacker(config)
        m.submodules.hidden = hidden = HiddenMemory(config)
        m.submodules.scales = scales = ScaleBuffer(config)
        m.submodules.farm = farm = DotFarm(config)
        m.submodules.rows = rows = RowQueue(config)

        connect(m, flipped(self.i), unpacker.i)
        connect(m, unpacker.hidden, hidden.i)
        connect(m, unpacker.header, scales.i)
        connect(m, unpacker.body, farm.body)
        connect(m, scales.o, farm.scales)
        connect(m, rows.o, flipped(self.o))
        m.d.comb += [
            plan.start.eq(self.start_plan),
            plan.rows.eq(self.vocabulary),
            plan.dim.eq(self.dim),
            self.plan.eq(plan.plan),
            unpacker.start.eq(self.start_data),
            unpacker.plan.eq(plan.plan),
            unpacker.plan_ready.eq(plan.ready),
            self.unpacked.eq(unpacker.done),
            self.excess.eq(unpacker.excess),
            hidden.restart.eq(self.start_data),
            hidden.beats.eq(plan.plan.hidden_beats),
            hidden.address.eq(farm.hidden_address),
            farm.hidden.eq(hidden.slice),
            farm.hidden_loaded.eq(hidden.loaded),
            farm.plan.eq(plan.plan),
            farm.release.eq(rows.release),
            rows.start.eq(self.start_plan),
            rows.rows.eq(self.vocabulary),
            rows.valid.eq(farm.scores_valid),
            rows.scores.eq(farm.scores),
            self.done.eq(rows.done),
        ]
        return m
