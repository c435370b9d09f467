"""What each vector of a job brings besides its hidden state: multipliers and a shift."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import MULTIPLIER_BITS, SHIFT_BITS, HeadConfig, ceil_div
from hw.early_ready import EarlyReady

PARAMETER_BYTES = 16
"""Size of a vector's parameters in memory, before they are padded to whole beats."""


class ParameterLayout(data.StructLayout):
    """Parameters of one vector; those of functions that are not built are zero.

    Members: multipliers of the row terms `bias` and `bound`; `multiplier` and `shift` bring scores
    to the log-sum-exp's unit.
    """

    def __init__(self):
        super().__init__(
            {
                "bias": unsigned(MULTIPLIER_BITS),
                "bound": unsigned(MULTIPLIER_BITS),
                "multiplier": unsigned(MULTIPLIER_BITS),
                "shift": unsigned(SHIFT_BITS),
            }
        )


def parameter_beats(config: HeadConfig) -> int:
    """Bus beats of a vector's parameters, 0 where no function needs any."""
    return ceil_div(PARAMETER_BYTES, config.bus_bytes) if config.has_parameters else 0


class Parameters(wiring.Component):
    """Registers for the parameters of all vectors, filled from the bus, a beat a clock.

    In memory the members of `ParameterLayout` are little-endian words of 32 bits in their order.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    start : In
        One clock: the next beats on `i` are those of vector 0, then of vector 1, and so on.
    vectors : In
        Vectors of the job, stable from `start` on.
    i : In(EarlyReady)
        Bus beats, `parameter_beats` for each vector; always ready.
    o : Out(ArrayLayout of ParameterLayout)
        The parameters by vector, in the clock after their last beat was taken.
    loaded : Out
        Those of all vectors of the job are there; low from the clock after `start`.

    Raises
    ------
    ValueError
        The configuration has no function with parameters.
    """

    def __init__(self, config: HeadConfig):
        if not config.has_parameters:
            raise ValueError("a configuration with bias, bound or logsumexp is needed, got none")
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "vectors": In(range(config.batch + 1)),
                "i": In(EarlyReady(unsigned(config.bus_bits))),
                "loaded": Out(1),
                "o": Out(data.ArrayLayout(ParameterLayout(), config.batch)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beats = parameter_beats(config)
        beat = Signal(range(max(2, beats)))
        vector = Signal(range(max(2, config.batch)))
        m.d.comb += self.i.ready_next.eq(1)

        built = {
            "bias": config.bias,
            "bound": config.bound,
            "multiplier": config.logsumexp,
            "shift": config.logsumexp,
        }
        for number in range(config.batch):
            for place, (name, used) in enumerate(built.items()):
                if not used:
                    continue
                bit = place * MULTIPLIER_BITS
                target = self.o[number][name]
                kept = Signal.like(target, name=f"{name}{number}", reset_less=True)
                m.d.comb += target.eq(kept)
                here = self.i.valid & (vector == number) & (beat == bit // config.bus_bits)
                with m.If(here):
                    m.d.sync += kept.eq(self.i.payload >> bit % config.bus_bits)
        with m.If(self.start):
            m.d.sync += [beat.eq(0), vector.eq(0), self.loaded.eq(0)]
        with m.Elif(self.i.valid):
            m.d.sync += beat.eq(beat + 1)
            with m.If(beat == beats - 1):
                m.d.sync += [beat.eq(0), vector.eq(vector + 1)]
                with m.If(vector == self.vectors - 1):
                    m.d.sync += self.loaded.eq(1)
        return m
