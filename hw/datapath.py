"""From the bus beats of a channel to sums of rows: the blocks behind the reader, connected."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.config import TERM_BITS, HeadConfig
from hw.farm import DotFarm
from hw.header import HeaderFork, term_names
from hw.hidden import HiddenLoader, HiddenMemory, HiddenWrite
from hw.parameters import ParameterLayout, Parameters
from hw.plan import PlanLayout
from hw.rows import sums_layout
from hw.scales import ScaleBuffer
from hw.terms import TermBuffer
from hw.unpack import Unpacker


class DataPath(wiring.Component):
    """Computes the sums of every row of a channel with every vector, in the order of ids.

    Unpacker -> {hidden loader -> hidden memory, parameters, header fork -> {scale buffer, term
    buffers}, farm}; the plan tells all of them what the job's shape is. Hidden states and
    parameters are read by channel 0 alone. It hands the states on while they arrive; the
    parameters of all channels are those that it has.

    Parameters
    ----------
    config : HeadConfig
    channel : int

    Members
    -------
    start_data : In
        One clock, when `hidden_beats` of the plan is right: beats may come from the next clock on.
    plan, plan_ready : In
        Of this channel, from `TilePlan`.
    vectors : In
        Hidden vectors of the job, stable from `start_data`.
    i : In(stream)
        Bus beats: on channel 0 the hidden region, on all the channel's image.
    scores_valid, scores : Out
        As the farm gives them.
    release : In
        A bit per ranker, for one clock: a block has left its row queue.
    bias0, ..., bound0, ... : Out(stream of 16-bit values, signed)
        The row terms that there are, for each ranker; a value for each row, padding rows included.
    parameters : Out(ArrayLayout of ParameterLayout)
        By vector. Only on channel 0 and where there are any.
    hidden_out : Out(HiddenWrite)
        Only on channel 0 of several.
    hidden_in : In(HiddenWrite)
        From channel 0. Only on the others.
    unpacked, excess : Out
        `done` and `excess` of `Unpacker`.

    Raises
    ------
    ValueError
        The configuration has no such channel.
    """

    def __init__(self, config: HeadConfig, channel: int = 0):
        if not 0 <= channel < config.channels:
            raise ValueError(f"channel must be in 0..{config.channels - 1}, got {channel}")
        self.config = config
        self.channel = channel
        members = {
            "start_data": In(1),
            "plan": In(PlanLayout(config)),
            "plan_ready": In(1),
            "vectors": In(range(config.batch + 1)),
            "i": In(stream.Signature(config.bus_bits)),
            "scores_valid": Out(1),
            "scores": Out(sums_layout(config, config.batch)),
            "release": In(config.rankers),
            "unpacked": Out(1),
            "excess": Out(1),
        }
        for name in term_names(config):
            for ranker in range(config.rankers):
                members[f"{name}{ranker}"] = Out(stream.Signature(signed(TERM_BITS)))
        if channel == 0 and config.has_parameters:
            members["parameters"] = Out(data.ArrayLayout(ParameterLayout(), config.batch))
        if channel > 0:
            members["hidden_in"] = In(HiddenWrite(config))
        elif config.channels > 1:
            members["hidden_out"] = Out(HiddenWrite(config))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.unpacker = unpacker = Unpacker(config, self.channel)
        m.submodules.hidden = hidden = HiddenMemory(config)
        m.submodules.header = header = HeaderFork(config)
        m.submodules.scales = scales = ScaleBuffer(config)
        m.submodules.farm = farm = DotFarm(config)
        if self.channel == 0:
            self._load(m, unpacker, hidden, farm)
        else:
            # A clock for the way from channel 0. The farm must not see a `loaded` of the last job.
            write = Signal.like(self.hidden_in, reset_less=True)
            loaded = Signal()
            m.d.sync += [
                write.eq(self.hidden_in),
                loaded.eq(self.hidden_in.loaded & ~self.start_data),
            ]
            m.d.comb += [hidden.write.eq(write), farm.hidden_loaded.eq(loaded)]

        connect(m, flipped(self.i), unpacker.i)
        connect(m, unpacker.header, header.i)
        connect(m, unpacker.body, farm.body)
        connect(m, header.scales, scales.i)
        connect(m, scales.o, farm.scales)
        for term, name in enumerate(term_names(config)):
            for ranker in range(config.rankers):
                m.submodules[f"{name}{ranker}"] = buffer = TermBuffer(config, term)
                connect(m, getattr(header, f"{name}{ranker}"), buffer.i)
                connect(m, buffer.o, flipped(getattr(self, f"{name}{ranker}")))
                m.d.comb += buffer.start.eq(self.start_data)
        m.d.comb += [
            unpacker.start.eq(self.start_data),
            unpacker.vectors.eq(self.vectors),
            unpacker.plan.eq(self.plan),
            unpacker.plan_ready.eq(self.plan_ready),
            self.unpacked.eq(unpacker.done),
            self.excess.eq(unpacker.excess),
            hidden.address.eq(farm.hidden_address),
            farm.hidden.eq(hidden.slice),
            farm.plan.eq(self.plan),
            farm.release.eq(self.release),
            self.scores_valid.eq(farm.scores_valid),
            self.scores.eq(farm.scores),
        ]
        return m

    def _load(self, m, unpacker, hidden, farm):
        """What channel 0 does with the hidden region."""
        config = self.config
        m.submodules.loader = loader = HiddenLoader(config)
        connect(m, unpacker.hidden, loader.i)
        m.d.comb += [
            loader.restart.eq(self.start_data),
            loader.beats.eq(self.plan.state_beats),
            loader.vectors.eq(self.vectors),
            hidden.write.eq(loader.write),
            farm.hidden_loaded.eq(loader.write.loaded),
        ]
        if config.channels > 1:
            m.d.comb += self.hidden_out.eq(loader.write)
        if config.has_parameters:
            m.submodules.parameters = parameters = Parameters(config)
            connect(m, unpacker.parameters, parameters.i)
            m.d.comb += [
                parameters.start.eq(self.start_data),
                parameters.vectors.eq(self.vectors),
                self.parameters.eq(parameters.o),
            ]
            if config.channels > 1:
                # Here the image follows the parameters; the other channels have theirs already.
                loaded = loader.write.loaded & parameters.loaded
                m.d.comb += self.hidden_out.loaded.eq(loaded)
