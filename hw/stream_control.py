"""The first stage of a job: arguments checked, data path started, hidden state and image read."""

from contextlib import contextmanager

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.burst import segment_layout
from hw.config import HeadConfig
from hw.counters import write_ports
from hw.job_check import asks_for, find_faults, image_beats
from hw.plan import PlanLayout, TilePlan
from hw.reader import BEATS_BITS
from hw.register_map import Flag
from hw.registers import job_layout
from hw.status import Status

PLAN_SETTLE_CLOCKS = 3
"""Clocks until the beat counts of the hidden vectors are right in the plan of one vector, and from
the complete plan until the unpackers have followed it."""


CHECK_CLOCKS = 4
"""Clocks of a job up to that of `start_plan`: its arguments are checked and judged."""
FIRST_ADDRESS_CLOCKS = 4
"""Clocks from a reader's command to its ARVALID."""


def start_clocks(config: HeadConfig, vectors: int, channel: int) -> int:
    """Clocks of a job, counted as `cycles` counts them, before the first with ARVALID high for
    anything but a mask on the port of a channel that reads.
    """
    planned = 1 + PLAN_SETTLE_CLOCKS
    if config.batch > 1:
        planned = max(planned, TilePlan.hidden_ready_clocks(config, vectors))
    # The first channel is told to read the hidden vectors, all two clocks later to read the image.
    return CHECK_CLOCKS + planned + FIRST_ADDRESS_CLOCKS + 2 * min(channel, 1)


def stream_members(config: HeadConfig) -> dict:
    """The members of `StreamControl` that `JobControl` has as well."""
    channels = config.channels
    segments = stream.Signature(segment_layout(BEATS_BITS))
    members = {
        "job": In(stream.Signature(job_layout(config))),
        "soft_reset": In(1),
        "begin": Out(1),
        "rows": Out(range(config.max_rows + 1)),
        "dim": Out(range(config.max_dim + 1)),
        "vectors": Out(range(config.batch + 1)),
        "k": Out(range(config.k + 1)),
        "bank": Out(1),
        "start_plan": Out(1),
        "start_data": Out(1),
        "plan": In(data.ArrayLayout(PlanLayout(config), channels)),
        "plan_ready": In(1),
        "hidden_ready": In(1),
    }
    members |= {f"read{channel}": Out(segments) for channel in range(channels)}
    members |= {
        "read_idle": In(channels),
        "image_idle": In(channels),
        "read_error": In(channels),
        "read_abort": Out(1),
        "unpacked": In(channels),
        "excess": In(channels),
        "rows_done": In(1),
        "hand_over": Out(1),
    }
    if config.mask:
        members |= {f"mask_read{channel}": Out(segments) for channel in range(channels)}
        members["mask_enable"] = Out(1)
    if config.all_logits:
        members |= {
            "write_logits": Out(1),
            "logits_address": Out(data.ArrayLayout(64, channels)),
            "logits_flush": Out(1),
            "logits_done": In(channels),
        }
    return members


