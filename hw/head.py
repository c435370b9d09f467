"""The accelerator: the blocks in the order in which data flows, and the pins around them."""

from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetInserter, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect

from hw.axi import lite_slave_members, read_master_members, write_master_members
from hw.config import HeadConfig
from hw.control import JobControl
from hw.counters import Counters
from hw.datapath import DataPath
from hw.reader import Reader
from hw.register_map import ADDRESS_BITS
from hw.registers import Registers
from hw.results import ResultBuffer
from hw.topk import TopK
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

    Data flows reader -> data path (unpacker, farm, row queue) -> top-k -> result buffer -> writer;
    the job control starts each stage and the registers report.

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

        # What is on its way in these is dropped after an error.
        clearing = ResetInserter(control.clear)
        datapath = DataPath(config)
        topk = TopK(config)
        results = ResultBuffer(config)
        m.submodules.datapath = clearing(datapath)
        m.submodules.topk = clearing(topk)
        m.submodules.results = clearing(results)

        self._connect_pins(m, registers, CONTROL_PREFIX, lite_slave_members(ADDRESS_BITS))
        self._connect_pins(m, reader, MEMORY_PREFIX, read_master_members(config.bus_bits))
        self._connect_pins(m, writer, MEMORY_PREFIX, write_master_members(config.bus_bits))

        connect(m, reader.o, datapath.i)
        connect(m, datapath.o, topk.i)
        connect(m, topk.o, results.i)
        connect(m, results.o, writer.i)

        # The job.
        connect(m, registers.start, control.job)
        connect(m, control.read, reader.command)
        connect(m, control.write, writer.command)
        m.d.comb += [
            datapath.start_plan.eq(control.start_plan),
            datapath.start_data.eq(control.start_data),
            datapath.vocabulary.eq(control.rows),
            datapath.dim.eq(control.dim),
            topk.clear.eq(control.start_plan),
            topk.k.eq(control.k),
            topk.drain.eq(control.drain),
            results.start.eq(control.start_plan),
            results.k.eq(control.k),
            results.send_records.eq(control.send_records),
            results.send_trailer.eq(control.send_trailer),
            results.status.eq(control.status),
            results.job.eq(registers.jobs + 1),
            control.plan.eq(datapath.plan),
            control.unpacked.eq(datapath.unpacked),
            control.excess.eq(datapath.excess),
            control.rows_done.eq(datapath.done),
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
            counters.rows_taken.eq(datapath.o.valid & datapath.o.ready),
            counters.inserted.eq(topk.inserted),
            counters.write_beat.eq(writer.beat),
            results.counters.eq(counters.counters),
            registers.counters.eq(counters.counters),
        ]
        return m
