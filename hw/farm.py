"""The streaming dot-product farm: body beats in, scores of rows out."""

from itertools import product

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes import KEPT
from hw.config import HeadConfig, log2
from hw.dot import DotTiming, DotUnit
from hw.early_ready import EarlyReady
from hw.fifo import StreamFIFO
from hw.header import scale_word_bits
from hw.hidden import HiddenMemory, hidden_slices, slices
from hw.lanes import LaneProducts
from hw.plan import PlanLayout
from hw.rows import sums_layout


def delayed(m: Module, value, clocks: int, name: str, *, reset_less: bool = True):
    """`value` of `clocks` clocks ago."""
    for clock in range(clocks):
        register = Signal.like(value, name=f"{name}_{clock + 1}", reset_less=reset_less)
        m.d.sync += register.eq(value)
        value = register
    return value


class DotFarm(wiring.Component):
    """Multiplies each body beat with every hidden state, in `fold` clocks.

    Each vector has `lanes` multipliers, with `dsp_pairs` half of them, rounded up to whole pairs of
    rows or vectors; all share the weights and the control.

    Sub-beats of a beat run over its slices of `lane_width` columns and, faster, over its sets of
    `lane_units` rows. Without folding the farm takes a beat every clock, from row to row and tile
    to tile, and gaps may fall anywhere. Its pipeline never stops: a block of rows is only begun
    when every row queue has room for its scores, which is what `release` gives back.

    Latency from the last beat of a block to its first scores: ``HiddenMemory.LATENCY +
    DotTiming.score`` clocks.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    plan : In(PlanLayout)
        Only `row_beats`, stable while beats come.
    hidden_loaded : In
        Beats are taken from then on.
    hidden_address : Out
    hidden : In(ArrayLayout)
        By vector, the slice of its state, `HiddenMemory.LATENCY` clocks after its address.
    body : In(EarlyReady)
        Body beats.
    scales : In(EarlyReady)
        Scale words; one is always there when it is needed, because its header came before.
    scores_valid : Out
        For one clock; the scores cannot be refused.
    scores : Out(ArrayLayout)
        `fold_units` times for each block of rows, in the order of rows; see `sums_layout`.
        Vectors that the job does not have get scores as well, without a meaning.
    release : In
        A bit per ranker, for one clock: the scores of one block have left its row queue.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "plan": In(PlanLayout(config)),
                "hidden_loaded": In(1),
                "hidden_address": Out(range(max(2, slices(config)))),
                "hidden": In(hidden_slices(config)),
                "body": In(EarlyReady(unsigned(config.bus_bits))),
                "scales": In(EarlyReady(unsigned(scale_word_bits(config)))),
                "scores_valid": Out(1),
                "scores": Out(sums_layout(config, config.batch)),
                "release": In(config.rankers),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        timing = DotTiming.of(config)

        # Whether a sub-beat may be taken is known a clock ahead, since that reaches far back.
        permitted_next = Signal()
        permitted = Signal()
        m.d.sync += permitted.eq(permitted_next)
        take = Signal()
        way_last, step_last = Const(1), Const(1)
        if config.fold > 1:
            # The last two beats that fit are not told a clock ahead.
            m.submodules.queue = queue = StreamFIFO(
                config.bus_bits, config.body_fifo_beats + 2, has_room=True
            )
            m.d.comb += [
                queue.i.payload.eq(self.body.payload),
                queue.i.valid.eq(self.body.valid),
                self.body.ready_next.eq(queue.ready_next),
                take.eq(queue.o.valid & permitted),
            ]
            body = queue.o.payload
        else:
            m.d.comb += [take.eq(self.body.valid), self.body.ready_next.eq(permitted_next)]
            body = self.body.payload

        # Where in its block the next sub-beat lies.
        way = Signal(range(max(2, config.fold_units)))
        step = Signal(range(max(2, config.fold_width)))
        beat = Signal(range(max(2, config.row_beats(config.max_dim))))
        slice_address = Signal.like(self.hidden_address)
        beats_after = Signal.like(self.plan.row_beats)
        block_begins = Signal(init=1)

        # Synthesis does not see that a counter of one value stands still.
        if config.fold_units > 1:
            way_last = way == config.fold_units - 1
        if config.fold_width > 1:
            step_last = step == config.fold_width - 1
        if config.fold > 1:
            m.d.comb += queue.o.ready.eq(permitted & way_last & step_last)
        beat_last = Signal()  # beats_after == 1
        if config.group:
            beats_per_group = config.group // config.width
            beat_in_group = beat[: log2(beats_per_group)]
            group_begins = (beat_in_group == 0) & (step == 0)
            group_ends = (beat_in_group == beats_per_group - 1) & step_last
            row_begins = beat[log2(beats_per_group) :] == 0
        else:
            group_begins = (beat == 0) & (step == 0)
            group_ends = beat_last & step_last
            row_begins = Const(1)

        # A block that begins in this clock is not in `blocks` yet: room for two is asked for.
        # Whether a sub-beat comes is known late, so without room none may follow that could begin a
        # block.
        queues = range(config.rankers)
        blocks = [Signal(range(config.row_queue_blocks + 1), name=f"blocks{p}") for p in queues]
        rooms = [Signal(init=1, name=f"room{p}") for p in queues]
        room = Cat(rooms).all()
        of_block_last = way_last & step_last & beat_last
        begins_next = block_begins | (of_block_last & permitted)
        m.d.comb += [
            self.hidden_address.eq(slice_address),
            permitted_next.eq(self.hidden_loaded & (~begins_next | room)),
        ]
        begins = take & block_begins
        begun = Signal()
        m.d.sync += begun.eq(begins)
        for queued, roomy, released in zip(blocks, rooms, self.release, strict=True):
            # A block is counted a clock after it began. Whether there will be room is settled for
            # both before it is known whether one begins.
            m.d.sync += queued.eq(queued + begun - released)
            bound = config.row_queue_blocks - 1
            holds, grows = Signal(attrs=KEPT), Signal(attrs=KEPT)
            with m.Switch(Cat(released, begun)):
                with m.Case(0b01):
                    m.d.comb += [holds.eq(queued <= bound), grows.eq(queued < bound)]
                with m.Case(0b10):
                    m.d.comb += [holds.eq(queued < bound - 1), grows.eq(queued < bound - 2)]
                with m.Default():
                    m.d.comb += [holds.eq(queued < bound), grows.eq(queued < bound - 1)]
            m.d.sync += roomy.eq(Mux(begins, grows, holds))
        one_beat = self.plan.row_beats == 1
        with m.If(~self.hidden_loaded):
            m.d.sync += [beats_after.eq(self.plan.row_beats), beat_last.eq(one_beat)]
        with m.If(take):
            m.d.sync += [way.eq(way + 1), block_begins.eq(0)]
            with m.If(way_last):
                m.d.sync += [way.eq(0), step.eq(step + 1), slice_address.eq(slice_address + 1)]
                with m.If(step_last):
                    m.d.sync += [
                        step.eq(0),
                        beat.eq(beat + 1),
                        beats_after.eq(beats_after - 1),
                        beat_last.eq(beats_after == 2),
                    ]
                    with m.If(beat_last):
                        m.d.sync += [
                            beat.eq(0),
                            beats_after.eq(self.plan.row_beats),
                            beat_last.eq(one_beat),
                            slice_address.eq(0),
                            block_begins.eq(1),
                        ]

        # The weights wait for the hidden slice.
        lanes = data.ArrayLayout(
            data.ArrayLayout(signed(config.weight_bits), config.lane_width), config.lane_units
        )
        columns = data.ArrayLayout(
            data.ArrayLayout(unsigned(config.lane_width * config.weight_bits), config.fold_width),
            config.units,
        )
        beat_columns = data.View(columns, body)
        weights = Signal(lanes, reset_less=True)
        for unit in range(config.lane_units):
            choices = [
                beat_columns[choice_way * config.lane_units + unit][choice_step]
                for choice_step in range(config.fold_width)
                for choice_way in range(config.fold_units)
            ]
            index = way + step * config.fold_units if config.fold > 1 else 0
            chosen = Array(choices)[index] if config.fold > 1 else choices[0]
            m.d.sync += weights[unit].as_value().eq(chosen)
        weights = delayed(m, weights, HiddenMemory.LATENCY - 1, "weights")

        # Strobes, once for all units. The input of the units is `HiddenMemory.LATENCY` behind.
        start = HiddenMemory.LATENCY
        enable = delayed(m, take, start + timing.dot, "enable", reset_less=False)
        first = delayed(m, group_begins, start + timing.dot, "group_begins")
        scale_needed_next = delayed(
            m, take & group_ends, start + timing.group - 1, "group_ends", reset_less=False
        )
        scale_needed = delayed(m, scale_needed_next, 1, "scale_needed", reset_less=False)
        row_enable = delayed(
            m, scale_needed, timing.scaled - timing.group, "scaled", reset_less=False
        )
        row_first = delayed(m, row_begins, start + timing.scaled, "row_begins")
        m.d.comb += [
            self.scales.ready_next.eq(scale_needed_next),
            self.scores_valid.eq(
                delayed(
                    m,
                    take & group_ends & beat_last,
                    start + timing.score,
                    "row_ends",
                    reset_less=False,
                )
            ),
        ]
        scales = data.View(
            data.ArrayLayout(unsigned(config.scale_bits), config.lane_units), self.scales.payload
        )
        units = {}
        for vector, index in product(range(config.batch), range(config.lane_units)):
            unit = DotUnit(config)
            name = f"unit{index}_{vector}" if config.batch > 1 else f"unit{index}"
            m.submodules[name] = units[vector, index] = unit
            m.d.comb += [
                unit.group_enable.eq(enable),
                unit.group_first.eq(first),
                unit.scale.eq(scales[index]),
                unit.row_enable.eq(row_enable),
                unit.row_first.eq(row_first),
                self.scores[vector][index].eq(unit.score),
            ]

        rows, vectors = config.paired_rows, config.paired_vectors
        for vector, index in product(
            range(0, config.batch, vectors), range(0, config.lane_units, rows)
        ):
            name = f"lanes{index}_{vector}" if config.batch > 1 else f"lanes{index}"
            m.submodules[name] = lanes = LaneProducts(config)
            m.d.comb += [lanes.weights[row].eq(weights[index + row]) for row in range(rows)]
            # A last vector of an odd number has none beside it.
            of_lanes = range(min(vectors, config.batch - vector))
            m.d.comb += [lanes.hidden[way].eq(self.hidden[vector + way]) for way in of_lanes]
            m.d.comb += [
                units[vector + way, index + row].products.eq(lanes.products[row + way])
                for way, row in product(of_lanes, range(rows))
            ]
        return m
