"""The multipliers of the farm: a product for each weight that is computed at once."""

from amaranth.hdl import Module, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig
from hw.multiplier import Multiplier
from hw.multiplier_pair import MultiplierPair


def products_layout(config: HeadConfig) -> data.ArrayLayout:
    """The products of a sub-beat of one row and vector."""
    return data.ArrayLayout(signed(config.weight_bits + config.hidden_bits), config.lane_width)


class LaneProducts(wiring.Component):
    """The products of `lane_width` columns: of one row and vector or, with `dsp_pairs`, of two
    rows and one vector or of one row and two vectors.

    Throughput: all products each clock, `latency_of` clocks later.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    weights, hidden : In(ArrayLayout)
        By row and by vector, the signed values of the columns.
    products : Out(ArrayLayout)
        By row or vector, whichever there are two of.
    """

    @staticmethod
    def latency_of(config: HeadConfig) -> int:
        """Clocks from weights to products."""
        return MultiplierPair.LATENCY if config.dsp_pairs else Multiplier.LATENCY

    def __init__(self, config: HeadConfig):
        self.config = config
        width = config.lane_width
        weights = data.ArrayLayout(signed(config.weight_bits), width)
        hidden = data.ArrayLayout(signed(config.hidden_bits), width)
        super().__init__(
            {
                "weights": In(data.ArrayLayout(weights, config.paired_rows)),
                "hidden": In(data.ArrayLayout(hidden, config.paired_vectors)),
                "products": Out(
                    data.ArrayLayout(
                        products_layout(config), config.paired_rows * config.paired_vectors
                    )
                ),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        for lane in range(config.lane_width):
            weights = [row[lane] for row in self.weights]
            hidden = [vector[lane] for vector in self.hidden]
            products = [products[lane] for products in self.products]
            if config.dsp_pairs:
                factors, shared = (weights, hidden) if config.paired_rows > 1 else (hidden, weights)
                multiplier = MultiplierPair(len(factors[0]), len(shared[0]))
                m.d.comb += [
                    multiplier.first.eq(factors[0]),
                    multiplier.second.eq(factors[1]),
                    multiplier.shared.eq(shared[0]),
                    products[0].eq(multiplier.first_product),
                    products[1].eq(multiplier.second_product),
                ]
            else:
                multiplier = Multiplier(config.weight_bits, config.hidden_bits)
                m.d.comb += [
                    multiplier.a.eq(weights[0]),
                    multiplier.b.eq(hidden[0]),
                    products[0].eq(multiplier.product),
                ]
            m.submodules[f"lane{lane}"] = multiplier
        return m
