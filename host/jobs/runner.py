"""Jobs on the accelerator's registers: arguments, start, end, errors and the soft reset."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from host.device import Device, DeviceError
from host.jobs.buffers import JobBuffers, Placement
from host.jobs.capabilities import Capabilities
from host.jobs.logits import read_scores
from host.jobs.registers import Registers
from host.jobs.result_block import (
    ResultBlock,
    parse_results,
    result_bytes,
    trailer_bytes,
    trailer_offset,
)
from hw.counters import CHANNEL_COUNTERS, JOB_COUNTERS, channel_counter
from hw.layout import ImageLayout
from hw.register_map import Control, Event, Flag
from hw.status import Status

POLLS = 100_000
"""Reads of a register that changes by itself, until something is wrong."""


class JobError(DeviceError):
    """A job ended with an error; the next one can be run.

    Attributes
    ----------
    status : Status
    states : range
        The hidden states that the job served.
    """

    def __init__(self, status: Status, message: str, states: range = range(0)):
        super().__init__(message)
        self.status = status
        self.states = states


class JobTimeout(DeviceError, TimeoutError):
    """A job did not end by its deadline; `Head.soft_reset` comes before the next one."""


@dataclass(frozen=True)
class Job:
    """What a job is to do."""

    states: range
    """The hidden states it serves, of all of a run."""
    k: int
    hidden: np.ndarray
    """uint8: vectors and parameters as they lie in memory."""
    counts: Sequence[int]
    """Records that each vector must have."""
    masks: Sequence[np.ndarray] | None = None
    """uint8 by channel, as they lie in memory; None: all rows are allowed."""
    all_logits: bool = False
    """All scores are written to memory as well."""

    @property
    def vectors(self) -> int:
        return len(self.states)


@dataclass(frozen=True)
class Outcome:
    """What a job has left."""

    job: Job
    block: ResultBlock
    counters: dict[str, int]
    """Final values."""
    channel_counters: dict[str, tuple[int, ...]]
    all_scores: np.ndarray | None
    """int64 [vectors, V] if asked for."""

    def without_scores(self) -> "Outcome":
        return replace(self, all_scores=None)


class JobRunner:
    """Runs jobs on one accelerator, as many at a time as it takes.

    A job is put in with `submit` and taken out, in order, with `collect`; at most `depth` may be
    under way.

    Parameters
    ----------
    registers : Registers
    capabilities : Capabilities
    layout : ImageLayout
        Of the image, for this hardware.
    placement : Placement
    """

    def __init__(
        self,
        registers: Registers,
        capabilities: Capabilities,
        layout: ImageLayout,
        placement: Placement,
    ):
        self.registers = registers
        self.device: Device = registers.device
        self.config = capabilities.config
        self.layout = layout
        self.placement = placement
        self._under_way: list[tuple[Job, int, JobBuffers]] = []
        self._next_buffers = 0
        self._next_number = 0

    @property
    def depth(self) -> int:
        """Jobs that may be under way."""
        return len(self.placement.jobs)

    @property
    def under_way(self) -> int:
        """Jobs submitted and not yet collected."""
        return len(self._under_way)

    @property
    def oldest(self) -> Job:
        """The job that `collect` takes out next."""
        return self._under_way[0][0]

    # Preparation.

    def settle(self) -> None:
        """Reset the accelerator if an earlier driver has left it at work.

        Until then its jobs may write to where the image is loaded next.
        """
        control = self.registers.read("CONTROL")
        if not control & Control.IDLE or control & Control.DONE:
            self.soft_reset()

    def configure(self) -> None:
        """Write everything that stays the same from job to job."""
        write, write_wide = self.registers.write, self.registers.write_wide
        write("GIE", 1)
        write("IER", Event.DONE)
        write("ISR", self.registers.read("ISR"))
        write("ERRORS", self.registers.read("ERRORS"))
        write("ROWS", self.layout.rows)
        write("DIM", self.layout.dim)
        write("IMAGE_FORMAT", self.layout.config.format_word)
        for channel, address in enumerate(self.placement.images):
            write_wide(f"IMAGE{channel}_ADDR", address)
            write_wide(f"IMAGE{channel}_BYTES", self.layout.channel_bytes(channel))

    def begin(self) -> None:
        """Begin a run of jobs.

        Raises
        ------
        DeviceError
            The accelerator is not idle.
        """
        control = self.registers.read("CONTROL")
        if not control & Control.IDLE or control & Control.DONE:
            raise DeviceError(
                f"{self.device.name}: still busy with an earlier job ("
                f"{self.registers.status_line()}); call soft_reset() before the next job"
            )
        self._under_way.clear()
        self._next_number = self.registers.read("JOBS")

    # A job.

    def submit(self, job: Job) -> None:
        """Start a job, or queue it behind the one that runs.

        Raises
        ------
        DeviceError
            The accelerator does not take the job before.
        """
        self._await_acceptance()
        buffers = self.placement.jobs[self._next_buffers % self.depth]
        self._next_buffers += 1
        self._next_number = (self._next_number + 1) & 0xFFFF_FFFF
        config, device = self.config, self.device
        device.write_memory(buffers.hidden, job.hidden)
        # An earlier trailer must not be mistaken for this job's.
        trailer = buffers.result + trailer_offset(config, job.k, job.vectors)
        device.write_memory(trailer, np.zeros(trailer_bytes(config), np.uint8))
        write, write_wide = self.registers.write, self.registers.write_wide
        write("K", job.k)
        write("VECTORS", job.vectors)
        write_wide("HIDDEN_ADDR", buffers.hidden)
        write_wide("RESULT_ADDR", buffers.result)
        flags = Flag(0)
        if job.masks is not None:
            flags |= Flag.MASK
            for channel, mask in enumerate(job.masks):
                device.write_memory(buffers.masks[channel], mask)
                write_wide(f"MASK{channel}_ADDR", buffers.masks[channel])
        if job.all_logits:
            flags |= Flag.LOGITS
            for channel, address in enumerate(buffers.logits):
                write_wide(f"LOGITS{channel}_ADDR", address)
        if config.mask or config.all_logits:
            write("FLAGS", flags)
        write("CONTROL", Control.START)
        self._under_way.append((job, self._next_number, buffers))

    def _await_acceptance(self):
        """Until the arguments of the job before are copied: they must not change earlier."""
        if not self._under_way:
            return
        for _ in range(POLLS):
            if not self.registers.read("CONTROL") & Control.START:
                return
        raise DeviceError(
            f"{self.device.name}: job {self._next_number} is not accepted "
            f"({self.registers.status_line()}); call soft_reset() before the next job"
        )

    def collect(self, deadline: int) -> Outcome:
        """Wait for the end of the oldest job under way, at most `deadline` clocks.

        Raises
        ------
        JobError
            It ended with an error status; jobs behind it go on.
        JobTimeout
            It did not end in time.
        DeviceError
            What it wrote is not its result.
        """
        job, number, buffers = self._under_way[0]
        try:
            self.device.wait_interrupt(deadline)
        except TimeoutError:
            raise JobTimeout(
                f"{self.device.name}: job {number} did not end within {deadline} clocks "
                f"({self.registers.status_line()}); call soft_reset() before the next job"
            ) from None
        self._check_status(job, number)
        read = self.registers.read_counter
        channels = range(self.config.channels)
        counters = {counter.name: read(counter.name) for counter in JOB_COUNTERS}
        channel_counters = {
            name: tuple(read(channel_counter(name, channel)) for channel in channels)
            for name, _ in CHANNEL_COUNTERS
        }
        self._acknowledge()
        block = self._read_block(job, number, buffers)
        scores = None
        if job.all_logits:
            scores = read_scores(
                self.layout,
                lambda channel, size: self.device.read_memory(buffers.logits[channel], size),
                job.vectors,
            )
        return Outcome(job, block, counters, channel_counters, scores)

    def _check_status(self, job, number):
        code = self.registers.read("STATUS")
        control = self.registers.read("CONTROL")
        if not control & Control.DONE:
            raise DeviceError(
                f"{self.device.name}: interrupt of job {number} without its end "
                f"({self.registers.status_line()}); call soft_reset() before the next job"
            )
        if code == Status.OK:
            return
        status = Status(code) if code in set(Status) else code
        name = status.name if isinstance(status, Status) else "unknown"
        meaning = status.meaning if isinstance(status, Status) else "unknown code"
        first, last = job.states[0], job.states[-1]
        states = f"state {first}" if first == last else f"states {first} to {last}"
        message = (
            f"{self.device.name}: job {number}, of {states}, ended with status {name} ({code}): "
            f"{meaning} ({self.registers.status_line()})"
        )
        self.registers.write("ERRORS", self.registers.read("ERRORS"))
        self._acknowledge()
        raise JobError(status, message, job.states)

    def _acknowledge(self):
        self._under_way.pop(0)
        # The next job can end, and set its interrupt again, only after CONTINUE.
        self.registers.write("ISR", self.registers.read("ISR"))
        self.registers.write("CONTROL", Control.CONTINUE)

    def _read_block(self, job, number, buffers) -> ResultBlock:
        size = result_bytes(self.config, job.k, job.vectors)
        data = self.device.read_memory(buffers.result, size)
        try:
            block = parse_results(data, self.config, job.k, job.vectors)
        except ValueError as error:
            raise DeviceError(f"{self.device.name}: job {number}: {error}") from None
        found = [len(vector.ids) for vector in block.vectors]
        if block.status != Status.OK or block.job != number or found != list(job.counts):
            raise DeviceError(
                f"{self.device.name}: the result block at {buffers.result:#x} is not that of job "
                f"{number}: it holds job {block.job}, status {block.status}, "
                f"{', '.join(map(str, found))} records"
            )
        return block

    def soft_reset(self) -> None:
        """Drop all jobs; open bursts are drained first.

        Raises
        ------
        DeviceError
            The reset does not end: the memory does not answer open bursts.
        """
        self.registers.write("RESET", 1)
        for _ in range(POLLS):
            if not self.registers.read("RESET") & 1:
                self._under_way.clear()
                return
        raise DeviceError(
            f"{self.device.name}: the soft reset did not end ({self.registers.status_line()}): the "
            "memory does not answer open bursts; reset the whole system"
        )
