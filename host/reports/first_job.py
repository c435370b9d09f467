"""A close look at the first job of a run: a picture of the memory ports, waveforms."""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

from host.console import StageProgress
from host.errors import UsageError
from host.files.output import Output, check_output
from host.options import paths
from host.reports.timeline_plot import PortTimeline, check_suffix, draw, save
from host.results import Results
from hw.config import HeadConfig
from hw.layout import ImageLayout
from hw.stream_control import start_clocks
from sim import build
from sim.first_job import FirstJobDevice
from sim.memory import MemoryModel
from sim.trace_view import gtkwave_view

TRACE_SUFFIX, VIEW_SUFFIX = ".fst", ".gtkw"


def add_first_job_options(parser: argparse.ArgumentParser) -> None:
    """Add --plot and --trace."""
    group = parser.add_argument_group("a look at the first job")
    group.add_argument(
        "--plot",
        type=paths.path,
        metavar="FILE.png|svg",
        help="draw what the memory ports did, cycle by cycle",
    )
    group.add_argument(
        "--trace",
        type=paths.path,
        metavar="FILE.fst",
        help="write the waveforms of all signals, and FILE.gtkw, a view of them for GTKWave; "
        "simulates 100 times as slowly",
    )


def outputs(arguments: argparse.Namespace) -> list[Path]:
    """The files that the options name, and those that come with them."""
    paths = [] if arguments.plot is None else [arguments.plot]
    if arguments.trace is not None:
        paths += [arguments.trace, arguments.trace.with_suffix(VIEW_SUFFIX)]
    return paths


def check_first_job_options(arguments: argparse.Namespace) -> None:
    """Check the options before anything runs.

    Raises
    ------
    UsageError
        A file name ends in something else, or waveforms of several devices are asked for.
    UserError
        A file cannot be written.
    """
    if arguments.plot is not None:
        check_suffix(arguments.plot)
    if arguments.trace is not None:
        if arguments.trace.suffix.lower() != TRACE_SUFFIX:
            raise UsageError("--trace", f"must end in {TRACE_SUFFIX}", found=arguments.trace.name)
        if len(arguments.images) > 1:
            raise UsageError("--trace", "takes one image", found=len(arguments.images))
    for path in outputs(arguments):
        check_output(path)


class FirstJob:
    """What --plot and --trace ask for.

    Parameters
    ----------
    arguments : argparse.Namespace
        Checked.
    stack : ExitStack
        Closes the devices; of files that are not complete by then nothing is left.
    """

    def __init__(self, arguments: argparse.Namespace, stack: ExitStack):
        self._stack = stack
        self._plot, self._trace = arguments.plot, arguments.trace
        self._devices: list[FirstJobDevice] = []
        self._trace_output: Output | None = None

    @property
    def wanted(self) -> bool:
        """The devices must be of this class's making."""
        return self._plot is not None or self._trace is not None

    def open_device(
        self,
        config: HeadConfig,
        memory: MemoryModel,
        clock_hz: float | Fraction,
        progress: StageProgress,
    ) -> FirstJobDevice:
        """A simulated device that is watched, which the stack closes."""
        partial = None
        if self._trace is not None:
            self._trace_output = self._stack.enter_context(Output(self._trace))
            partial = self._trace_output.partial
        device = FirstJobDevice(config, memory, clock_hz, partial, progress)
        self._devices.append(device)
        return self._stack.enter_context(device)

    def save(self, results: Results, layouts: Sequence[ImageLayout], about: str) -> None:
        """Write what was asked for, after the run.

        Parameters
        ----------
        results : Results
        layouts : sequence of ImageLayout
            Of the images for the hardware, one for each device.
        about : str
            What was simulated, for the title of the picture.
        """
        if self._trace_output is not None:
            self._save_trace()
        if self._plot is not None:
            ports = self._ports(results, layouts)
            device = self._devices[0]
            clock_hz = float(device.clock_hz)
            save(draw(ports, device.config.bus_bytes, clock_hz, about), self._plot)

    def totals(self) -> list[dict[str, int]]:
        """Clocks and events of every port by name (`sim.memory.recording`), for JSON."""
        return [recording.totals for device in self._devices for recording in device.recordings]

    def _save_trace(self) -> None:
        config = self._devices[0].config
        view = gtkwave_view(config, build.accelerator_verilog(config))
        with Output(self._trace.with_suffix(VIEW_SUFFIX)) as output:
            output.partial.write_text(view)
            output.commit()
        self._trace_output.commit()

    def _ports(self, results: Results, layouts: Sequence[ImageLayout]) -> list[PortTimeline]:
        vectors, cycles = int(results.vectors[0]), int(results.counters["cycles"][0])
        ports = []
        for number, (device, layout) in enumerate(zip(self._devices, layouts, strict=True)):
            shard = f"shard {number}, " if len(layouts) > 1 else ""
            for channel, recording in enumerate(device.recordings):
                start = start_clocks(layout.config, vectors, channel)
                ports.append(PortTimeline(f"{shard}channel {channel}", recording, start, cycles))
        return ports
