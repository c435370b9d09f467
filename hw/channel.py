"""One memory channel: an AXI4 master, and everything between it and the sorted rows."""

from amaranth.hdl import Array, Cat, Module, ResetInserter, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.axi import read_master_members, write_master_members
from hw.burst import segment_layout
from hw.config import HeadConfig, log2
from hw.datapath import DataPath
from hw.header import term_names
from hw.hidden import HiddenWrite
from hw.logits import LogitsWriter
from hw.logsumexp import EXPONENT_BITS, TOP_LAYOUT, accumulator_bits
from hw.mask import MaskBuffer
from hw.parameters import ParameterLayout
from hw.plan import PlanLayout
from hw.ranker import Ranker
from hw.reader import BEATS_BITS as READ_BEATS_BITS
from hw.reader import Reader, most_outstanding_beats
from hw.topk import EntryLayout
from hw.write_arbiter import WriteArbiter
from hw.writer import BEATS_BITS as WRITE_BEATS_BITS
from hw.writer import Writer


def has_writer(config: HeadConfig, channel: int) -> bool:
    """Whether a channel's AXI4 master writes: results leave by channel 0, all logits by each."""
    return channel == 0 or config.all_logits


def master_members(config: HeadConfig, channel: int, prefix: str = "") -> dict:
    """The pins of a channel's AXI4 master."""
    members = read_master_members(config.bus_bits, prefix)
    if has_writer(config, channel):
        members |= write_master_members(config.bus_bits, prefix)
    return members


