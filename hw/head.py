"""The accelerator: the blocks in the order in which data flows, and the pins around them."""

from amaranth.hdl import (
    Array,
    Cat,
    ClockDomain,
    ClockSignal,
    Module,
    ResetInserter,
    ResetSignal,
    Signal,
)
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.axi import lite_slave_members
from hw.channel import MemoryChannel, has_writer, master_members
from hw.config import HeadConfig
from hw.control import JobControl
from hw.counters import Counters
from hw.logsumexp_merge import LogSumExpMerger
from hw.plan import TilePlan
from hw.register_map import ADDRESS_BITS
from hw.registers import Registers
from hw.results import ResultBuffer

CONTROL_PREFIX = "s_axi_control_"


def memory_prefix(channel: int) -> str:
    """Prefix of the pins of a channel's AXI4 master."""
    return f"m_axi_gmem{channel}_"


def head_members(config: HeadConfig) -> dict:
    """The pins of the accelerator, as members of its signature."""
    members = {"ap_clk": In(1), "ap_rst_n": In(1), "interrupt": Out(1)}
    members |= lite_slave_members(ADDRESS_BITS, CONTROL_PREFIX)
    for channel in range(config.channels):
        members |= master_members(config, channel, memory_prefix(channel))
    return members


class Head(wiring.Component):
    """The language-model head: streams the packed vocabulary and keeps the best `k` rows.

    Each memory channel scores its rows and keeps the best of them; the result buffer merges them
    and writes them by channel 0. The job control starts each stage and the registers report.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    ap_clk, ap_rst_n : In
        Clock, and synchronous reset, low while active.
    interrupt : Out
        Level.
    s_axi_control_* :
        AXI4-Lite slave, see `hw.register_map`.
    m_axi_gmem<c>_* :
        AXI4 master of channel c; without write pins where it never writes.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(head_members(config))

    def _connect_pins(self, m, block, prefix, members):
        for name, member in members.items():
            pin = getattr(self, prefix + name)
            port = getattr(block, name)
            m.d.comb += pin.eq(port) if member.flow == Out else port.eq(pin)

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.domains.sync = ClockDomain()
        m.d.comb += [ClockSignal().eq(self.ap_clk), ResetSignal().eq(~self.ap_rst_n)]

        m.submodules.registers = registers = Registers(config)
        m.submodules.control = control = JobControl(config)
        m.submodules.counters = counters = Counters(config)
        # What is on its way in these is dropped after an error.
        plan = TilePlan(config)
        results = ResultBuffer(config)
        m.submodules.plan = ResetInserter(control.clear)(plan)
        m.submodules.results = ResetInserter(control.clear_finish)(results)
        channels = []
        for index in range(config.channels):
            m.submodules[f"channel{index}"] = channel = MemoryChannel(config, index)
            channels.append(channel)
            self._connect_pins(m, channel, memory_prefix(index), master_members(config, index))
        self._connect_pins(m, registers, CONTROL_PREFIX, lite_slave_members(ADDRESS_BITS))

        self._connect_job(m, registers, control, plan, results, channels)
        for index, channel in enumerate(channels):
            self._connect_channel(m, control, plan, channel, index)
        if config.channels > 1:
            m.d.comb += [channel.hidden_in.eq(channels[0].hidden_out) for channel in channels[1:]]
        if config.has_parameters:
            m.d.comb += [channel.parameters_in.eq(channels[0].parameters) for channel in channels]
        if config.bound:
            self._connect_bound(m, control, results, channels[0])
        if config.logsumexp:
            self._connect_logsumexp(m, control, results, channels)
        self._connect_counters(m, registers, control, counters, results, channels)
        return m

    def _connect_job(self, m, registers, control, plan, results, channels):
        config = self.config
        connect(m, registers.start, control.job)
        connect(m, control.write, channels[0].write)
        connect(m, results.o, channels[0].results)
        for index, channel in enumerate(channels):
            connect(m, channel.entries, getattr(results, f"i{index}"))
        writers = [c for index, c in enumerate(channels) if has_writer(config, index)]
        m.d.comb += [
            plan.start.eq(control.start_plan),
            plan.rows.eq(control.rows),
            plan.dim.eq(control.dim),
            plan.vectors.eq(control.vectors),
            control.plan.eq(plan.plan),
            control.plan_ready.eq(plan.ready),
            control.hidden_ready.eq(plan.hidden_ready),
            control.read_idle.eq(Cat(channel.read_idle for channel in channels)),
            control.image_idle.eq(Cat(channel.image_idle for channel in channels)),
            control.read_error.eq(Cat(channel.read_error for channel in channels)),
            control.write_idle.eq(Cat(channel.write_idle for channel in writers)),
            control.write_error.eq(Cat(channel.write_error for channel in writers)),
            control.unpacked.eq(Cat(channel.unpacked for channel in channels)),
            control.excess.eq(Cat(channel.excess for channel in channels)),
            control.rows_done.eq(Cat(channel.rows_done for channel in channels).all()),
            control.drain_ready.eq(Cat(channel.drain_ready for channel in channels).all()),
            control.collected.eq(results.collected),
            control.record_beats.eq(results.beats),
            results.k.eq(control.drain_k),
            results.collect.eq(control.drain),
            results.send_records.eq(control.send_records),
            results.send_trailer.eq(control.send_trailer),
            results.status.eq(control.status),
            results.job.eq(registers.jobs + 1),
            control.soft_reset.eq(registers.soft_reset),
            control.hold.eq(registers.hold),
            registers.reset_done.eq(control.reset_done),
            registers.idle.eq(control.idle),
            registers.done.eq(control.done),
            registers.status.eq(control.status),
            self.interrupt.eq(registers.interrupt),
        ]
        if config.all_logits:
            m.d.comb += control.logits_done.eq(Cat(channel.logits_done for channel in channels))

    def _connect_channel(self, m, control, plan, channel, index):
        config = self.config
        connect(m, getattr(control, f"read{index}"), channel.read)
        m.d.comb += [
            channel.start_plan.eq(control.start_plan),
            channel.start_data.eq(control.start_data),
            channel.bank.eq(control.bank),
            channel.k.eq(control.k),
            channel.vectors.eq(control.vectors),
            channel.plan.eq(plan.plan[index]),
            channel.plan_ready.eq(plan.ready),
            channel.read_abort.eq(control.read_abort),
            channel.clear.eq(control.clear),
            channel.clear_finish.eq(control.clear_finish),
            channel.drain.eq(control.drain),
            channel.drain_vector.eq(control.drain_vector),
            channel.drain_bank.eq(control.drain_bank),
        ]
        if config.channels == 1:
            m.d.comb += channel.start_rows.eq(control.start_plan)
        else:
            # How many rows a channel has is part of the complete plan.
            was_ready = Signal(name=f"was_ready{index}", init=1)
            m.d.sync += was_ready.eq(plan.ready)
            m.d.comb += channel.start_rows.eq(plan.ready & ~was_ready)
        if config.mask:
            connect(m, getattr(control, f"mask_read{index}"), channel.mask_read)
            m.d.comb += channel.mask_enable.eq(control.mask_enable)
        if config.all_logits:
            m.d.comb += [
                channel.write_logits.eq(control.write_logits),
                channel.logits_address.eq(control.logits_address[index]),
                channel.logits_flush.eq(control.logits_flush),
            ]
        if has_writer(config, index):
            m.d.comb += channel.write_abort.eq(control.write_abort)

    def _connect_bound(self, m, control, results, channel):
        """The bound's multiplier of the vector that is drained.

        The parameters of a job that is handed over make room for those of the next one.
        """
        config = self.config
        multipliers = [channel.parameters[vector].bound for vector in range(config.batch)]
        if config.job_queue:
            kept = []
            for vector, multiplier in enumerate(multipliers):
                kept.append(copy := Signal.like(multiplier, name=f"bound{vector}"))
                with m.If(control.hand_over):
                    m.d.sync += copy.eq(multiplier)
            multipliers = kept
        m.d.comb += results.bound_multiplier.eq(Array(multipliers)[control.drain_vector])

    def _connect_logsumexp(self, m, control, results, channels):
        m.submodules.merger = merger = LogSumExpMerger(self.config, len(channels))
        m.d.comb += [
            merger.start.eq(control.drain),
            control.merged.eq(merger.done),
            results.lse.eq(merger.result),
        ]
        for index, channel in enumerate(channels):
            m.d.comb += [
                merger.top[index].eq(channel.top),
                channel.read_exponent.eq(merger.read_exponent[index]),
                merger.read_sum[index].eq(channel.read_sum),
            ]

    def _connect_counters(self, m, registers, control, counters, results, channels):
        config = self.config
        for name in ("beat", "address", "address_wait", "active", "stream_valid", "stream_ready"):
            events = Cat(getattr(channel, name) for channel in channels)
            m.d.comb += getattr(counters, name).eq(events)
        for index, channel in enumerate(channels):
            m.d.comb += counters.outstanding_beats[index].eq(channel.outstanding_beats)
            m.d.comb += [
                counters.inserted[index * config.rankers + ranker].eq(channel.inserted[ranker])
                for ranker in range(config.rankers)
            ]
        writers = [c for index, c in enumerate(channels) if has_writer(config, index)]
        m.d.comb += [
            counters.begin.eq(control.begin),
            counters.end.eq(control.done),
            counters.rows_taken.eq(Cat(channel.taken for channel in channels)),
            counters.write_beat.eq(Cat(channel.write_beat for channel in writers)),
            results.counters.eq(counters.counters),
            registers.counters.eq(counters.counters),
        ]
        if config.job_queue:
            m.d.comb += [
                counters.hand_over.eq(control.hand_over),
                counters.bank.eq(control.bank),
                counters.drain_bank.eq(control.drain_bank),
            ]
