"""ECP5: synthesis by Yosys, place and route by nextpnr, each result cached by its content."""

import gzip
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from host.synth.fit import check_fit
from host.synth.netlist import WRAPPER, Netlist, Scope
from host.synth.phases import PlacementPhase, SynthesisPhase
from host.synth.target import Target
from host.synth.tools import NEXTPNR_ECP5, YOSYS, Tools, version
from host.synth.wrapper import TOP
from sim.cache import cached, digest
from sim.toolchain import workspace


def synthesis(top: str) -> str:
    """The commands of Yosys that map a design to an ECP5.

    The default maps with abc9, which knows the delays of wide multiplexers and carry chains. Yosys
    0.70 fails to take back its result ("Assert `GetSize(conn.first) == GetSize(conn.second)'") in
    designs that have wires left of what turned out constant; so these are removed before. What
    tells the hierarchy ($scopeinfo) stays.
    """
    run = f"synth_ecp5 -top {top} -run"
    notes = "t:$scopeinfo"
    clean = f"setattr -set keep 1 {notes}; clean -purge; setattr -unset keep {notes}"
    return f"{run} begin:map_luts; {clean}; {run} map_luts:"


SCRIPT = f"read_verilog design.v wrapper.v; {synthesis(TOP)}; write_json netlist.json"
PLACER = ("--placer-heap-timingweight", "500", "--placer-heap-alpha", "0.05")
"""How much late nets count when nextpnr places, in place of 10, and how firmly cells are held where
they have been legal, in place of 0.1. 32 lanes with five seeds: a median of 120 MHz at a weight of
10, of 134 at 150. Of what followed from the paths found there: 138 at 150, 144 at 500; the static
placer gave 109 to 134. Later, at 500: 137 to 145 with 0.1, 147 to 151 with 0.05. The exponent of
criticality is fixed for the ECP5."""

# Router 2 leaves single nets of carry chains 3 to 5 ns long: 91 MHz in place of 116.
# The clock to aim at decides nothing: a top-k of 64 is placed alike at 130 and 180 MHz.
OPTIONS = ("--router", "router1", *PLACER, "--freq", "130", "--timing-allow-fail")
CAPACITY = {
    "lut4": "TRELLIS_COMB",
    "ff": "TRELLIS_FF",
    "dsp": "MULT18X18D",
    "ram": "DP16KD",
}
"""nextpnr's name of what a design can run out of."""
_KINDS = {cell: kind for kind, cell in CAPACITY.items()}
_STARTING = "starting the tools, whose first start takes two minutes"


