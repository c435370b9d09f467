"""The life of a job: arguments checked, data path started, results written, errors cleared up."""

from contextlib import contextmanager

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import bus_size
from hw.burst import segment_layout
from hw.config import HeadConfig
from hw.plan import PlanLayout
from hw.reader import BEATS_BITS as READ_BEATS_BITS
from hw.registers import JOB_LAYOUT
from hw.results import TRAILER_BYTES, record_beats
from hw.status import Status
from hw.writer import BEATS_BITS as WRITE_BEATS_BITS

PLAN_SETTLE_CLOCKS = 3
"""Clocks until the beat counts of the plan are right."""


class JobControl(wiring.Component):
    """Runs one job at a time.

    A job with a bad argument ends at once, without bus traffic. After a failure on the bus, or an
    image of the wrong length, what was requested is drained, the data path is reset and only the
    trailer of the result block is written. A soft reset does the same and writes nothing.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    job : In(stream of JOB_LAYOUT)
    soft_reset : In
        Level; answered with a pulse on `reset_done`.
    done, status : Out
        Pulse at the end of a job, with its status code.
    idle : Out
        No job runs.
    begin : Out
        Pulse in the clock whose edge accepts a job.
    rows, dim, k : Out
        Arguments of the job, checked, stable while it runs.
    start_plan, start_data : Out
        Pulses. The first begins the plan, the top-k and the result buffer, the second, when the
        plan's beat counts are right, the unpacker and the hidden memory.
    plan : In(PlanLayout)
    read, write : Out(stream)
        Memory segments for the reader and the writer.
    read_idle, read_error, write_idle, write_error : In
    abort : Out
        Level for reader and writer.
    unpacked, excess : In
        From the unpacker.
    rows_done : In
    drain : Out
        Pulse: the top-k gives up its entries.
    collected, record_beats : In
        From the result buffer.
    send_records, send_trailer : Out
        Pulses for it.
    clear : Out
        Resets the data path.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "job": In(stream.Signature(JOB_LAYOUT)),
                "soft_reset": In(1),
                "reset_done": Out(1),
                "done": Out(1),
                "status": Out(8),
                "idle": Out(1),
                "begin": Out(1),
                "rows": Out(range(config.max_rows + 1)),
                "dim": Out(range(config.max_dim + 1)),
                "k": Out(range(config.k + 1)),
                "start_plan": Out(1),
                "start_data": Out(1),
                "plan": In(PlanLayout(config)),
                "read": Out(stream.Signature(segment_layout(READ_BEATS_BITS))),
                "read_idle": In(1),
                "read_error": In(1),
                "write": Out(stream.Signature(segment_layout(WRITE_BEATS_BITS))),
                "write_idle": In(1),
                "write_error": In(1),
                "abort": Out(1),
                "unpacked": In(1),
                "excess": In(1),
                "rows_done": In(1),
                "drain": Out(1),
                "collected": In(1),
                "record_beats": In(range(record_beats(config, config.k) + 1)),
                "send_records": Out(1),
                "send_trailer": Out(1),
                "clear": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        size = bus_size(config.bus_bits)
        job = Signal(JOB_LAYOUT, reset_less=True)
        image_beats = job.image_bytes >> size
        m.d.comb += [self.rows.eq(job.rows), self.dim.eq(job.dim), self.k.eq(job.k)]

        # Every check has a flip-flop; the first that fails, in the order of codes, is reported.
        faults = self._faults(m, job, image_beats)

        failure = Signal(Status)
        with m.If(failure == Status.OK):
            with m.If(self.read_error):
                m.d.sync += failure.eq(Status.READ)
            with m.Elif(self.write_error):
                m.d.sync += failure.eq(Status.WRITE)
        m.d.comb += self.status.eq(failure)

        settle = Signal(range(PLAN_SETTLE_CLOCKS + 1))
        resetting = Signal()
        read_ended = Signal()
        trailer_address = Signal(64, reset_less=True)
        m.d.sync += [
            read_ended.eq(self.read_idle),
            trailer_address.eq(job.result_address + (self.record_beats << size)),
        ]

        @contextmanager
        def state(name):
            """A state that a soft reset leaves at once."""
            with m.State(name):
                yield
                with m.If(self.soft_reset):
                    m.d.sync += resetting.eq(1)
                    m.next = "ABORT"

        with m.FSM(name="job") as fsm:
            m.d.comb += self.idle.eq(fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += [
                    self.job.ready.eq(~self.soft_reset),
                    self.begin.eq(self.job.valid & self.job.ready),
                    self.reset_done.eq(self.soft_reset),
                ]
                with m.If(self.begin):
                    m.d.sync += [job.eq(self.job.payload), failure.eq(Status.OK)]
                    m.next = "CHECK"
            with state("CHECK"):
                m.next = "JUDGE"
            with state("JUDGE"):
                m.next = "PLAN"
                for code, fault in reversed(faults.items()):
                    with m.If(fault):
                        m.d.sync += failure.eq(code)
                        m.next = "END"
            with state("PLAN"):
                m.d.comb += self.start_plan.eq(1)
                m.d.sync += settle.eq(PLAN_SETTLE_CLOCKS)
                m.next = "SETTLE"
            with state("SETTLE"):
                m.d.sync += settle.eq(settle - 1)
                with m.If(settle == 0):
                    m.d.comb += self.start_data.eq(1)
                    m.next = "FETCH_HIDDEN"
            with state("FETCH_HIDDEN"):
                m.d.comb += [
                    self.read.valid.eq(1),
                    self.read.payload.address.eq(job.hidden_address),
                    self.read.payload.beats.eq(self.plan.hidden_beats),
                ]
                with m.If(self.read.ready):
                    m.next = "FETCH_IMAGE"
            with state("FETCH_IMAGE"):
                m.d.comb += [
                    self.read.valid.eq(1),
                    self.read.payload.address.eq(job.image_address),
                    self.read.payload.beats.eq(image_beats),
                ]
                with m.If(self.read.ready):
                    m.next = "RUN"
            with state("RUN"):
                with m.If(self.excess | (self.read_idle & read_ended & ~self.unpacked)):
                    with m.If(failure == Status.OK):
                        m.d.sync += failure.eq(Status.LENGTH)
                    m.next = "ABORT"
                with m.Elif(self.rows_done & self.unpacked & self.read_idle):
                    m.d.comb += self.drain.eq(1)
                    m.next = "COLLECT"
                with m.If(failure != Status.OK):
                    m.next = "ABORT"
            with state("COLLECT"), m.If(self.collected):
                m.next = "COMMAND_RECORDS"
            with state("COMMAND_RECORDS"):
                m.d.comb += [
                    self.write.valid.eq(1),
                    self.write.payload.address.eq(job.result_address),
                    self.write.payload.beats.eq(self.record_beats),
                ]
                with m.If(self.write.ready):
                    m.d.comb += self.send_records.eq(1)
                    m.next = "WRITE_RECORDS"
            with state("WRITE_RECORDS"), m.If(self.write_idle):
                m.next = "COMMAND_TRAILER"
            with state("COMMAND_TRAILER"):
                m.d.comb += [
                    self.write.valid.eq(1),
                    self.write.payload.address.eq(trailer_address),
                    self.write.payload.beats.eq(TRAILER_BYTES >> size),
                ]
                with m.If(self.write.ready):
                    m.d.comb += self.send_trailer.eq(1)
                    m.next = "WRITE_TRAILER"
            with state("WRITE_TRAILER"), m.If(self.write_idle):
                m.next = "END"
            with m.State("ABORT"):
                m.d.comb += self.abort.eq(1)
                with m.If(self.soft_reset):
                    m.d.sync += resetting.eq(1)
                with m.If(self.read_idle & self.write_idle & read_ended):
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.comb += self.clear.eq(1)
                m.next = "COMMAND_TRAILER"
                with m.If(resetting):
                    m.d.sync += failure.eq(Status.RESET)
                    m.next = "END"
            with m.State("END"):
                m.d.comb += self.done.eq(1)
                m.d.sync += resetting.eq(0)
                m.next = "IDLE"
        return m

    def _faults(self, m, job, image_beats) -> dict[Status, Signal]:
        """Flip-flops that say what is wrong with `job`, in the order of codes."""
        config = self.config
        size = bus_size(config.bus_bits)
        wrong = {
            Status.ROWS: (job.rows == 0) | (job.rows > config.max_rows),
            Status.DIM: (job.dim == 0) | (job.dim > config.max_dim),
            Status.K: (job.k == 0) | (job.k > config.k),
            Status.VECTORS: job.vectors != 1,
            Status.ALIGNMENT: (
                job.hidden_address[:size] | job.result_address[:size] | job.image_address[:size]
            ).any(),
            Status.FORMAT: job.format != config.format_word,
            Status.LENGTH: job.image_bytes[:size].any()
            | (image_beats == 0)
            | (image_beats >> READ_BEATS_BITS).any(),
        }
        faults = {}
        for code, condition in wrong.items():
            faults[code] = Signal(name=f"fault_{code.name.lower()}", reset_less=True)
            m.d.sync += faults[code].eq(condition)
        return faults