class StreamControl(wiring.Component):
    """Accepts a job, checks it, starts the data path and reads until all rows are ranked.

    Every job ends in `hand_over`, in the clock of which `failure`, `quiet` and the arguments are
    still its own. A soft reset ends it like a failure.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    stream_members(config)
        See `JobControl`.
    finish_idle : In
        The next stage has no job.
    idle : Out
        No job is here.
    failure : Out(Status)
    quiet : Out
        The job must not write anything.
    result_address : Out(64)
    write_idle, write_error : In(write_ports(config))
    write_abort, clear_next : Out
        Level, and pulse in the clock before its last one.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            stream_members(config)
            | {
                "finish_idle": In(1),
                "idle": Out(1),
                "failure": Out(Status),
                "quiet": Out(1),
                "result_address": Out(64),
                "write_idle": In(write_ports(config)),
                "write_error": In(write_ports(config)),
                "write_abort": Out(1),
                "clear_next": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        job = Signal(job_layout(config), reset_less=True)
        m.d.comb += [
            self.rows.eq(job.rows),
            self.dim.eq(job.dim),
            self.vectors.eq(job.vectors),
            self.k.eq(job.k),
            self.result_address.eq(job.result_address),
        ]
        may_begin = self.finish_idle
        if config.mask:
            m.d.comb += self.mask_enable.eq(asks_for(config, job, Flag.MASK))
        if config.all_logits:
            m.d.comb += self.write_logits.eq(asks_for(config, job, Flag.LOGITS))
            m.d.comb += [
                self.logits_address[channel].eq(job[f"logits{channel}_address"])
                for channel in range(config.channels)
            ]
        if config.job_queue:
            # All scores and the results of the job before would share a port.
            may_begin |= ~asks_for(config, self.job.payload, Flag.LOGITS)
            with m.If(self.hand_over):
                m.d.sync += self.bank.eq(~self.bank)

        # Every check has a flip-flop; the first that fails, in the order of codes, is reported.
        faults = find_faults(m, config, job)
        verdict = Signal(Status, reset_less=True)
        m.d.sync += verdict.eq(Status.OK)
        for code, fault in reversed(faults.items()):
            with m.If(fault):
                m.d.sync += verdict.eq(code)
        failure = self.failure
        with m.If(failure == Status.OK):
            with m.If(self.read_error.any()):
                m.d.sync += failure.eq(Status.READ)
            if config.all_logits:
                with m.Elif(self.write_error.any() & self.write_logits):
                    m.d.sync += failure.eq(Status.WRITE)

        settle = Signal(range(PLAN_SETTLE_CLOCKS + 1))
        resetting = Signal()
        # A reader may be idle for a clock between two of its stages. That it was for two, and had
        # no command meanwhile, is known a clock later, from flip-flops.
        read_was_idle, read_ended = Signal.like(self.read_idle), Signal.like(self.read_idle)
        image_was_idle, image_ended = Signal.like(self.image_idle), Signal.like(self.image_idle)
        m.d.sync += [
            read_was_idle.eq(self.read_idle),
            read_ended.eq(self.read_idle & read_was_idle),
            image_was_idle.eq(self.image_idle),
            image_ended.eq(self.image_idle & image_was_idle),
        ]
        begins = [each.eq(0) for each in (read_was_idle, read_ended, image_was_idle, image_ended)]

        @contextmanager
        def state(name):
            """A state that a soft reset leaves at once."""
            with m.State(name):
                yield
                with m.If(self.soft_reset):
                    m.d.sync += resetting.eq(1)
                    m.next = "ABORT"

        # The arguments are followed while no job is here that needs them: one that begins finds its
        # own, and their many enables do not wait for its acceptance.
        follow = Signal()
        with m.If(follow):
            m.d.sync += job.eq(self.job.payload)
        # Of the clock before: nothing but a job from here ends it, and a job that is offered has
        # had its arguments for longer.
        free = Signal()
        m.d.sync += free.eq(may_begin)

        # From flip-flops, since they reach far: high in the state PLAN, in the first clock of
        # FETCH_HIDDEN, from the second one of ABORT to its end or to CLEAR.
        m.d.sync += [self.start_plan.eq(0), self.start_data.eq(0)]
        m.d.sync += self.read_abort.eq(0)
        if config.all_logits:
            m.d.sync += self.write_abort.eq(0)
        with m.FSM(name="stream") as fsm:
            m.d.comb += self.idle.eq(fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += [
                    self.job.ready.eq(~self.soft_reset & free & follow),
                    self.begin.eq(self.job.valid & self.job.ready),
                ]
                m.d.sync += [
                    resetting.eq(0),
                    failure.eq(Status.OK),
                    self.quiet.eq(0),
                    follow.eq(1 if config.job_queue else may_begin),
                ]
                with m.If(self.begin):
                    m.d.sync += follow.eq(0)
                    m.next = "CHECK"
            with state("CHECK"):
                m.next = "JUDGE"
            with state("JUDGE"):
                m.next = "CONCLUDE"
            with state("CONCLUDE"):
                m.d.sync += self.start_plan.eq((verdict == Status.OK) & ~self.soft_reset)
                m.next = "PLAN"
                with m.If(verdict != Status.OK):
                    m.d.sync += [failure.eq(verdict), self.quiet.eq(1)]
                    m.next = "HAND_OVER"
            with state("PLAN"):
                m.d.sync += settle.eq(PLAN_SETTLE_CLOCKS)
                m.next = "SETTLE"
            with state("SETTLE"):
                with m.If(settle != 0):
                    m.d.sync += settle.eq(settle - 1)
                with m.Elif(self.hidden_ready if config.batch > 1 else 1):
                    m.d.sync += self.start_data.eq(~self.soft_reset)
                    m.next = "FETCH_HIDDEN"
            self._fetch(m, state, job, settle, begins)
            with state("RUN"):
                # A mask waits for the rows that an image cut short does not bring.
                with m.If(self.excess.any() | (image_ended & ~self.unpacked).any()):
                    with m.If(failure == Status.OK):
                        m.d.sync += failure.eq(Status.LENGTH)
                    m.next = "ABORT"
                with m.Elif(self.rows_done & self.unpacked.all() & read_ended.all()):
                    m.next = "FLUSH" if config.all_logits else "HAND_OVER"
                with m.If(failure != Status.OK):
                    m.next = "ABORT"
            if config.all_logits:
                with state("FLUSH"):
                    m.d.comb += self.logits_flush.eq(self.write_logits)
                    flushed = self.logits_done.all() & self.write_idle.all()
                    with m.If(flushed | ~self.write_logits):
                        m.next = "HAND_OVER"
                    with m.If(failure != Status.OK):
                        m.next = "ABORT"
            with m.State("ABORT"):
                drained = self.read_abort & read_ended.all()
                if config.all_logits:
                    m.d.sync += self.write_abort.eq(self.write_logits)
                    drained &= self.write_idle.all() | ~self.write_logits
                m.d.sync += self.read_abort.eq(~drained)
                with m.If(self.soft_reset):
                    m.d.sync += resetting.eq(1)
                with m.If(drained):
                    m.d.comb += self.clear_next.eq(1)
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                with m.If(resetting):
                    m.d.sync += [failure.eq(Status.RESET), self.quiet.eq(1)]
                m.next = "HAND_OVER"
            with m.State("HAND_OVER"):
                with m.If(self.soft_reset & ~resetting):
                    m.d.sync += resetting.eq(1)
                    m.next = "ABORT"
                with m.Elif(self.finish_idle):
                    m.d.comb += self.hand_over.eq(1)
                    m.next = "IDLE"
        return m

    def _fetch(self, m, state, job, settle, begins):
        """States from FETCH_HIDDEN to RUN: the commands for the readers.

        `begins` are statements for the clocks in which there are commands.
        """
        config = self.config
        channels = range(config.channels)
        reads = [getattr(self, f"read{channel}") for channel in channels]
        hidden = Signal()
        image = Signal()
        left = Signal(config.channels)  # whose command has not been taken
        m.d.comb += reads[0].valid.eq(hidden | (image & (left[0] if len(reads) > 1 else 1)))
        # The first channel's commands come from registers: a clock goes by between them.
        turned = Signal()  # to the image
        segment = Signal(reads[0].payload.shape(), reset_less=True)
        m.d.comb += reads[0].payload.eq(segment)
        m.d.sync += [
            turned.eq(turned & ~self.start_plan),
            segment.address.eq(Mux(turned, job.image0_address, job.hidden_address)),
            segment.beats.eq(Mux(turned, image_beats(config, job, 0), self.plan[0].hidden_beats)),
        ]
        for channel in channels[1:]:
            m.d.comb += [
                reads[channel].valid.eq(image & left[channel]),
                reads[channel].payload.address.eq(job[f"image{channel}_address"]),
                reads[channel].payload.beats.eq(image_beats(config, job, channel)),
            ]

        waits_for_plan = config.channels > 1 or config.mask
        with state("FETCH_HIDDEN"):
            m.d.comb += hidden.eq(1)
            with m.If(reads[0].ready):
                m.d.sync += turned.eq(1)
                m.next = "TURN"
            if config.channels > 1:
                wanted = Cat(image_beats(config, job, channel) != 0 for channel in channels)
                m.d.sync += left.eq(wanted)
        with state("TURN"):
            m.next = "FETCH_IMAGE"
        with state("FETCH_IMAGE"):
            m.d.comb += image.eq(1)
            m.d.sync += begins
            taken = Cat(read.ready for read in reads)
            if config.channels > 1:
                m.d.sync += left.eq(left & ~taken)
            with m.If((left & ~taken) == 0 if config.channels > 1 else taken):
                m.next = "AWAIT_PLAN" if waits_for_plan else "RUN"
        if not waits_for_plan:
            return

        # Only a complete plan says what the channels other than the first have to read, and whether
        # that was right.
        with state("AWAIT_PLAN"):
            m.d.sync += settle.eq(PLAN_SETTLE_CLOCKS)
            if config.mask:
                wanted = Cat(self.plan[channel].mask_beats != 0 for channel in channels)
                m.d.sync += left.eq(Mux(self.mask_enable, wanted, 0))
            with m.If(self.plan_ready):
                m.next = "FETCH_MASK"
        with state("FETCH_MASK"):
            with m.If(settle != 0):
                m.d.sync += settle.eq(settle - 1)
            if not config.mask:
                with m.If(settle == 0):
                    m.next = "RUN"
                return
            masks = [getattr(self, f"mask_read{channel}") for channel in channels]
            for channel, read in enumerate(masks):
                m.d.comb += [
                    read.valid.eq(left[channel]),
                    read.payload.address.eq(job[f"mask{channel}_address"]),
                    read.payload.beats.eq(self.plan[channel].mask_beats),
                ]
            taken = Cat(read.ready for read in masks)
            m.d.sync += [left.eq(left & ~taken), *begins]
            with m.If((settle == 0) & ((left & ~taken) == 0)):
                m.next = "RUN"
