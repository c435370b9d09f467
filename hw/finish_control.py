"""The second stage of a job: results collected and written, then the trailer, then its end."""

from contextlib import contextmanager

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import bus_size
from hw.burst import segment_layout
from hw.config import HeadConfig
from hw.counters import write_ports
from hw.results import record_beats, trailer_beats
from hw.status import Status
from hw.writer import BEATS_BITS


def finish_members(config: HeadConfig) -> dict:
    """The members of `FinishControl` that `JobControl` has as well."""
    members = {
        "soft_reset": In(1),
        "hold": In(1),
        "done": Out(1),
        "status": Out(8),
        "drain_k": Out(range(config.k + 1)),
        "drain_vectors": Out(range(config.batch + 1)),
        "drain_vector": Out(range(max(2, config.batch))),
        "drain_bank": Out(1),
        "drain_ready": In(1),
        "drain": Out(1),
        "collected": In(1),
        "record_beats": In(range(record_beats(config, config.k) + 1)),
        "send_records": Out(1),
        "send_trailer": Out(1),
        "write": Out(stream.Signature(segment_layout(BEATS_BITS))),
        "write_idle": In(write_ports(config)),
        "write_error": In(write_ports(config)),
    }
    if config.logsumexp:
        members["merged"] = In(1)
    return members


class FinishControl(wiring.Component):
    """Has the results of a job collected and written, vector by vector, and ends it.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    finish_members(config)
        See `JobControl`.
    hand_over : In
        Pulse while `idle`: a job, described by the following in this clock and, without
        ``config.job_queue``, until it ends.
    failure : In(Status)
        What it failed with so far; then only the trailer is written.
    quiet : In
        Nothing at all is written.
    result_address, k, vectors, bank : In
    idle : Out
        No job is here.
    write_abort, clear_next : Out
        Level, and pulse in the clock before its last one: a soft reset drops the job.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            finish_members(config)
            | {
                "hand_over": In(1),
                "failure": In(Status),
                "quiet": In(1),
                "result_address": In(64),
                "k": In(range(config.k + 1)),
                "vectors": In(range(config.batch + 1)),
                "bank": In(1),
                "idle": Out(1),
                "write_abort": Out(1),
                "clear_next": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        size = bus_size(config.bus_bits)

        kept = [
            (self.drain_k, self.k),
            (self.drain_vectors, self.vectors),
            (self.drain_bank, self.bank),
        ]
        if config.job_queue:
            with m.If(self.hand_over):
                m.d.sync += [copy.eq(value) for copy, value in kept]
        else:
            m.d.comb += [copy.eq(value) for copy, value in kept]

        failure = Signal(Status)
        m.d.comb += self.status.eq(failure)
        with m.If((failure == Status.OK) & self.write_error.any()):
            m.d.sync += failure.eq(Status.WRITE)

        address = Signal(64, reset_less=True)
        last_vector = self.drain_vector + 1 == self.drain_vectors if config.batch > 1 else 1
        # From a register, since the writer subtracts from it: the records' in all states before
        # their command, the trailer's from the one before its own.
        beats = Signal(BEATS_BITS, reset_less=True)
        next_vector = Signal()
        m.d.comb += [
            self.write.payload.address.eq(address),
            self.write.payload.beats.eq(beats),
        ]
        m.d.sync += beats.eq(self.record_beats)
        trailer_next = beats.eq(trailer_beats(config))
        # The sum has a clock to itself: `next_vector` is high in an address's second one at the
        # earliest.
        following = Signal.like(address)
        m.d.sync += following.eq(address + (self.record_beats << size))
        with m.If(next_vector):
            m.d.sync += address.eq(following)

        # A job ends when the one before is acknowledged.
        end = "HOLD" if config.job_queue else "END"

        @contextmanager
        def state(name):
            """A state that a soft reset leaves at once."""
            with m.State(name):
                yield
                with m.If(self.soft_reset):
                    m.next = "ABORT"

        def go_on(after_last, otherwise):
            m.next = after_last
            if config.batch > 1:
                with m.If(~last_vector):
                    m.d.sync += self.drain_vector.eq(self.drain_vector + 1)
                    m.next = otherwise

        # From flip-flops, since they reach far: high in the state END, from the second clock of
        # ABORT to CLEAR, and a clock after the commands for a vector and the trailer.
        m.d.sync += [self.done.eq(0), self.write_abort.eq(0)]
        m.d.sync += [self.send_records.eq(0), self.send_trailer.eq(0), next_vector.eq(0)]
        with m.FSM(name="finish") as fsm:
            m.d.comb += self.idle.eq(fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                # Followed until a job comes: many enables do not wait for it.
                m.d.sync += [failure.eq(self.failure), address.eq(self.result_address)]
                if config.batch > 1:
                    m.d.sync += self.drain_vector.eq(0)
                with m.If(self.hand_over):
                    m.next = "DRAIN"
                    with m.If(self.quiet):
                        m.next = end
                        m.d.sync += self.done.eq(end == "END")
                    with m.Elif(self.failure != Status.OK):
                        m.next = "SETTLE"
            with state("DRAIN"), m.If(self.drain_ready):
                m.d.comb += self.drain.eq(1)
                m.next = "COLLECT"
            with state("COLLECT"):
                merged = self.merged if config.logsumexp else 1
                with m.If(self.collected & merged):
                    m.next = "COMMAND_RECORDS"
            with state("COMMAND_RECORDS"):
                m.d.comb += self.write.valid.eq(1)
                with m.If(self.write.ready):
                    m.d.sync += [self.send_records.eq(1), next_vector.eq(1)]
                    m.next = "WRITE_RECORDS"
            with state("WRITE_RECORDS"):
                m.d.sync += trailer_next
                with m.If(self.write_idle[0]):
                    go_on("COMMAND_TRAILER", "DRAIN")
            # After a failure: the place of the records is left out, when its size is known.
            with state("SETTLE"):
                m.next = "ADD"
            with state("ADD"):
                m.d.sync += next_vector.eq(1)
                m.next = "SKIP"
            with state("SKIP"):
                m.d.sync += trailer_next
                go_on("COMMAND_TRAILER", "ADD")
            with state("COMMAND_TRAILER"):
                m.d.comb += self.write.valid.eq(1)
                m.d.sync += trailer_next
                with m.If(self.write.ready):
                    m.d.sync += self.send_trailer.eq(1)
                    m.next = "WRITE_TRAILER"
            with state("WRITE_TRAILER"), m.If(self.write_idle[0]):
                m.next = end
                m.d.sync += self.done.eq(~self.soft_reset if end == "END" else 0)
            if config.job_queue:
                with state("HOLD"), m.If(~self.hold):
                    m.next = "END"
                    m.d.sync += self.done.eq(~self.soft_reset)
            with m.State("ABORT"):
                m.d.sync += self.write_abort.eq(1)
                with m.If(self.write_abort & self.write_idle.all()):
                    m.d.comb += self.clear_next.eq(1)
                    m.next = "CLEAR"
            with m.State("CLEAR"):
                m.d.sync += [failure.eq(Status.RESET), self.done.eq(1)]
                m.next = "END"
            with m.State("END"):
                m.next = "IDLE"
        return m
