"""The driver: loads a packed head into an accelerator, runs jobs and returns exact results."""

import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from host.device import Device, DeviceError
from host.errors import UserError
from host.hidden import check_hidden, hidden_buffer, hidden_bytes, quantise_hidden
from host.results import (
    COUNTER_NAMES,
    FILLER_ID,
    FILLER_SCORE,
    TRAILER_BYTES,
    Results,
    parse_results,
    result_bytes,
    trailer_offset,
)
from hw.config import IMAGE_FIELDS
from hw.register_map import (
    MAGIC,
    OFFSETS,
    VERSION,
    Control,
    Event,
    counter_registers,
)
from hw.status import Status

if TYPE_CHECKING:
    from host.image import Image

PAGE = 4096
STATUS_REGISTERS = ("CONTROL", "ISR", "RESET", "STATUS", "ERRORS", "JOBS")
RESET_POLLS = 100_000
HIDDEN_8_WARNING = (
    "hidden_bits is 8: with 8-bit hidden states 8 % of positions lost their top token "
    "(measured on SmolLM2-135M); 16 bits lose none"
)


class JobError(DeviceError):
    """A job ended with an error; the next one can be run.

    Attributes
    ----------
    status : Status
    """

    def __init__(self, status: Status, message: str):
        super().__init__(message)
        self.status = status


