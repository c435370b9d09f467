"""The life of a job: the stage that streams it, the stage that writes its results."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from hw.config import HeadConfig
from hw.finish_control import FinishControl, finish_members
from hw.stream_control import StreamControl, stream_members


class JobControl(wiring.Component):
    """Runs jobs in two stages: the first checks and streams, the second collects and writes.

    A job is accepted when both are idle; with ``config.job_queue`` when the first is, so that the
    next job streams while the results of the one before are written. Jobs end in their order. One
    that has all scores written waits for the one before to end, since both write.

    A job with a bad argument ends without bus traffic. After a failure on the bus, or an image of
    the wrong length, what was requested is drained, the data path is reset and only the trailer of
    the result block is written. A read error belongs to the job that streams, a write error to the
    one whose scores or results are written; neither touches the other job. A soft reset drops
    both and writes nothing: each gives a `done` with status RESET, then comes `reset_done`.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    job : In(stream of job_layout(config))
    soft_reset : In
        Level; answered with a pulse on `reset_done`.
    hold : In
        No job may end; only looked at with ``config.job_queue``.
    done, status : Out
        Pulse at the end of a job, with its status code.
    idle : Out
        No job runs.

    begin : Out
        Pulse in the clock whose edge accepts a job.
    rows, dim, vectors, k : Out
        Arguments of the job in the first stage, stable while it is there.
    bank : Out
        Which half of what is double with ``config.job_queue`` is its own, otherwise 0.
    start_plan, start_data : Out
        Pulses. The first begins the plan, the rankers and what goes with them, the second, when the
        beat count of the hidden vectors is right, the data path.
    plan : In(ArrayLayout of PlanLayout)
        Of each channel.
    hidden_ready, plan_ready : In
        `hidden_beats` is right, only looked at with a batch of two or more; all of the plan is. Low
        from the clock after `start_plan` on, the first only where it has to be computed.
    read0... : Out(stream)
        Memory segments for the reader of each channel. Channel 0 reads the hidden vectors.
    mask_read0... : Out(stream), mask_enable : Out
        With ``config.mask``: the segments of the masks, and whether the job has them.
    read_idle, image_idle, read_error : In(channels)
        The second of hidden vectors and image alone.
    read_abort, write_abort : Out
        Levels for all readers and all writers. What writes is reset in the last clock of the
        latter.
    unpacked, excess : In(channels)
        From the unpackers.
    rows_done : In
        All rows of all channels are ranked or about to be, and summed.
    write_logits, logits_address, logits_flush : Out, logits_done : In(channels)
        With ``config.all_logits``: whether the scores of the job are written, where to, that all
        were given; that all were handed to the writers, which `write_idle` then shows.
    hand_over : Out
        Pulse: the last clock of the job in the first stage. The second begins with the next one.
    clear : Out
        Pulse: resets what streams.

    drain_k, drain_vectors, drain_bank : Out
        Arguments and bank of the job in the second stage, stable while it is there.
    drain, drain_vector : Out
        Pulse: the top-ks of that vector give up their entries, the result buffer collects them and
        log-sum-exps are merged.
    drain_ready : In
        The top-ks of `drain_vector` and `drain_bank` can be drained.
    collected, merged : In
        The entries are in the result buffer; the log-sum-exp is known. Low from the clock after
        `drain` until then. `merged` only with ``config.logsumexp``.
    record_beats : In
        From the result buffer: beats of a vector, right a clock after `drain_k`.
    send_records, send_trailer : Out
        Pulses for it, a clock after the command to write that part was taken.
    write : Out(stream)
        Memory segments for the writer of channel 0.
    write_idle, write_error : In(write_ports(config))
        Of the writers. One is idle when all it was given is written and answered, and nothing is
        on the way to it.
    clear_finish : Out
        Pulse: resets what collects. Without ``config.job_queue`` the same signal as `clear`.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            stream_members(config)
            | finish_members(config)
            | {
                "reset_done": Out(1),
                "idle": Out(1),
                "write_abort": Out(1),
                "clear": Out(1),
                "clear_finish": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.stream = first = StreamControl(self.config)
        m.submodules.finish = second = FinishControl(self.config)
        for stage, members in (
            (first, stream_members(self.config)),
            (second, finish_members(self.config)),
        ):
            for name, member in members.items():
                inner, outer = getattr(stage, name), getattr(self, name)
                if member.is_signature:
                    connect(m, inner, flipped(outer))
                elif member.flow == In:
                    m.d.comb += inner.eq(outer)
                else:
                    m.d.comb += outer.eq(inner)
        m.d.comb += [
            first.write_idle.eq(self.write_idle),
            first.write_error.eq(self.write_error),
            first.finish_idle.eq(second.idle),
            self.write_abort.eq(first.write_abort | second.write_abort),
            self.idle.eq(first.idle & second.idle),
        ]
        # A pulse from a flip-flop. Nothing begins while the soft reset is on.
        m.d.sync += self.reset_done.eq(self.soft_reset & self.idle & ~self.reset_done)
        for name in ("hand_over", "failure", "quiet", "result_address", "k", "vectors", "bank"):
            m.d.comb += getattr(second, name).eq(getattr(first, name))
        # From one flip-flop each, high in the state CLEAR: they reach far.
        if self.config.job_queue:
            m.d.sync += [
                self.clear.eq(first.clear_next),
                self.clear_finish.eq(second.clear_next),
            ]
        else:
            m.d.sync += self.clear.eq(first.clear_next | second.clear_next)
            m.d.comb += self.clear_finish.eq(self.clear)
        return m
