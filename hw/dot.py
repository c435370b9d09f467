"""The arithmetic of one row after its products: adder tree, group sum, scale, row sum."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig
from hw.lanes import LaneProducts, products_layout
from hw.multiplier import WideMultiplier
from hw.trees import adder_tree, tree_levels


@dataclass(frozen=True)
class DotTiming:
    """Clocks from the weights at the lanes' input to each point of the pipeline."""

    dot: int
    """A sub-beat's dot product leaves the adder tree."""
    group: int
    """The group sum is complete; its scale is taken in this clock."""
    scaled: int
    """The scaled group sum leaves the multiplier."""
    score: int
    """The row sum is complete."""

    @classmethod
    def of(cls, config: HeadConfig) -> "DotTiming":
        dot = LaneProducts.latency_of(config) + tree_levels(config.lane_width)
        group = dot + 1
        scaled = group + WideMultiplier.latency_of(config.dot_bits)
        return cls(dot=dot, group=group, scaled=scaled, score=scaled + 1)


def scale_operand_bits(config: HeadConfig) -> int:
    """Width of a scale as a signed operand."""
    return config.scale_bits + (not config.scale_signed)


class RotatingSum(wiring.Component):
    """Running sums of `ways` interleaved sequences of terms.

    Term n belongs to sequence n % ways. One clock from a term to its sum, one term a clock, gaps
    anywhere.

    Members
    -------
    enable : In
        A term is there.
    first : In
        It begins a new sum of its sequence.
    term : In, signed
    total : Out, signed
        The sum of the sequence of the latest term, this term included.
    """

    def __init__(self, term_bits: int, total_bits: int, ways: int):
        self.ways = ways
        super().__init__(
            {
                "enable": In(1),
                "first": In(1),
                "term": In(signed(term_bits)),
                "total": Out(signed(total_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sums = [
            Signal.like(self.total, name=f"sum{way}", reset_less=True) for way in range(self.ways)
        ]
        with m.If(self.enable):
            m.d.sync += sums[0].eq(Mux(self.first, 0, sums[-1]) + self.term)
            m.d.sync += [later.eq(sum_) for sum_, later in zip(sums, sums[1:], strict=False)]
        m.d.comb += self.total.eq(sums[0])
        return m


class DotUnit(wiring.Component):
    """Scores of `fold_units` interleaved rows, `lane_width` products a clock.

    It has no control of its own: the farm gives each strobe in the clock that `DotTiming` names,
    once for all units.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    products : In(ArrayLayout)
        Those of a sub-beat, ``LaneProducts.latency_of(config)`` clocks behind its weights.
    group_enable, group_first : In
        At `DotTiming.dot`: a dot product is there, it begins a group.
    scale : In
        At `DotTiming.group`: the scale of the group as stored.
    row_enable, row_first : In
        At `DotTiming.scaled`: a scaled group sum is there, it begins a row.
    score : Out, signed
        At `DotTiming.score`: the row's sum so far, without row terms.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "products": In(products_layout(config)),
                "group_enable": In(1),
                "group_first": In(1),
                "scale": In(config.scale_bits),
                "row_enable": In(1),
                "row_first": In(1),
                "score": Out(signed(config.sum_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        products = [self.products[lane] for lane in range(config.lane_width)]
        dot = adder_tree(m, products, "tree")

        group_total = Signal(signed(config.dot_bits), reset_less=True)
        if config.group == config.lane_width:
            m.d.sync += group_total.eq(dot)
        else:
            m.submodules.group_sum = group_sum = RotatingSum(
                len(dot), config.dot_bits, config.fold_units
            )
            m.d.comb += [
                group_sum.enable.eq(self.group_enable),
                group_sum.first.eq(self.group_first),
                group_sum.term.eq(dot),
                group_total.eq(group_sum.total),
            ]
        m.submodules.scale_product = scale_product = WideMultiplier(
            config.dot_bits, scale_operand_bits(config)
        )
        m.submodules.row_sum = row_sum = RotatingSum(
            config.scaled_bits, config.sum_bits, config.fold_units
        )
        scale = self.scale.as_signed() if config.scale_signed else Cat(self.scale, Const(0, 1))
        m.d.comb += [
            scale_product.a.eq(group_total),
            scale_product.b.eq(scale),
            row_sum.enable.eq(self.row_enable),
            row_sum.first.eq(self.row_first),
            row_sum.term.eq(scale_product.product),
            self.score.eq(row_sum.total),
        ]
        return m