class MemoryChannel(wiring.Component):
    """Reads its part of the image, scores its rows and keeps the best of them for every vector.

    Data flows reader -> data path (unpacker, farm) -> rankers (row queue, terms, top-k,
    log-sum-exp) and, where all scores are written, on to the logits writers. Channel 0 also reads
    the hidden states, which it passes to the others, and writes the results.

    Parameters
    ----------
    config : HeadConfig
    channel : int

    Members
    -------
    ar*, r*, aw*, w*, b* : the AXI4 pins, see `master_members`
    start_plan, start_rows, start_data : In
        Pulses: a job begins; the rows of the channel are known; its beats may come.
    bank, k, vectors, mask_enable, write_logits, logits_address : In
        Of the job that streams.
    plan, plan_ready : In
        From `TilePlan`.
    read, mask_read : In(stream)
        Memory segments.
    read_abort, write_abort, clear, clear_finish : In
        See `JobControl`.
    parameters_in, hidden_in : In
        From channel 0, which has them as `parameters` and `hidden_out`.
    read_idle, image_idle, read_error, write_idle, write_error, unpacked, excess, rows_done : Out
    logits_flush : In
    logits_done : Out
    drain : In
        Pulse: the top-k of `drain_vector` in `drain_bank` gives up its entries.
    drain_ready : Out
        It is ready for that.
    entries : Out(stream of EntryLayout)
    top, read_exponent, read_sum : the log-sum-exp's read port for `drain_vector`
    write, results : In(stream)
        Channel 0: segments and beats of the result block.
    beat, address, address_wait, outstanding_beats, active, stream_valid, stream_ready : Out
    taken, inserted, write_beat : Out
        Events for the counters; `taken` and `inserted` are per ranker.
    """

    def __init__(self, config: HeadConfig, channel: int):
        self.config = config
        self.channel = channel
        self.writes = has_writer(config, channel)
        beat_stream = stream.Signature(unsigned(config.bus_bits))
        read_segment = stream.Signature(segment_layout(READ_BEATS_BITS))
        most = config.ranker_vectors(0)
        members = master_members(config, channel) | {
            "start_plan": In(1),
            "start_rows": In(1),
            "start_data": In(1),
            "bank": In(1),
            "k": In(range(config.k + 1)),
            "vectors": In(range(config.batch + 1)),
            "plan": In(PlanLayout(config)),
            "plan_ready": In(1),
            "read": In(read_segment),
            "read_abort": In(1),
            "clear": In(1),
            "clear_finish": In(1),
            "read_idle": Out(1),
            "image_idle": Out(1),
            "read_error": Out(1),
            "unpacked": Out(1),
            "excess": Out(1),
            "rows_done": Out(1),
            "drain": In(1),
            "drain_vector": In(range(max(2, config.batch))),
            "drain_bank": In(1),
            "drain_ready": Out(1),
            "entries": Out(stream.Signature(EntryLayout(config))),
            "beat": Out(1),
            "address": Out(1),
            "address_wait": Out(1),
            "outstanding_beats": Out(range(most_outstanding_beats(config) + 1)),
            "active": Out(1),
            "stream_valid": Out(1),
            "stream_ready": Out(1),
            "taken": Out(config.rankers),
            "inserted": Out(data.ArrayLayout(range(most + 1), config.rankers)),
        }
        if config.mask:
            members |= {"mask_enable": In(1), "mask_read": In(read_segment)}
        if config.has_parameters:
            parameters = data.ArrayLayout(ParameterLayout(), config.batch)
            members["parameters_in"] = In(parameters)
            if channel == 0:
                members["parameters"] = Out(parameters)
        if config.channels > 1:
            flow, name = (Out, "hidden_out") if channel == 0 else (In, "hidden_in")
            members[name] = flow(HiddenWrite(config))
        if config.logsumexp:
            members |= {
                "top": Out(TOP_LAYOUT),
                "read_exponent": In(signed(EXPONENT_BITS)),
                "read_sum": Out(accumulator_bits(config)),
            }
        if config.all_logits:
            members |= {
                "write_logits": In(1),
                "logits_address": In(64),
                "logits_flush": In(1),
                "logits_done": Out(1),
            }
        if self.writes:
            members |= {
                "write_abort": In(1),
                "write_idle": Out(1),
                "write_error": Out(1),
                "write_beat": Out(1),
            }
        if channel == 0:
            members |= {
                "write": In(stream.Signature(segment_layout(WRITE_BEATS_BITS))),
                "results": In(beat_stream),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.reader = reader = Reader(config)
        datapath = DataPath(config, self.channel)
        m.submodules.datapath = ResetInserter(self.clear)(datapath)
        rankers = []
        for index in range(config.rankers):
            m.submodules[f"ranker{index}"] = ranker = Ranker(config, self.channel, index)
            rankers.append(ranker)
        self._connect_pins(m, reader, read_master_members(config.bus_bits))

        connect(m, flipped(self.read), reader.command)
        connect(m, reader.o, datapath.i)
        m.d.comb += [
            reader.abort.eq(self.read_abort),
            self.read_idle.eq(reader.idle),
            self.image_idle.eq(reader.image_idle),
            self.read_error.eq(reader.error),
            datapath.start_data.eq(self.start_data),
            datapath.plan.eq(self.plan),
            datapath.plan_ready.eq(self.plan_ready),
            datapath.vectors.eq(self.vectors),
            self.unpacked.eq(datapath.unpacked),
            self.excess.eq(datapath.excess),
        ]
        if config.has_parameters and self.channel == 0:
            m.d.comb += self.parameters.eq(datapath.parameters)
        if config.channels > 1:
            side, target = self._broadcast(datapath)
            m.d.comb += target.eq(side)
        if config.mask:
            m.submodules.mask = mask = ResetInserter(self.clear)(MaskBuffer(config))
            connect(m, flipped(self.mask_read), reader.mask_command)
            connect(m, reader.mask_o, mask.i)
            m.d.comb += [
                mask.start.eq(self.start_plan),
                mask.vectors.eq(self.vectors),
                mask.enable.eq(self.mask_enable),
            ]
        for index, ranker in enumerate(rankers):
            self._connect_ranker(m, ranker, index, datapath)
            if config.mask:
                connect(m, getattr(mask, f"o{index}"), ranker.mask)
        self._connect_drain(m, rankers)
        if self.writes:
            self._connect_writer(m, rankers)

        m.d.comb += [
            self.rows_done.eq(Cat(ranker.done for ranker in rankers).all()),
            self.beat.eq(reader.beat),
            self.address.eq(reader.address),
            self.address_wait.eq(reader.address_wait),
            self.outstanding_beats.eq(reader.outstanding_beats),
            self.active.eq(reader.active),
            self.stream_valid.eq(reader.o.valid),
            self.stream_ready.eq(reader.o.ready),
            self.taken.eq(Cat(ranker.taken for ranker in rankers)),
        ]
        m.d.comb += [
            self.inserted[index].eq(ranker.inserted) for index, ranker in enumerate(rankers)
        ]
        return m

    def _connect_pins(self, m, block, members):
        for name, member in members.items():
            pin, port = getattr(self, name), getattr(block, name)
            m.d.comb += pin.eq(port) if member.flow == Out else port.eq(pin)

    def _broadcast(self, datapath):
        """Where the hidden states come from and where they go to."""
        if self.channel == 0:
            return datapath.hidden_out, self.hidden_out
        return self.hidden_in, datapath.hidden_in

    def _vectors(self, index):
        """Vectors of a ranker, by slot."""
        return range(index, self.config.batch, self.config.rankers)

    def _connect_ranker(self, m, ranker, index, datapath):
        config = self.config
        m.d.comb += [
            ranker.start.eq(self.start_rows),
            ranker.bank.eq(self.bank),
            ranker.rows.eq(self.plan.rows),
            ranker.vectors.eq(self.vectors),
            ranker.k.eq(self.k),
            ranker.clear.eq(self.clear),
            ranker.clear_finish.eq(self.clear_finish),
            ranker.scores_valid.eq(datapath.scores_valid),
            datapath.release[index].eq(ranker.release),
        ]
        for slot, vector in enumerate(self._vectors(index)):
            m.d.comb += ranker.scores[slot].eq(datapath.scores[vector])
            if config.has_parameters:
                m.d.comb += ranker.parameters[slot].eq(self.parameters_in[vector])
        for name in term_names(config):
            connect(m, getattr(datapath, f"{name}{index}"), getattr(ranker, name))
        if config.all_logits:
            m.d.comb += ranker.write_logits.eq(self.write_logits)

    def _connect_drain(self, m, rankers):
        config = self.config
        own = self.drain_vector[: log2(config.rankers)]
        for index, ranker in enumerate(rankers):
            selected = own == index if config.rankers > 1 else 1
            m.d.comb += [
                ranker.drain.eq(self.drain & selected),
                ranker.drain_slot.eq(self.drain_vector >> log2(config.rankers)),
                ranker.drain_bank.eq(self.drain_bank),
                ranker.entries.ready.eq(self.entries.ready & selected),
            ]
            if config.logsumexp:
                m.d.comb += ranker.lse_read_exponent.eq(self.read_exponent)

        def chosen(values):
            return Array(values)[own] if config.rankers > 1 else values[0]

        m.d.comb += [
            self.drain_ready.eq(chosen([ranker.ready for ranker in rankers])),
            self.entries.valid.eq(chosen([ranker.entries.valid for ranker in rankers])),
            self.entries.payload.as_value().eq(
                chosen([ranker.entries.payload.as_value() for ranker in rankers])
            ),
        ]
        if config.logsumexp:
            m.d.comb += [
                self.top.as_value().eq(chosen([ranker.lse_top.as_value() for ranker in rankers])),
                self.read_sum.eq(chosen([ranker.lse_read_sum for ranker in rankers])),
            ]

    def _connect_writer(self, m, rankers):
        config = self.config
        m.submodules.writer = writer = Writer(config)
        self._connect_pins(m, writer, write_master_members(config.bus_bits))
        sources = [(flipped(self.write), flipped(self.results))] if self.channel == 0 else []
        if config.all_logits:
            done = []
            for index, ranker in enumerate(rankers):
                logits = LogitsWriter(config, index)
                m.submodules[f"logits{index}"] = ResetInserter(self.clear)(logits)
                connect(m, ranker.logits, logits.i)
                m.d.comb += [
                    logits.start.eq(self.start_plan),
                    logits.address.eq(self.logits_address),
                    logits.flush.eq(self.logits_flush),
                ]
                sources.append((logits.o_command, logits.o))
                done.append(logits.done)
            m.d.comb += self.logits_done.eq(Cat(done).all())
        m.submodules.arbiter = arbiter = ResetInserter(self.write_abort)(
            WriteArbiter(config, len(sources))
        )
        for index, (command, beats) in enumerate(sources):
            connect(m, command, getattr(arbiter, f"command{index}"))
            connect(m, beats, getattr(arbiter, f"i{index}"))
        connect(m, arbiter.command, writer.command)
        connect(m, arbiter.o, writer.i)
        m.d.comb += [
            writer.abort.eq(self.write_abort),
            self.write_idle.eq(writer.idle & arbiter.idle),
            self.write_error.eq(writer.error),
            self.write_beat.eq(writer.beat),
        ]