class Placement:
    """An ECP5 design in its wrapper, synthesised and packed, ready for place and route.

    Parameters
    ----------
    design, wrapper : str
        Verilog.
    target : Target
    tools : Tools
    progress : callable
        As of `host.console.stages`.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    UserError
        The design does not fit the device.
    """

    def __init__(self, design: str, wrapper: str, target: Target, tools: Tools, progress: Callable):
        self.target = target
        self.tools = tools
        self.key = digest([design, wrapper, version(YOSYS), SCRIPT])
        version(NEXTPNR_ECP5)  # told before Yosys has run for minutes
        self._synthesised = self._synthesise(design, wrapper, progress)
        self._packed = self._pack(progress)
        self.available = json.loads((self._packed / "available.json").read_text())
        self.used = json.loads((self._packed / "used.json").read_text())
        check_fit(target, self.used, self.available, " with the register wrapper")
        document = json.loads(gzip.decompress((self._synthesised / "netlist.gz").read_bytes()))
        self.netlist = Netlist(document["modules"][TOP])
        self._scopes = self._packed_scopes()

    def _synthesise(self, design: str, wrapper: str, progress: Callable) -> Path:
        def build(entry):
            progress(_STARTING, 0, 1)
            phase = SynthesisPhase()

            def show(line):
                phase.line(line)
                progress("synthesis", round(100 * phase.fraction), 100)

            with workspace() as folder:
                (folder / "design.v").write_text(design)
                (folder / "wrapper.v").write_text(wrapper)
                start = time.monotonic()
                self.tools.run(YOSYS, ["-p", SCRIPT], folder, show)
                (entry / "seconds").write_text(f"{time.monotonic() - start:.1f}")
                netlist = (folder / "netlist.json").read_bytes()
            (entry / "netlist.gz").write_bytes(gzip.compress(netlist, 1, mtime=0))

        return cached(f"synthesis-{self.key}", build, self.tools.check_open)

    @property
    def _device(self) -> list[str]:
        return [f"--{self.target.device}", "--package", self.target.package]

    def _pack(self, progress: Callable) -> Path:
        """What nextpnr makes of the cells; the same for every seed and grade."""
        key = digest([self.key, version(NEXTPNR_ECP5), *self._device])

        def build(entry):
            progress("packing", 0, 1)
            with workspace() as folder:
                self._write_netlist(folder)
                self.tools.run(
                    NEXTPNR_ECP5,
                    [
                        *self._device,
                        *("--json", "netlist.json", "--pack-only"),
                        *("--write", "packed.json", "--report", "report.json"),
                    ],
                    folder,
                )
                use = json.loads((folder / "report.json").read_text())["utilization"]
                (module,) = json.loads((folder / "packed.json").read_text())["modules"].values()
            for name, field in (("used.json", "used"), ("available.json", "available")):
                counts = {kind: use[cell][field] for kind, cell in CAPACITY.items()}
                (entry / name).write_text(json.dumps(counts))
            (entry / "cells.json").write_text(json.dumps(list(_packed_cells(module["cells"]))))

        return cached(f"packing-{key}", build, self.tools.check_open)

    def _write_netlist(self, folder: Path) -> None:
        packed = (self._synthesised / "netlist.gz").read_bytes()
        (folder / "netlist.json").write_bytes(gzip.decompress(packed))

    def _packed_scopes(self) -> dict[str, tuple[str, Scope]]:
        """Kind and scope of every cell as packed, by name."""
        cells = json.loads((self._packed / "cells.json").read_text())
        return dict(packed_scopes(cells, self.netlist.scopes))

    def cells(self) -> Iterator[tuple[Scope, str, int]]:
        """Scope and kind of every cell that the device must have."""
        return ((scope, kind, 1) for kind, scope in self._scopes.values())

    def scope(self, cell: str) -> Scope:
        """Scope of a packed cell."""
        if cell in self._scopes:
            return self._scopes[cell][1]
        return self.netlist.scopes.get(cell, ())

    def register(self, cell: str) -> str:
        """Name in the design of a register, or of what else a path begins or ends at."""
        return self.netlist.register(cell) if cell in self.netlist.cells else cell

    @property
    def synthesis_seconds(self) -> float:
        """Time that Yosys took when the result was made."""
        return float((self._synthesised / "seconds").read_text())

    def place(self, seed: int, on_phase: Callable[[PlacementPhase], None]) -> tuple[dict, float]:
        """nextpnr's report after routing, and the time in seconds that the run took.

        Raises
        ------
        ToolError
            nextpnr failed, for instance since it found no place for everything.
        """
        options = [
            *self._device,
            *("--speed", str(self.target.speed)),
            *OPTIONS,
            *("--seed", str(seed)),
        ]
        key = digest([self.key, version(NEXTPNR_ECP5), *options])

        def build(entry):
            phase = PlacementPhase()

            def show(line):
                phase.line(line)
                on_phase(phase)

            with workspace() as folder:
                self._write_netlist(folder)
                start = time.monotonic()
                self.tools.run(
                    NEXTPNR_ECP5,
                    [*options, "--json", "netlist.json", "--report", "report.json"],
                    folder,
                    show,
                )
                (entry / "seconds").write_text(f"{time.monotonic() - start:.1f}")
                (entry / "report.json").write_bytes((folder / "report.json").read_bytes())

        entry = cached(f"placement-{key}", build, self.tools.check_open)
        seconds = float((entry / "seconds").read_text())
        return json.loads((entry / "report.json").read_text()), seconds


def _packed_cells(cells: dict) -> Iterator[tuple[str, str, list[int]]]:
    """Name, kind and carry nets of the packed cells that count."""
    for name, cell in cells.items():
        kind = _KINDS.get(cell["type"])
        if kind is not None:
            carry = [net for pin in ("FCI", "FCO") for net in cell["connections"].get(pin, [])]
            yield name, kind, carry


def packed_scopes(
    cells: Iterable[tuple[str, str, list[int]]], scopes: dict[str, Scope]
) -> Iterator[tuple[str, tuple[str, Scope]]]:
    """Name, and kind and scope, of packed cells.

    A packed cell is named like the cell that it is of, with a suffix; what nextpnr adds at the ends
    of a carry chain belongs to the chain, and the two constants, which a device has once, count
    with the wrapper.

    Parameters
    ----------
    cells : iterable
        Name, kind and carry nets of each.
    scopes : dict
        Scope of every cell before packing.
    """
    chains, added = {}, []
    for name, kind, carry in cells:
        source = name
        while source and source not in scopes:
            source = source.rpartition("$")[0]
        if source:
            yield name, (kind, scopes[source])
            for net in carry:
                chains.setdefault(net, scopes[source])
        else:
            added.append((name, kind, carry))
    # Up to two of them follow one another.
    for _ in range(2):
        for _, _, carry in added:
            known = [chains[net] for net in carry if net in chains]
            if known:
                for net in carry:
                    chains.setdefault(net, known[0])
    for name, kind, carry in added:
        unknown = () if carry else WRAPPER
        yield name, (kind, next((chains[net] for net in carry if net in chains), unknown))