class JobTimeout(DeviceError, TimeoutError):
    """A job did not end by its deadline; `Head.soft_reset` comes before the next one."""


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
        self.capabilities = self._identify()
        self._check_image()
        image.verify()
        self.hidden_bits = self.capabilities["HIDDEN_BITS"]
        if self.hidden_bits == 8:
            warnings.warn(HIDDEN_8_WARNING, stacklevel=2)
        self._bus_bytes = self.capabilities["BUS_BITS"] // 8
        self._place_buffers()
        control = self._read("CONTROL")
        if not control & Control.IDLE or control & Control.DONE:
            self.soft_reset()
        self._configure()

    # Opening.

    def _identify(self) -> dict[str, int]:
        magic = self._read("MAGIC")
        if magic != MAGIC:
            raise DeviceError(
                f"{self.device.name}: no unembed accelerator, MAGIC is {magic:#010x} "
                f"instead of {MAGIC:#010x}"
            )
        version = self._read("VERSION")
        if version >> 16 != VERSION >> 16:
            raise DeviceError(
                f"{self.device.name}: register map version {version >> 16}.{version & 0xFFFF}, "
                f"this driver knows {VERSION >> 16}"
            )
        names = [field.upper() for field in IMAGE_FIELDS]
        names += ["FORMAT", "HIDDEN_BITS", "MAX_DIM", "MAX_ROWS", "MAX_K", "FOLD"]
        return {name: self._read(name) for name in names}

    def _check_image(self):
        fields = self.image.config_fields
        for name in IMAGE_FIELDS:
            hardware = self.capabilities[name.upper()]
            if int(fields[name]) != hardware:
                raise UserError(
                    self.image.path,
                    f"was packed with {name} {fields[name]}, {self.device.name} was built with "
                    f"{type(fields[name])(hardware)}: pack or build with an equal --"
                    f"{name.replace('_', '-')}",
                )
        format_word = self.image.layout.config.format_word
        if format_word != self.capabilities["FORMAT"]:
            raise UserError(
                self.image.path,
                f"has format {format_word:#010x}, {self.device.name} takes "
                f"{self.capabilities['FORMAT']:#010x}",
            )
        for name, value, limit in (
            ("columns", self.image.dim, "MAX_DIM"),
            ("rows", self.image.rows, "MAX_ROWS"),
        ):
            if value > self.capabilities[limit]:
                raise UserError(
                    self.image.path,
                    f"has {value} {name}, {self.device.name} was built for at most "
                    f"{self.capabilities[limit]}: build with a larger "
                    f"--{limit.lower().replace('_', '-')}",
                )

    def _place_buffers(self):
        """The image first, then the hidden state and the result block, each on its own pages."""
        self._hidden_bytes = hidden_bytes(
            self.image.layout.padded_dim, self.hidden_bits, self._bus_bytes
        )
        sizes = (
            self.image.layout.bytes,
            self._hidden_bytes,
            result_bytes(self.capabilities["MAX_K"], self._bus_bytes),
        )
        address = self.device.memory_base
        addresses = []
        for size in sizes:
            addresses.append(address)
            address += -(-size // PAGE) * PAGE
        needed = address - self.device.memory_base
        if needed > self.device.memory_bytes:
            raise UserError(
                self.image.path,
                f"needs {needed} bytes of memory, {self.device.name} has "
                f"{self.device.memory_bytes}",
            )
        self._image_address, self._hidden_address, self._result_address = addresses
        self.device.map_memory(self._image_address, self.image.data)

    def _configure(self):
        """Everything that stays the same from job to job."""
        arguments = {
            "GIE": 1,
            "IER": Event.DONE,
            "ISR": self._read("ISR"),
            "ERRORS": self._read("ERRORS"),
            "ROWS": self.image.rows,
            "DIM": self.image.dim,
            "VECTORS": 1,
            "IMAGE_FORMAT": self.image.layout.config.format_word,
        }
        for name, value in (
            ("HIDDEN_ADDR", self._hidden_address),
            ("RESULT_ADDR", self._result_address),
            ("IMAGE_ADDR", self._image_address),
            ("IMAGE_BYTES", self.image.layout.bytes),
        ):
            arguments[f"{name}_LO"] = value & 0xFFFF_FFFF
            arguments[f"{name}_HI"] = value >> 32
        for name, value in arguments.items():
            self._write(name, value)

    # Running.

    @property
    def max_k(self) -> int:
        """Most results per vector the hardware returns."""
        return self.capabilities["MAX_K"]

    @property
    def deadline_cycles(self) -> int:
        """Clocks a job may take: a memory at a 16th of the bus's speed is still in time."""
        layout = self.image.layout
        insertion = 8 * self.image.rows
        return 100_000 + 16 * (layout.beats * self.capabilities["FOLD"] + insertion)

    def run(
        self,
        hidden: np.ndarray,
        k: int,
        progress: Callable[[int, int], None] | None = None,
        deadline_cycles: int | None = None,
    ) -> Results:
        """Find the k best rows for every hidden state.

        Parameters
        ----------
        hidden : real [N, d] or [d]
            States after the model's final norm.
        k : int
            Results per state, 1..`max_k`.
        progress : callable (done, total), optional
            Called after every state.
        deadline_cycles : int, optional
            Clocks one job may take. Default: `deadline_cycles` of the head.

        Raises
        ------
        UserError
            `hidden` does not fit or holds NaN or infinity (the message names its row), or `k` is
            out of range.
        TypeError
            `hidden` or `k` is of the wrong kind.
        JobError
            A job ended with an error status.
        JobTimeout
            A job did not end by its deadline.
        DeviceError
            The accelerator is still busy, or what it wrote is not this job's result.
        """
        k = operator.index(k)
        if not 1 <= k <= self.max_k:
            raise UserError("k", f"must be in 1..{self.max_k} on {self.device.name}", found=k)
        hidden = check_hidden(hidden, self.image.dim)
        quantised, scales = quantise_hidden(hidden, self.hidden_bits)
        total = len(hidden)
        ids = np.full((total, k), FILLER_ID, np.int32)
        scores = np.full((total, k), FILLER_SCORE, np.int64)
        logits = np.full((total, k), -np.inf)
        counters = {name: np.zeros(total, np.int64) for name in COUNTER_NAMES}
        for n, vector in enumerate(quantised):
            block, values = self._run_job(vector, k, deadline_cycles or self.deadline_cycles)
            count = len(block.ids)
            ids[n, :count] = block.ids
            scores[n, :count] = block.scores
            logits[n, :count] = block.scores * self.image.weight_scale * scales[n]
            for name, value in values.items():
                counters[name][n] = value
            if progress is not None:
                progress(n + 1, total)
        return Results(ids, scores, logits, scales, counters)

    def _run_job(self, vector, k, deadline):
        control = self._read("CONTROL")
        if not control & Control.IDLE:
            raise DeviceError(
                f"{self.device.name}: still busy with an earlier job ({self._status_line()}); "
                "call soft_reset() before the next job"
            )
        device, address = self.device, self._result_address
        device.write_memory(self._hidden_address, hidden_buffer(vector, self._hidden_bytes))
        # An earlier trailer must not be mistaken for this job's.
        trailer = address + trailer_offset(k, self._bus_bytes)
        device.write_memory(trailer, np.zeros(TRAILER_BYTES, np.uint8))
        job = (self._read("JOBS") + 1) & 0xFFFF_FFFF
        self._write("K", k)
        self._write("CONTROL", Control.START)
        try:
            device.wait_interrupt(deadline)
        except TimeoutError:
            raise JobTimeout(
                f"{device.name}: job {job} did not end within {deadline} clocks "
                f"({self._status_line()}); call soft_reset() before the next job"
            ) from None
        self._check_status(job)
        counters = {name: self._read_counter(name) for name in COUNTER_NAMES}
        self._finish_job()
        block = parse_results(
            device.read_memory(address, result_bytes(k, self._bus_bytes)), k, self._bus_bytes
        )
        if (
            block.status != Status.OK
            or block.job != job
            or len(block.ids) != min(k, self.image.rows)
        ):
            raise DeviceError(
                f"{device.name}: the result block at {address:#x} is not that of job {job}: it "
                f"holds job {block.job}, status {block.status}, {len(block.ids)} records"
            )
        return block, counters

    def _check_status(self, job):
        code = self._read("STATUS")
        control = self._read("CONTROL")
        if not control & Control.DONE:
            raise DeviceError(
                f"{self.device.name}: interrupt of job {job} without its end "
                f"({self._status_line()}); call soft_reset() before the next job"
            )
        if code == Status.OK:
            return
        status = Status(code) if code in set(Status) else code
        name = status.name if isinstance(status, Status) else "unknown"
        meaning = status.meaning if isinstance(status, Status) else "unknown code"
        message = (
            f"{self.device.name}: job {job} ended with status {name} ({code}): {meaning} "
            f"({self._status_line()})"
        )
        self._write("ERRORS", self._read("ERRORS"))
        self._finish_job()
        raise JobError(status, message)

    def _finish_job(self):
        self._write("ISR", self._read("ISR"))
        self._write("CONTROL", Control.CONTINUE)

    def soft_reset(self) -> None:
        """Drop what the accelerator is doing; open bursts are drained first.

        Raises
        ------
        DeviceError
            The reset does not end: the memory does not answer open bursts.
        """
        self._write("RESET", 1)
        for _ in range(RESET_POLLS):
            if not self._read("RESET") & 1:
                return
        raise DeviceError(
            f"{self.device.name}: the soft reset did not end ({self._status_line()}): the memory "
            "does not answer open bursts; reset the whole system"
        )

    # Registers by name.

    def _read(self, name: str) -> int:
        return self.device.read_register(OFFSETS[name])

    def _write(self, name: str, value: int) -> None:
        self.device.write_register(OFFSETS[name], int(value))

    def _read_counter(self, name: str) -> int:
        low, high = counter_registers(name)
        # The high word is latched by the read of the low one.
        value = self._read(low)
        return value | self._read(high) << 32

    def _status_line(self) -> str:
        return ", ".join(f"{name} {self._read(name):#x}" for name in STATUS_REGISTERS)
