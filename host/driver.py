"""The driver: loads a packed head into an accelerator, runs jobs and returns exact results."""

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from host.device import Device
from host.errors import UserError
from host.files.arrays import integer
from host.jobs.buffers import place, state_bytes
from host.jobs.capabilities import identify
from host.jobs.gathering import Gatherer
from host.jobs.hidden import check_hidden, hidden_buffer
from host.jobs.parameters import Vectors, check_temperature, prepare_vectors
from host.jobs.registers import Registers
from host.jobs.runner import Job, JobError, JobRunner, JobTimeout
from host.masks import allowed_rows, check_mask, device_mask
from host.results import Results
from hw.config import ceil_div
from hw.layout import LOGIT_BYTES, ImageLayout

if TYPE_CHECKING:
    from host.image import Image

__all__ = ["Head", "JobError", "JobTimeout"]

HIDDEN_8_WARNING = (
    "hidden_bits is 8: with 8-bit hidden states 8 % of positions lost their top token "
    "(measured on SmolLM2-135M); 16 bits lose none"
)


class Head:
    """A language-model head on an accelerator.

    Opening it checks the image against the hardware and loads the image, once.

    Parameters
    ----------
    device : Device
        Stays the caller's to close.
    image : Image
        A packed head, see `host.image`. It stays mapped while the head is in use.

    Raises
    ------
    DeviceError
        The device is no such accelerator, or does not become idle.
    UserError
        The image does not fit the hardware or its memory; the message names both values.

    Examples
    --------
    >>> with SimDevice(config) as device:
    ...     results = Head(device, Image("head.safetensors")).run(hidden, k=8)
    """

    def __init__(self, device: Device, image: "Image"):
        self.device = device
        self.image = image
        registers = Registers(device)
        self.capabilities = identify(registers)
        self.config = self.capabilities.config
        self.capabilities.check_image(image)
        image.verify()
        if self.config.hidden_bits == 8:
            warnings.warn(HIDDEN_8_WARNING, stacklevel=2)
        self.layout = ImageLayout(self.config, image.rows, image.dim)
        placement = place(self.config, self.layout, device, image.path)
        self._runner = JobRunner(registers, self.capabilities, self.layout, placement)
        self._runner.settle()
        for address, data in zip(placement.images, image.channels, strict=True):
            if data.size:
                device.map_memory(address, data)
        self._runner.configure()

    @property
    def max_k(self) -> int:
        """Most results per state the hardware returns."""
        return self.config.k

    @property
    def hidden_bits(self) -> int:
        """Width of a quantised hidden value."""
        return self.config.hidden_bits

    @property
    def batch(self) -> int:
        """Most states of a job."""
        return self.config.batch

    @property
    def deadline_cycles(self) -> int:
        """Clocks that a job of `batch` states may take: see `deadline`."""
        return self.deadline(self.batch)

    def deadline(self, vectors: int, all_logits: bool = False) -> int:
        """Clocks a job may take: a memory at a 16th of the bus's speed is still in time."""
        layout, config = self.layout, self.config
        beats = max(layout.channel_beats(channel) for channel in range(config.channels))
        clocks = beats * config.fold + 8 * layout.rows * vectors
        if config.mask:
            clocks += layout.mask_beats(0, vectors)
        if all_logits:
            clocks += ceil_div(layout.rows * vectors * LOGIT_BYTES, config.bus_bytes)
        return 100_000 + 16 * clocks

    def run(
        self,
        hidden: np.ndarray,
        k: int,
        progress: Callable[[int, int], None] | None = None,
        deadline_cycles: int | None = None,
        *,
        mask: np.ndarray | None = None,
        all_logits: bool = False,
        logsumexp: bool = False,
        temperature: float | np.ndarray = 1.0,
        softcap: float | None = None,
        batch: int | None = None,
    ) -> Results:
        """Find the k best rows for every hidden state.

        Logits are those of the projection. What a model does to its own is `Image.transform`;
        probabilities and drawing tokens are in `host.sampling`, penalties and logit bias in
        `host.adjustments`, exact scores of any rows in `host.scoring`, and heads of several
        accelerators in `host.shards`.

        Parameters
        ----------
        hidden : real [N, d] or [d]
            States after the model's final norm.
        k : int
            Results per state, 1..`max_k`.
        progress : callable (done, total), optional
            Called after every job with the states that are done.
        deadline_cycles : int, optional
            Clocks one job may take. Default: `deadline` of the head.
        mask : int32 [N, ceil(V / 32)], optional
            Bit ``v % 32`` of word ``v // 32`` is 1 where row v is allowed. Default: all are.
        all_logits : bool
            Return the logits of all rows.
        logsumexp : bool
            Return log(sum(exp(logit / temperature))) over the rows allowed.
        temperature : float or float [N]
            For `logsumexp` alone, above 0.
        softcap : float, optional
            That of the model, whose logits it bends: with `logsumexp` it is refused. Default: that
            of the image.
        batch : int, optional
            States per job. Default: `batch` of the head.

        Raises
        ------
        UserError
            An argument does not fit or holds NaN or infinity (the message names its row), or asks
            for what the hardware cannot do (the message names the option that builds it).
        TypeError
            `hidden`, `k`, `batch` or `deadline_cycles` is of the wrong kind.
        JobError
            A job ended with an error status, which the others do not: those that were under way
            have ended, no further ones were started.
        JobTimeout
            A job did not end by its deadline.
        DeviceError
            The accelerator is still busy, or what it wrote is not this job's result.

        An exception of `progress`, or Ctrl-C, leaves jobs under way: `soft_reset` comes before the
        next run, as after `JobTimeout`.
        """
        k = integer("k", k)
        if not 1 <= k <= self.max_k:
            raise UserError("k", f"must be in 1..{self.max_k} on {self.device.name}", found=k)
        batch = self._check_batch(batch)
        if deadline_cycles is not None and integer("deadline_cycles", deadline_cycles) < 1:
            raise UserError("deadline_cycles", "must be at least 1", found=deadline_cycles)
        self._check_functions(mask, all_logits, logsumexp, softcap)
        hidden = check_hidden(hidden, self.image.dim)
        if logsumexp:
            temperature = check_temperature(temperature, len(hidden))
        if mask is not None:
            mask = check_mask(mask, len(hidden), self.image.rows)
        vectors = prepare_vectors(
            self.image, hidden, self.config.hidden_bits, temperature if logsumexp else None
        )
        _warn_of_losses(vectors.losses)
        gatherer = Gatherer(self.image, vectors, k, mask, all_logits, logsumexp)
        jobs = self._jobs(vectors, k, mask, all_logits, batch)
        self._run_jobs(jobs, gatherer, progress, deadline_cycles)
        return gatherer.results()

    def _check_batch(self, batch: int | None) -> int:
        if batch is None:
            return self.batch
        batch = integer("batch", batch)
        if batch < 1:
            raise UserError("batch", "must be at least 1", found=batch)
        if batch > self.batch:
            raise UserError(
                "batch",
                f"{self.device.name} was built for at most {self.batch}: build it with "
                f"--batch {batch}",
                found=batch,
            )
        return batch

    def _check_functions(self, mask, all_logits, logsumexp, softcap):
        if mask is not None:
            self.capabilities.require("mask", "mask")
        if all_logits:
            self.capabilities.require("all_logits", "all_logits")
        if logsumexp:
            if softcap is None:
                softcap = self.image.transform.softcap
            if softcap is not None:
                raise UserError(
                    "logsumexp",
                    f"adds up logits as they are, but the model bends them with a softcap of "
                    f"{softcap:g}: take all logits (--all-logits) and sum on the host",
                )
            self.capabilities.require("logsumexp", "logsumexp")

    def _jobs(self, vectors: Vectors, k, mask, all_logits, batch) -> Iterator[Job]:
        config = self.config
        size = state_bytes(config, self.layout)
        for start in range(0, len(vectors), batch):
            part = slice(start, min(start + batch, len(vectors)))
            parameters = vectors.parameters[part] if config.has_parameters else None
            counts, masks = [min(k, self.image.rows)] * (part.stop - start), None
            if mask is not None:
                allowed = allowed_rows(mask[part], self.image.rows).sum(axis=1)
                counts = np.minimum(k, allowed).tolist()
                masks = device_mask(self.layout, mask[part])
            yield Job(
                states=range(part.start, part.stop),
                k=k,
                hidden=hidden_buffer(vectors.quantised[part], size, parameters, config.bus_bytes),
                counts=counts,
                masks=masks,
                all_logits=all_logits,
            )

    def _run_jobs(self, jobs: Iterator[Job], gatherer: Gatherer, progress, deadline_cycles):
        """Run jobs, as many at a time as the hardware takes.

        After an error no further job is started; those under way are seen to their end.
        """
        runner = self._runner
        runner.begin()
        failure = None
        job = next(jobs, None)
        while runner.under_way or (job and not failure):
            while job and not failure and runner.under_way < runner.depth:
                runner.submit(job)
                job = next(jobs, None)
            oldest = runner.oldest
            deadline = deadline_cycles or self.deadline(oldest.vectors, oldest.all_logits)
            try:
                outcome = runner.collect(deadline)
            except JobError as error:
                failure = failure or error
                continue
            gatherer.add(outcome)
            if progress is not None:
                progress(oldest.states.stop, len(gatherer))
        if failure:
            raise failure

    def soft_reset(self) -> None:
        """Drop what the accelerator is doing; open bursts are drained first.

        Raises
        ------
        DeviceError
            The reset does not end: the memory does not answer open bursts.
        """
        self._runner.soft_reset()


def _warn_of_losses(losses: np.ndarray) -> None:
    raised = int((losses > 1).sum())
    if raised:
        worst = int(losses.argmax())
        warnings.warn(
            f"hidden_scale of {raised} state{'s' * (raised > 1)} was raised for a row term's "
            f"multiplier to fit in 32 bits, {losses[worst]:.4g} times for state {worst}: its "
            "hidden values are coarser by that factor",
            stacklevel=3,
        )
