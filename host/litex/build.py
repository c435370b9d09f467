"""Builds a LiteX system around an accelerator: Verilog, synthesis, place and route, bitstream."""

import importlib.metadata
import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from host.boards.board import board
from host.boards.ecp5 import nextpnr_options
from host.synth.ecp5 import PLACER, synthesis
from host.synth.phases import PlacementPhase, SynthesisPhase
from host.synth.tools import ECPPACK, NEXTPNR_ECP5, YOSYS, Tools, version
from hw import verilog
from hw.config import HeadConfig
from sim.build import Progress, no_progress
from sim.cache import cached, digest
from sim.errors import ToolError
from sim.toolchain import run

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
GATEWARE = tuple(HERE / name for name in ("accelerator.py", "checksum.py", "soc.py", "ecpix5.py"))
"""What is written in LiteX's language, and runs in a process of its own."""

BOARD = "ecpix5"

LITEX = ("litex", "litedram", "liteeth", "litex-boards", "migen")
INSTALL = "pip install 'unembed[litex,synth]'"

MAC_ADDRESS = 0x10E2_D500_0000
"""LiteX's own default."""
UDP_PORT = 1234

BITSTREAMS = (f"{BOARD}.bit", f"{BOARD}.svf")


@dataclass(frozen=True)
class SystemOptions:
    """What a system is built with besides the accelerator."""

    bridge: str = "uart"
    """Or ``ethernet``."""
    clock_mhz: int = 75
    """Of everything but the bridge; the DRAM runs at four transfers a clock."""
    ip_address: str = "192.168.1.50"
    """Of the board, with the bridge over Ethernet."""
    seed: int = 1
    """Of place and route."""

    def description(self) -> dict:
        """What `host.litex.ecpix5` reads."""
        return {
            "clock_hz": self.clock_mhz * 1e6,
            "bridge": self.bridge,
            "ip_address": self.ip_address,
            "mac_address": MAC_ADDRESS,
            "udp_port": UDP_PORT,
            "verilog": "unembed.v",
            "ident": "unembed on ECPIX-5",
        }


def litex_versions() -> str:
    """Names and versions of LiteX's packages.

    Raises
    ------
    ToolError
        One is not installed.
    """
    found = []
    for package in LITEX:
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            raise ToolError(
                f"{package} is not installed and the system needs it to build: {INSTALL}"
            ) from None
    return " ".join(found)


def elaborate(module: str, description: dict, folder: Path) -> None:
    """Write a system's Verilog and ``csr.csv`` to a folder.

    Parameters
    ----------
    module : str
        The program, such as ``host.litex.ecpix5``; a process of its own, since LiteX changes its
        working directory and fills stdout.
    description : dict
    folder : Path
        Holds the accelerator's Verilog by the name that the description has.

    Raises
    ------
    ToolError
        LiteX is not installed or refuses the system.
    """
    litex_versions()
    (folder / "description.json").write_text(json.dumps(description))
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    run(
        [sys.executable, "-m", module, "description.json"],
        folder,
        {**os.environ, "PYTHONPATH": path},
    )
    # What differs from run to run and from checkout to checkout.
    csr = folder / "csr.csv"
    csr.write_text(re.sub(r"^#.*\n", "", csr.read_text(), flags=re.M))


def bitstream(config: HeadConfig, options: SystemOptions, progress: Progress = no_progress) -> Path:
    """A folder with the bitstream of a system, its ``csr.csv`` and ``nextpnr.json``; cached.

    Timing is not judged here: see `host.litex.report`.

    Raises
    ------
    ToolError
        A tool is missing or failed.
    """
    versions = (litex_versions(), version(YOSYS), version(NEXTPNR_ECP5))
    fpga = [*nextpnr_options(board(BOARD)), *PLACER]
    progress("generating Verilog", 0, 1)
    text = verilog.generate(config, family="ecp5")
    key = digest(
        [
            text,
            json.dumps(asdict(options)),
            *versions,
            *fpga,
            synthesis(BOARD),
            *(path.read_bytes() for path in (*GATEWARE, Path(__file__))),
        ]
    )

    def build(entry: Path) -> None:
        (entry / "unembed.v").write_text(text)
        elaborate("host.litex.ecpix5", options.description(), entry)
        with Tools() as tools:
            _synthesise(tools, entry, progress)
            _place_and_route(tools, entry, [*fpga, "--seed", str(options.seed)], progress)
            progress("packing the bitstream", 0, 1)
            bit, svf = BITSTREAMS
            arguments = ["--compress", f"{BOARD}.config", "--bit", bit, "--svf", svf]
            tools.run(ECPPACK, arguments, entry)

    return cached(f"bitstream-{key}", build)


def _synthesise(tools: Tools, folder: Path, progress: Progress) -> None:
    progress("starting the tools, whose first start takes two minutes", 0, 1)
    # The tools see no other folder below /tmp; LiteX writes absolute paths, links resolved.
    script = folder / f"{BOARD}.ys"
    text = script.read_text().replace(f"{folder.resolve()}/", "")
    text, found = re.subn(rf"^synth_ecp5 .*-top {BOARD}$", synthesis(BOARD), text, flags=re.M)
    if found != 1:
        raise ToolError(f"LiteX's {script.name} has no command synth_ecp5 as expected")
    script.write_text(text)
    phase = SynthesisPhase()

    def on_line(line: str) -> None:
        phase.line(line)
        progress("synthesising", round(100 * phase.fraction), 100)

    tools.run(YOSYS, [script.name], folder, on_line)


def _place_and_route(tools: Tools, folder: Path, options: list[str], progress: Progress) -> None:
    phase = PlacementPhase()

    def on_line(line: str) -> None:
        phase.line(line)
        progress("placing and routing", round(100 * phase.fraction), 100)

    files = {
        "--json": f"{BOARD}.json",
        "--lpf": f"{BOARD}.lpf",
        "--textcfg": f"{BOARD}.config",
        "--report": "nextpnr.json",
    }
    # The report is judged later; without the last option there is none when a clock is missed.
    arguments = [
        *options,
        *(word for pair in files.items() for word in pair),
        "--timing-allow-fail",
    ]
    tools.run(NEXTPNR_ECP5, arguments, folder, on_line)
