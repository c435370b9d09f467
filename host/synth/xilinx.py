"""AMD's 7-series and UltraScale+: resources after synthesis by Yosys, without a clock."""

import gzip
import json
import time
from collections.abc import Callable, Iterator

from host.synth.netlist import Netlist, Scope
from host.synth.phases import SynthesisPhase
from host.synth.target import SERIES7, ULTRASCALE_PLUS, Target
from host.synth.tools import YOSYS, Tools, version
from sim.cache import cached, digest
from sim.toolchain import workspace

_FAMILIES = {SERIES7: "xc7", ULTRASCALE_PLUS: "xcup"}
_KINDS = {
    **{f"LUT{inputs}": ("lut4", 1) for inputs in range(1, 7)},
    # Distributed RAM and shift registers are LUTs: as many as UG474 and UG574 give.
    **{"SRL16E": ("lut4", 1), "SRLC32E": ("lut4", 1)},
    **{"RAM32X1D": ("lut4", 2), "RAM64X1D": ("lut4", 2), "RAM128X1D": ("lut4", 4)},
    **{"RAM32M": ("lut4", 4), "RAM64M": ("lut4", 4), "RAM32M16": ("lut4", 8)},
    **{"RAM64M8": ("lut4", 8), "RAM256X1D": ("lut4", 8)},
    **dict.fromkeys(("FDRE", "FDSE", "FDCE", "FDPE"), ("ff", 1)),
    **{"DSP48E1": ("dsp", 1), "DSP48E2": ("dsp", 1)},
    **{"RAMB18E1": ("ram", 0.5), "RAMB36E1": ("ram", 1)},
    **{"RAMB18E2": ("ram", 0.5), "RAMB36E2": ("ram", 1)},
}
"""Kind and amount of each cell that counts; inverters end in LUTs and multiplexers beside them."""


class XilinxNetlist:
    """A design synthesised for a family of AMD's.

    Parameters
    ----------
    design : str
        Verilog.
    top : str
        Its top module.
    target : Target
    tools : Tools
    progress : callable
        As of `host.console.stages`.

    Attributes
    ----------
    netlist : Netlist
    soft_multipliers : list of str
        Multiplications that did not go into DSP blocks, by their names in the netlist.

    Raises
    ------
    ToolError
        Yosys is missing or failed.
    """

    def __init__(self, design: str, top: str, target: Target, tools: Tools, progress: Callable):
        synth = f"synth_xilinx -family {_FAMILIES[target.family]} -top {top}"
        # Out of context: no buffers at the ports, of which there are more than a part has pins.
        synth += " -flatten -noiopad -noclkbuf"
        script = (
            f"read_verilog design.v; {synth} -run begin:coarse; "
            "tee -q -o soft.txt select -list t:$mul t:$__soft_mul; "
            f"{synth} -run coarse:; write_json netlist.json"
        )
        key = digest([design, version(YOSYS), script])

        def build(entry):
            phase = SynthesisPhase()
            progress("starting Yosys, whose first start takes two minutes", 0, 1)

            def show(line):
                phase.line(line)
                progress("synthesis", round(100 * phase.fraction), 100)

            with workspace() as folder:
                (folder / "design.v").write_text(design)
                start = time.monotonic()
                tools.run(YOSYS, ["-p", script], folder, show)
                (entry / "seconds").write_text(f"{time.monotonic() - start:.1f}")
                (entry / "soft.txt").write_text((folder / "soft.txt").read_text())
                netlist = (folder / "netlist.json").read_bytes()
            (entry / "netlist.gz").write_bytes(gzip.compress(netlist, 1, mtime=0))

        entry = cached(f"synthesis-{key}", build, tools.check_open)
        document = json.loads(gzip.decompress((entry / "netlist.gz").read_bytes()))
        self.netlist = Netlist(document["modules"][top])
        self.soft_multipliers = (entry / "soft.txt").read_text().split()
        self.synthesis_seconds = float((entry / "seconds").read_text())

    def cells(self) -> Iterator[tuple[Scope, str, float]]:
        """Scope, kind and amount of every cell that counts."""
        for name, cell in self.netlist.cells.items():
            if cell["type"] in _KINDS:
                yield self.netlist.scopes[name], *_KINDS[cell["type"]]
