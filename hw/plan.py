"""The shape of a job: what follows from V and d, computed once at its start."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig, ceil_div, is_power_of_two, log2


class PlanLayout(data.StructLayout):
    """What the blocks of the data path need to know of a job.

    Members: `hidden_beats` of the hidden state; `row_beats`, body beats per block of rows;
    `tiles`; and of full tiles and of the last one the `blocks` of rows and the scale `words`
    (of `lane_units` scales) in the header.
    """

    def __init__(self, config: HeadConfig):
        words = config.tile_blocks * config.groups(config.max_dim) * config.fold_units
        super().__init__(
            {
                "hidden_beats": range(hidden_beats(config, config.max_dim) + 1),
                "row_beats": range(config.row_beats(config.max_dim) + 1),
                "tiles": range(ceil_div(config.max_rows, config.tile_rows) + 1),
                "full_blocks": range(config.tile_blocks + 1),
                "full_words": range(words + 1),
                "last_blocks": range(config.tile_blocks + 1),
                "last_words": range(words + 1),
            }
        )


def hidden_beats(config: HeadConfig, dim: int) -> int:
    """Bus beats of one quantised hidden state, padded to whole beats."""
    return ceil_div(config.padded_dim(dim) * config.hidden_bits, config.bus_bits)


class TilePlan(wiring.Component):
    """Computes the plan of a job with one divider and one multiplier, both serial.

    `hidden_beats` and `row_beats` are right two clocks after `start`; the rest when `ready` rises,
    at most ``id_bits + 2 * bit_length(tile_blocks) + 10`` clocks after `start`. Memories take about
    as long to answer with the hidden state, and no header is looked at before.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    start : In
        One clock; `rows` and `dim` are in their ranges and stable from then on.
    rows, dim : In
    plan : Out(PlanLayout)
    ready : Out
        The plan is complete; low from the clock after `start`.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "rows": In(range(config.max_rows + 1)),
                "dim": In(range(config.max_dim + 1)),
                "plan": Out(PlanLayout(config)),
                "ready": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        plan = self.plan

        groups = Signal(range(config.groups(config.max_dim) + 1))
        padding = config.column_multiple - 1
        columns = Signal(range(config.padded_dim(config.max_dim) + 1))
        m.d.sync += columns.eq(
            ((self.dim + padding) >> log2(config.column_multiple)) << log2(config.column_multiple)
        )
        hidden_bits = columns << log2(config.hidden_bits)
        m.d.sync += [
            plan.row_beats.eq(columns >> log2(config.width)),
            plan.hidden_beats.eq((hidden_bits + config.bus_bits - 1) >> log2(config.bus_bits)),
            groups.eq(columns >> log2(config.group) if config.group else 1),
        ]

        # Rows of the last tile: the remainder, or a full tile where there is none.
        quotient = Signal(range(config.max_rows + 1))
        remainder = Signal(range(config.tile_rows + 1))
        blocks = (remainder + config.units - 1) >> log2(config.units)
        m.d.sync += plan.full_blocks.eq(config.tile_blocks)

        factor = Signal(range(config.tile_blocks + 1))
        addend = Signal(range(2 * config.groups(config.max_dim) * config.tile_blocks + 1))
        product = Signal(range(config.groups(config.max_dim) * config.tile_blocks + 1))
        second = Signal()

        with m.FSM(name="plan"):
            with m.State("IDLE"):
                m.d.sync += second.eq(0)
                with m.If(self.start):
                    m.d.sync += self.ready.eq(0)
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                # Two clocks for `columns` and `groups`; the division begins in the meantime.
                m.d.sync += second.eq(1)
                with m.If(second):
                    m.d.sync += second.eq(0)
                    m.next = "DIVIDE"
            self._divide(m, quotient, remainder)
            with m.State("LAST"):
                with m.If(remainder == 0):
                    m.d.sync += [plan.tiles.eq(quotient), plan.last_blocks.eq(config.tile_blocks)]
                with m.Else():
                    m.d.sync += [plan.tiles.eq(quotient + 1), plan.last_blocks.eq(blocks)]
                m.d.sync += [factor.eq(config.tile_blocks), addend.eq(groups), product.eq(0)]
                m.next = "MULTIPLY"
            with m.State("MULTIPLY"):
                m.d.sync += [
                    factor.eq(factor >> 1),
                    addend.eq(addend << 1),
                    product.eq(product + Mux(factor[0], addend, 0)),
                ]
                with m.If(factor == 0):
                    m.next = "STORE"
            with m.State("STORE"):
                words = product << log2(config.fold_units)
                m.d.sync += [factor.eq(plan.last_blocks), addend.eq(groups), product.eq(0)]
                with m.If(second):
                    m.d.sync += [plan.last_words.eq(words), self.ready.eq(1)]
                    m.next = "IDLE"
                with m.Else():
                    m.d.sync += [plan.full_words.eq(words), second.eq(1)]
                    m.next = "MULTIPLY"
        return m

    def _divide(self, m, quotient, remainder):
        """State DIVIDE: quotient and remainder of rows / tile_rows, then LAST."""
        config = self.config
        if is_power_of_two(config.tile_rows):
            with m.State("DIVIDE"):
                m.d.sync += [
                    quotient.eq(self.rows >> log2(config.tile_rows)),
                    remainder.eq(self.rows[: log2(config.tile_rows)]),
                ]
                m.next = "LAST"
            return
        step = Signal(range(len(quotient) + 1))
        shifted = Signal(range(2 * config.tile_rows))
        fits = shifted >= Const(config.tile_rows)
        m.d.comb += shifted.eq((remainder << 1) | quotient[-1])
        with m.State("DIVIDE"):
            # Restoring division; the dividend leaves `quotient` as the quotient enters it.
            with m.If(step == 0):
                m.d.sync += [quotient.eq(self.rows), remainder.eq(0), step.eq(len(quotient))]
            with m.Else():
                m.d.sync += [
                    remainder.eq(Mux(fits, shifted - config.tile_rows, shifted)),
                    quotient.eq((quotient << 1) | fits),
                    step.eq(step - 1),
                ]
                with m.If(step == 1):
                    m.next = "LAST"
