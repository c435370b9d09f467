"""The accelerator: the blocks in the order in which data flows, and the pins around them."""

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetInserter, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.axi import lite_slave_members, read_master_members, write_master_members
from hw.config import HeadConfig
from hw.control import JobControl
from hw.counters import Counters
from hw.farm import DotFarm
from hw.hidden import HiddenMemory
from hw.plan import TilePlan
from hw.reader import Reader
from hw.register_map import ADDRESS_BITS
from hw.registers import Registers
from hw.results import ResultBuffer
from hw.rows import RowQueue
from hw.scales import ScaleBuffer
from hw.topk import TopK
from hw.unpack import Unpacker
from hw.writer import Writer

CONTROL_PREFIX = "s_axi_control_"
MEMORY_PREFIX = "m_axi_gmem0_"


def head_members(config: HeadConfig) -> dict:
    """The pins of the accelerator, as members of its signature."""
    return (
        {"ap_clk": In(1), "ap_rst_n": In(1), "interrupt": Out(1)}
        | lite_slave_members(ADDRESS_BITS, CONTROL_PREFIX)
        | read_master_members(config.bus_bits, MEMORY_PREFIX)
        | write_master_members(config.bus_bits, MEMORY_PREFIX)
    )


class Head(wiring.Component):
    """The language-model head: streams the packed vocabulary and keeps the best `k` rows.

    Data flows reader -> unpacker -> {hidden memory, scale buffer, farm} -> row queue -> top-k ->
    result buffer -> writer; the job control starts each stage and the registers report.

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
    m_axi_gmem0_* :
        AXI4 master.
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
        m.submodules.reader = reader = Reader(config)
        m.submodules.writer = writer = Writer(config)

        datapath = ResetInserter(control.clear)
        plan = TilePlan(config)
        unpacker = Unpacker(config)
        hidden = HiddenMemory(config)
        scales = ScaleBuffer(config)
        farm = DotFarm(config)
        rows = RowQueue(config)
        topk = TopK(config)
        results = ResultBuffer(config)
        m.submodules.plan = datapath(plan)
        m.submodules.unpacker = datapath(unpacker)
        m.submodules.hidden = datapath(hidden)
        m.submodules.scales = datapath(scales)
        m.submodules.farm = datapath(farm)
        m.submodules.rows = datapath(rows)
        m.submodules.topk = datapath(topk)
        m.submodules.results = datapath(results)

        self._connect_pins(m, registers, CONTROL_PREFIX, lite_slave_members(ADDRESS_BITS))
        self._connect_pins(m, reader, MEMORY_PREFIX, read_master_members(config.bus_bits))
        self._connect_pins(m, writer, MEMORY_PREFIX, write_master_members(config.bus_bits))

        # The data path.
        connect(m, reader.o, unpacker.i)
        connect(m, unpacker.hidden, hidden.i)
        connect(m, unpacker.header, scales.i)
        connect(m, unpacker.body, farm.body)
        connect(m, scales.o, farm.scales)
        connect(m, rows.o, topk.i)
        connect(m, topk.o, results.i)
        connect(m, results.o, writer.i)
        m.d.comb += [
            hidden.address.eq(farm.hidden_address),
            farm.hidden.eq(hidden.slice),
            farm.hidden_loaded.eq(hidden.loaded),
            rows.valid.eq(farm.scores_valid),
            rows.scores.eq(farm.scores),
            farm.release.eq(rows.release),
        ]

        # The job.
        connect(m, registers.start, control.job)
        connect(m, control.read, reader.command)
        connect(m, control.write, writer.command)
        m.d.comb += [
            plan.start.eq(control.start_plan),
            plan.rows.eq(control.rows),
            plan.dim.eq(control.dim),
            unpacker.start.eq(control.start_data),
            unpacker.plan.eq(plan.plan),
            unpacker.plan_ready.eq(plan.ready),
            hidden.restart.eq(control.start_data),
            hidden.beats.eq(plan.plan.hidden_beats),
            farm.plan.eq(plan.plan),
            rows.start.eq(control.start_plan),
            rows.rows.eq(control.rows),
            topk.clear.eq(control.start_plan),
            topk.k.eq(control.k),
            topk.drain.eq(control.drain),
            results.start.eq(control.start_plan),
            results.k.eq(control.k),
            results.send_records.eq(control.send_records),
            results.send_trailer.eq(control.send_trailer),
            results.status.eq(control.status),
            results.job.eq(registers.jobs + 1),
            control.plan.eq(plan.plan),
            control.unpacked.eq(unpacker.done),
            control.excess.eq(unpacker.excess),
            control.rows_done.eq(rows.done),
            control.collected.eq(results.collected),
            control.record_beats.eq(results.beats),
            control.read_idle.eq(reader.idle),
            control.read_error.eq(reader.error),
            control.write_idle.eq(writer.idle),
            control.write_error.eq(writer.error),
            reader.abort.eq(control.abort),
            writer.abort.eq(control.abort),
            control.soft_reset.eq(registers.soft_reset),
            registers.reset_done.eq(control.reset_done),
            registers.idle.eq(control.idle),
            registers.done.eq(control.done),
            registers.status.eq(control.status),
            self.interrupt.eq(registers.interrupt),
        ]

        # Statistics.
        m.d.comb += [
            counters.begin.eq(control.begin),
            counters.end.eq(control.done),
            counters.beat.eq(reader.beat),
            counters.address.eq(reader.address),
            counters.address_wait.eq(reader.address_wait),
            counters.outstanding_beats.eq(reader.outstanding_beats),
            counters.active.eq(reader.active),
            counters.stream_valid.eq(reader.o.valid),
            counters.stream_ready.eq(reader.o.ready),
            counters.rows_taken.eq(rows.o.valid & rows.o.ready),
            counters.inserted.eq(topk.inserted),
            counters.write_beat.eq(writer.beat),
            results.counters.eq(counters.counters),
            registers.counters.eq(counters.counters),
        ]
        return m
