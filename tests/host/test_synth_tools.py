"""`host.synth` with the real tools, on small designs."""

import re
from collections import Counter

import pytest

from host.console import stages
from host.errors import UserError
from host.synth.blocks import BLOCKS, HEAD, design_verilog
from host.synth.ecp5 import Placement
from host.synth.netlist import WRAPPER
from host.synth.synthesis import synthesise
from host.synth.target import ECP5, SERIES7, SYNTH_FAMILIES, Target
from host.synth.tools import YOSYS, Tools
from host.synth.verilog_ports import module_ports
from host.synth.wrapper import CLOCKS, wrapper
from hw.config import HeadConfig
from hw.resources import count
from sim.build import no_progress

pytestmark = pytest.mark.long

TINY = HeadConfig(bus_bits=64, k=4, max_dim=64, max_rows=1024)
FULL = HeadConfig(
    bus_bits=64,
    k=4,
    max_dim=64,
    max_rows=1024,
    bias=True,
    mask=True,
    logsumexp=True,
    all_logits=True,
    batch=2,
)
"""Has every block."""
WIRING = ("header",)
"""Blocks without a flip-flop, and so without a clock."""


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_can_be_wrapped(block):
    verilog = design_verilog(FULL, Target(ECP5), block)
    ports = module_ports(verilog, block)
    text = wrapper(block, ports)
    connected = sum(int(bits) for bits in re.findall(r"\+: (\d+)\]\)", text))
    clocks = sum(port.name in CLOCKS for port in ports)
    assert clocks == 1 or block in WIRING
    assert connected == sum(port.bits for port in ports) - clocks


def _place(verilog, module):
    with Tools() as tools:
        around = wrapper(module, module_ports(verilog, module))
        return Placement(verilog, around, Target(ECP5), tools, no_progress)


@pytest.mark.parametrize("registered", [False, True])
def test_the_wrapper_does_not_count_and_nothing_of_the_design_is_lost(registered):
    body = "reg [149:0] q;\n  always @(posedge clk) q <= ~a;"
    body = body if registered else "assign q = a;"
    verilog = f"""\
module small(clk, a, q);
  input clk;
  input [149:0] a;
  output [149:0] q;
  {body}
endmodule
"""
    counted = Counter(kind for scope, kind, _ in _place(verilog, "small").cells() if scope == ())
    assert counted == (Counter(lut4=150, ff=150) if registered else Counter())


def _yosys_counts(tmp_path, verilog, top):
    """Cells that Yosys counts for a design without the wrapper."""
    (tmp_path / "design.v").write_text(verilog)
    script = f"read_verilog design.v; synth_ecp5 -top {top}; tee -o stat.txt stat"
    with Tools() as tools:
        tools.run(YOSYS, ["-p", script], tmp_path)
    text = (tmp_path / "stat.txt").read_text()
    return {kind: int(count) for count, kind in re.findall(r"^ +(\d+) +([A-Z]\w+)$", text, re.M)}


def test_a_block_alone_costs_what_yosys_counts_without_the_wrapper(tmp_path):
    target = Target(ECP5)
    with stages() as progress:
        found = synthesise(TINY, target, block="scales", seeds=(1, 2), progress=progress)
    verilog = design_verilog(TINY, target, "scales")
    counted = _yosys_counts(tmp_path, verilog, "scales")
    assert (found.ff, found.ram) == (counted["TRELLIS_FF"], counted["DP16KD"])
    netlist = _place(verilog, "scales").netlist
    luts = sum(
        cell["type"] == "LUT4" and netlist.scopes[name] != WRAPPER
        for name, cell in netlist.cells.items()
    )
    # The mapper, which sees a larger design with the wrapper, finds another solution.
    assert luts == pytest.approx(counted["LUT4"], rel=0.15)
    # Packing adds to carry chains, and little to others.
    assert luts + 2 * counted["CCU2C"] <= found.lut4 <= luts + 4 * counted["CCU2C"]
    for kind in ("lut4", "ff", "dsp", "ram"):
        assert sum(getattr(block, kind) for block in found.blocks.values()) == getattr(found, kind)
    assert {"queue", "converter", "scales"} == set(found.blocks)
    assert found.fmax_mhz == min(run.fmax_mhz for run in found.runs) > 50
    assert found.path.ns == pytest.approx(1000 / found.fmax_mhz, rel=0.01)


def test_multipliers_are_in_dsp_blocks_by_use():
    found = synthesise(TINY, Target(SERIES7), block="farm")
    assert found.dsp_uses["dot"] == TINY.lanes
    assert found.dsp == sum(found.dsp_uses.values())
    assert found.soft_multipliers == 0


def test_multipliers_and_block_rams_are_as_many_as_counted_in_the_design():
    # Yosys 0.70 fails on this one unless it is told to clean up before it maps.
    config = HeadConfig(bus_bits=256, fold=2, k=16, max_dim=576, max_rows=49152)
    found = synthesise(config, Target(ECP5), seeds=())
    counted = count(config)
    assert (found.dsp, found.ram) == (counted.dsp, counted.block_rams(ECP5))


def test_a_farm_with_more_multipliers_than_the_device_is_refused():
    config = HeadConfig(bus_bits=256, k=4, max_dim=64, max_rows=1024)
    with pytest.raises(UserError, match=r"LFE5U-25F-6.* does not fit: it needs \d+ of 28 DSP"):
        synthesise(config, Target(ECP5, "25k"), block="farm")


@pytest.mark.parametrize("family", SYNTH_FAMILIES)
def test_each_family_gets_its_own_form(family):
    target = Target(family)
    text = design_verilog(TINY, target)
    assert f"module {HEAD}(" in text
    assert ("MULT18X18D" in text) == (family == ECP5)
