"""What the control registers do: job hand-over, job status, interrupt and soft reset."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.register_map import STATUS_BITS, WORD_BITS, Control, Error, Event
from hw.status import Status


class ControlRegisters(wiring.Component):
    """Job hand-over, job status, interrupt and soft reset: the bits of the control registers.

    Parameters
    ----------
    job_queue : bool
        A job is on offer while another runs or DONE is set; two may have been accepted and not
        ended. Otherwise one.

    Members
    -------
    start_write, continue_write, reset_write : In(1)
        A 1 is written to START, CONTINUE, RESET.
    gie_write, ier_write, data
        GIE or IER is written with `data`.
    isr_toggle : In(2), errors_clear : In(12)
        Bits written 1 in ISR and ERRORS.
    offer : Out(1), accept : In(1)
        A job is offered; its hand-over.
    done, status, idle, reset_done, soft_reset, interrupt
        As in `Registers`. Every accepted job has had its `done` by `reset_done`.
    waiting : Out(1)
        START: a job has not been accepted yet.
    hold : Out(1)
        DONE.
    control, gie, ier, isr, last_status, errors, jobs : Out
        Values of the registers.
    """

    def __init__(self, job_queue: bool = False):
        self.job_queue = job_queue
        super().__init__(
            {
                "start_write": In(1),
                "continue_write": In(1),
                "reset_write": In(1),
                "gie_write": In(1),
                "ier_write": In(1),
                "data": In(2),
                "isr_toggle": In(len(Event)),
                "errors_clear": In(len(Error)),
                "offer": Out(1),
                "accept": In(1),
                "done": In(1),
                "status": In(STATUS_BITS),
                "idle": In(1),
                "reset_done": In(1),
                "soft_reset": Out(1),
                "interrupt": Out(1),
                "waiting": Out(1),
                "hold": Out(1),
                "control": Out(len(Control)),
                "gie": Out(1),
                "ier": Out(len(Event)),
                "isr": Out(len(Event)),
                "last_status": Out(STATUS_BITS),
                "errors": Out(len(Error)),
                "jobs": Out(WORD_BITS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        start = Signal()
        done = Signal()
        ready = Signal()
        running = Signal(range(3) if self.job_queue else 1)
        soft_reset = Signal()
        gie = Signal()
        ier = Signal(len(Event))
        isr = Signal(len(Event))
        last_status = Signal(STATUS_BITS)
        errors = Signal(len(Error))
        jobs = Signal(WORD_BITS)
        interrupt = Signal()

        reset_end = soft_reset & self.reset_done

        with m.If(self.accept):
            m.d.sync += [start.eq(0), ready.eq(1)]
        with m.If(self.done):
            m.d.sync += [done.eq(1), jobs.eq(jobs + 1)]
        if self.job_queue:
            m.d.sync += running.eq(running + self.accept - self.done)
        else:
            with m.If(self.accept):
                m.d.sync += running.eq(1)
            with m.If(self.done):
                m.d.sync += running.eq(0)
        with m.If(self.continue_write & done):
            m.d.sync += done.eq(0)
        with m.If(self.reset_write):
            m.d.sync += soft_reset.eq(1)
        with m.If(reset_end):
            m.d.sync += [start.eq(0), ready.eq(0), done.eq(0), soft_reset.eq(0)]
        # Last, so that a start in the very clock in which a soft reset ends is not lost.
        with m.If(self.start_write & ~start):
            m.d.sync += [start.eq(1), ready.eq(0)]

        with m.If(self.done | (reset_end & start)):
            m.d.sync += last_status.eq(Mux(self.done, self.status, Status.RESET))

        happened = Signal(len(Error))
        m.d.comb += happened[0].eq(self.start_write & start)
        for status in Status:
            if status:
                m.d.comb += happened[status].eq(self.done & (self.status == status))
        with m.If(reset_end & start):
            m.d.comb += happened[Status.RESET].eq(1)
        m.d.sync += errors.eq((errors & ~self.errors_clear) | happened)

        # A set wins over a toggle in the same clock, as in AMD's register files.
        events = Cat(self.done, self.accept) & ier
        m.d.sync += isr.eq((isr ^ self.isr_toggle) | events)
        with m.If(reset_end):
            m.d.sync += isr.eq(0)
        with m.If(self.gie_write):
            m.d.sync += gie.eq(self.data[0])
        with m.If(self.ier_write):
            m.d.sync += ier.eq(self.data)
        m.d.sync += interrupt.eq(gie & isr.any())

        free = Const(1) if self.job_queue else ~running & ~done
        m.d.comb += [
            self.offer.eq(start & free & ~soft_reset),
            self.hold.eq(done),
            self.soft_reset.eq(soft_reset),
            self.interrupt.eq(interrupt),
            self.waiting.eq(start),
            self.control.eq(Cat(start, done, self.idle & ~start & ~running.any(), ready)),
            self.gie.eq(gie),
            self.ier.eq(ier),
            self.isr.eq(isr),
            self.last_status.eq(last_status),
            self.errors.eq(errors),
            self.jobs.eq(jobs),
        ]
        return m
