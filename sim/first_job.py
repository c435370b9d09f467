"""A simulated accelerator whose first job is watched closely."""

from fractions import Fraction
from pathlib import Path

from hw.config import HeadConfig
from hw.reader import ROOM_CLOCKS
from sim import build
from sim.device import SimDevice
from sim.memory import MemoryModel
from sim.memory.recording import Recording


class FirstJobDevice(SimDevice):
    """Records what its memory ports do until the first job ends, and writes waveforms if asked to.

    Parameters
    ----------
    config, memory, clock_hz, progress
        As of `SimDevice`.
    trace : Path, optional
        File of waveforms, FST, from now to the end of the first job. Complete by then, or when the
        device is closed.

    Attributes
    ----------
    recordings : tuple of Recording, or None until the job has ended
        Of the ports of all channels.

    Raises
    ------
    ToolError
        As `SimDevice`; a simulator that writes waveforms needs further libraries.
    OSError
        The file of waveforms cannot be written.
    """

    def __init__(
        self,
        config: HeadConfig,
        memory: MemoryModel,
        clock_hz: float | Fraction,
        trace: Path | None = None,
        progress: build.Progress = build.no_progress,
    ):
        super().__init__(config, memory, clock_hz, traceable=trace is not None, progress=progress)
        self.recordings: tuple[Recording, ...] | None = None
        for port in self.ports:
            port.record(config.outstanding_beats, config.max_burst, ROOM_CLOCKS)
        if trace is not None:
            self.trace(trace)

    def wait_interrupt(self, cycles: int) -> None:
        super().wait_interrupt(cycles)
        if self.recordings is None:
            self.recordings = tuple(port.recording() for port in self.ports)
            for port in self.ports:
                port.stop_recording()
            self.stop_trace()
