"""Synthesises a configuration, or a block of it, and says what it costs and how fast it is."""

import os
import statistics
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from host.synth.blocks import BLOCKS, HEAD, design_verilog
from host.synth.critical_path import CriticalPath, critical_path
from host.synth.ecp5 import Placement
from host.synth.fit import check_fit
from host.synth.netlist import WRAPPER
from host.synth.target import ECP5, Target
from host.synth.tools import Tools, versions
from host.synth.utilisation import CONNECTIONS, Utilisation, block_path, by_block, dsp_uses
from host.synth.verilog_ports import module_ports
from host.synth.wrapper import wrapper
from host.synth.xilinx import XilinxNetlist
from hw.config import HeadConfig
from sim.build import no_progress

MOST_SEEDS = 100


@dataclass(frozen=True)
class SeedRun:
    """One place and route."""

    seed: int
    fmax_mhz: float
    seconds: float
    """Time that it took when it was made."""


@dataclass(frozen=True)
class Synthesis:
    """What a design costs on an FPGA, and how fast it is there.

    Attributes
    ----------
    target : Target
    block : str or None
        The block that was synthesised alone; None for the whole accelerator.
    total : Utilisation
        Without the register wrapper.
    blocks : dict
        The same by block, which sum to it.
    wrapper : Utilisation
        The register wrapper's cells.
    available : dict
        Of the device, by kind; empty for AMD's families.
    dsp_uses : dict
        DSP blocks by what they multiply.
    soft_multipliers : int or None
        Multiplications outside DSP blocks; None where Yosys does not infer them.
    runs : tuple of SeedRun
    path : CriticalPath or None
        Of the run with the median clock.
    tools : tuple of str
    synthesis_seconds : float
        Time that Yosys took when the result was made.
    """

    target: Target
    block: str | None
    total: Utilisation
    blocks: dict[str, Utilisation]
    wrapper: Utilisation
    available: dict[str, int]
    dsp_uses: dict[str, int]
    soft_multipliers: int | None
    runs: tuple[SeedRun, ...] = ()
    path: CriticalPath | None = None
    tools: tuple[str, ...] = ()
    synthesis_seconds: float = field(default=0.0, compare=False)

    @property
    def lut4(self) -> int:
        return self.total.lut4

    @property
    def ff(self) -> int:
        return self.total.ff

    @property
    def dsp(self) -> int:
        return self.total.dsp

    @property
    def ram(self) -> float:
        return self.total.ram

    @property
    def fmax_mhz(self) -> float | None:
        """Median of the runs, of an even number the lower; None without place and route."""
        if not self.runs:
            return None
        return statistics.median_low(run.fmax_mhz for run in self.runs)


def synthesise(
    config: HeadConfig,
    target: Target,
    *,
    block: str | None = None,
    seeds: Sequence[int] = (1,),
    capacity: Mapping[str, int] | None = None,
    progress: Callable[[str, int, int], None] = no_progress,
) -> Synthesis:
    """Synthesise a configuration, and place and route it where that is possible.

    Everything is cached by content. The runs of several seeds are spread over the processor's
    cores; each takes about a gigabyte.

    Parameters
    ----------
    config : HeadConfig
    target : Target
    block : str, optional
        One of `host.synth.blocks.BLOCKS`, alone.
    seeds : sequence of int
        Of the random placements whose median counts; without one there is no clock.
    capacity : mapping, optional
        What a part of AMD's has, by kind; what an ECP5 has is known.
    progress : callable
        As of `host.console.stages`.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    UserError
        The design does not fit the device.
    UsageError
        The configuration has no such block, or asks for what the family cannot do.
    """
    design = design_verilog(config, target, block, progress)
    top = block or HEAD
    if target.family != ECP5:
        with Tools() as tools:
            found = XilinxNetlist(design, top, target, tools, progress)
        soft = len(found.soft_multipliers)
        counted = _counted(
            found, target, block, available=dict(capacity or {}), soft_multipliers=soft
        )
        check_fit(target, vars(counted.total), counted.available)
        return counted
    around = wrapper(top, module_ports(design, top))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool, Tools() as tools:
        placement = Placement(design, around, target, tools, progress)
        seen = _Phases(seeds, progress)
        results = list(pool.map(lambda seed: placement.place(seed, seen.of(seed)), seeds))
    runs = [
        SeedRun(seed, _fmax(report), seconds)
        for seed, (report, seconds) in zip(seeds, results, strict=True)
    ]
    path = None
    if runs:
        clocks = [run.fmax_mhz for run in runs]
        report, _ = results[clocks.index(statistics.median_low(clocks))]
        own = block or CONNECTIONS
        path = critical_path(
            report, lambda cell: _block_name(placement.scope(cell), own), placement.register
        )
    return _counted(
        placement, target, block, available=placement.available, runs=tuple(runs), path=path
    )


def _fmax(report: dict) -> float:
    """The clock of nextpnr's report, MHz."""
    return round(min(clock["achieved"] for clock in report["fmax"].values()), 2)


def _block_name(scope, own: str) -> str:
    return "wrapper" if scope == WRAPPER else block_path(scope, own)[0]


def _counted(
    found: Placement | XilinxNetlist, target: Target, block: str | None, **others
) -> Synthesis:
    """Cells counted by block."""
    cells = list(found.cells())
    total, around = Utilisation(), Utilisation()
    for scope, kind, amount in cells:
        (around if scope == WRAPPER else total).add(kind, amount)
    inside = [cell for cell in cells if cell[0] != WRAPPER]
    path = (block,) if block else ()
    return Synthesis(
        target=target,
        block=block,
        total=total,
        blocks=by_block(inside, block or CONNECTIONS, tuple(BLOCKS)),
        wrapper=around,
        dsp_uses=dsp_uses((*path, *scope) for scope, kind, _ in inside if kind == "dsp"),
        tools=versions(target.is_placed),
        synthesis_seconds=found.synthesis_seconds,
        **{"available": {}, "soft_multipliers": None} | others,
    )


class _Phases:
    """What the runs of all seeds are doing, as one progress."""

    def __init__(self, seeds: Sequence[int], progress: Callable[[str, int, int], None]):
        self._progress = progress
        self._fractions = dict.fromkeys(seeds, 0.0)
        self._lock = threading.Lock()

    def of(self, seed: int) -> Callable:
        """What takes the phase of a seed's run whenever it prints a line."""

        def show(phase):
            with self._lock:
                self._fractions[seed] = phase.fraction
                done = round(100 * sum(self._fractions.values()))
                runs = len(self._fractions)
                stage = phase.name if runs == 1 else f"place and route of {runs} seeds"
                self._progress(stage, done, 100 * runs)

        return show
