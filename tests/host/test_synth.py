"""Cells by block, critical paths, the register wrapper and progress, on samples of the tools."""

import re

import pytest

from host.errors import UserError
from host.synth.blocks import design_verilog
from host.synth.critical_path import critical_path
from host.synth.ecp5 import packed_scopes
from host.synth.fit import check_fit
from host.synth.netlist import WRAPPER, Netlist
from host.synth.phases import PACKING, PLACING, ROUTING, PlacementPhase, SynthesisPhase
from host.synth.target import DEVICES, ECP5, Target, default_package, part_name
from host.synth.utilisation import block_path, by_block, dsp_use, dsp_uses, without_number
from host.synth.verilog_ports import Port, module_ports
from host.synth.wrapper import wrapper
from hw.config import HeadConfig

from .netlists import packed, sample, timing_report

READER = ("channel0", "reader")
FARM = ("channel0", "datapath", "farm")
TINY = HeadConfig(bus_bits=64, k=4, max_dim=64, max_rows=1024)


def test_registers_memories_and_multipliers_belong_to_the_lines_they_are_from():
    scopes = Netlist(sample().module).scopes
    assert scopes["count0"] == scopes["count1"] == scopes["ram"] == READER
    assert scopes["sum"] == FARM
    assert scopes["dot"] == (*FARM, "lane0")
    assert scopes["scaled"] == (*FARM, "scale_product")


def test_luts_belong_to_what_they_feed_and_shared_ones_to_what_contains_it():
    scopes = Netlist(sample().module).scopes
    assert scopes["next0"] == scopes["inner"] == READER
    assert scopes["shared"] == ("channel0",)


def test_a_lut_that_feeds_an_output_belongs_to_the_innermost_block_that_names_it():
    assert Netlist(sample().module).scopes["output_lut"] == FARM


def test_a_lut_that_feeds_an_output_without_a_name_belongs_to_what_feeds_it():
    netlist = sample()
    netlist.netnames.clear()
    assert Netlist(netlist.module).scopes["output_lut"] == (*FARM, "scale_product")


def test_cells_of_the_wrapper_are_told_from_the_designs():
    scopes = Netlist(sample().module).scopes
    assert {name for name, scope in scopes.items() if scope == WRAPPER} == {
        "given",
        "kept",
        "folded",
        "xor",
    }


def test_a_register_that_was_merged_with_one_of_the_wrapper_stays_the_designs():
    netlist = sample()
    netlist.add("merged", "TRELLIS_FF", ["sum"], "wrapper.v:15.3-15.9|design.v:85.1-85.9")
    assert Netlist(netlist.module).scopes["merged"] == FARM


def test_a_netlist_without_a_wrapper_has_the_same_scopes():
    netlist = sample()
    cells = {}
    for name, cell in netlist.cells.items():
        if name in ("dut", "stimulus", "capture", "fold", "given", "kept", "folded", "xor"):
            continue
        attributes = dict(cell["attributes"])
        if "hdlname" in attributes:
            attributes["hdlname"] = attributes["hdlname"].removeprefix("dut ")
        cells[name.removeprefix("dut.")] = cell | {"attributes": attributes}
    module = {"attributes": {"src": "design.v:1.1-9.9"}, "cells": cells, "netnames": {}}
    scopes = Netlist(module).scopes
    wrapped = Netlist(netlist.module).scopes
    del scopes["output_lut"]
    assert scopes == {name: wrapped[name] for name in scopes}


def test_packed_cells_belong_to_the_cells_that_they_are_of():
    netlist = sample()
    kinds = {"TRELLIS_COMB": "lut4", "TRELLIS_FF": "ff", "MULT18X18D": "dsp", "DP16KD": "ram"}
    cells = [
        (name, kinds[cell["type"]], [net for nets in cell["connections"].values() for net in nets])
        for name, cell in packed(netlist).items()
        if cell["type"] in kinds
    ]
    found = dict(packed_scopes(cells, Netlist(netlist.module).scopes))
    assert len(found) == len(cells)
    assert found["sum$CCU2_COMB1"] == ("lut4", FARM)
    # What is put before a carry chain is the chain's, both cells of it.
    assert found["$nextpnr_CCU2C_0$CCU2_COMB1"] == ("lut4", FARM)
    assert found["$nextpnr_CCU2C_0$CCU2_COMB0"] == ("lut4", FARM)
    assert found["$PACKER_GND"] == ("lut4", WRAPPER)


def test_blocks_sum_to_the_total_and_instances_are_counted():
    cells = [
        (("channel0", "ranker0", "topk0_0", "engine_0"), "lut4", 3),
        (("channel1", "ranker0", "topk0_0"), "lut4", 4),
        (("channel0", "datapath", "hidden$69", "ram"), "ram", 1),
        (("channel0", "datapath"), "ff", 5),
        (("registers",), "ff", 6),
        ((), "lut4", 7),
    ]
    blocks = by_block(cells, order=("topk", "registers"))
    assert list(blocks) == ["topk", "registers", "hidden", "connections"]
    assert (blocks["topk"].lut4, blocks["topk"].instances) == (7, 2)
    assert (blocks["connections"].lut4, blocks["connections"].ff) == (7, 5)
    assert sum(block.lut4 for block in blocks.values()) == 14
    assert sum(block.ff for block in blocks.values()) == 11


def test_names_lose_their_numbers():
    assert [*map(without_number, ("topk0_1", "hidden$69", "scales", "lane12"))] == [
        "topk",
        "hidden",
        "scales",
        "lane",
    ]
    assert block_path(("engine_3", "store"), "topk") == ("engine", ("engine_3",))
    assert block_path((), "topk") == ("topk", ())


@pytest.mark.parametrize(
    "scope, use",
    [
        ((*FARM, "unit0", "lane3"), "dot"),
        ((*FARM, "lanes0", "pair1"), "dot"),
        ((*FARM, "unit0", "scale_product", "limb1"), "scale"),
        (("channel0", "ranker0", "terms", "bias_product"), "term"),
        (("channel0", "ranker1", "logsumexp0", "exp2"), "logsumexp"),
        (("results", "merger"), "other"),
    ],
)
def test_a_multiplier_is_told_by_where_it_is(scope, use):
    assert dsp_use(scope) == use


def test_multipliers_are_listed_by_use_without_those_that_there_are_not():
    scopes = [(*FARM, "lane0"), (*FARM, "lane1"), (*FARM, "scale_product")]
    assert dsp_uses(scopes) == {"dot": 2, "scale": 1}


def _critical(report):
    netlist = Netlist(sample().module)
    block = {("channel0",): "connections", READER: "reader"}
    return critical_path(report, lambda cell: block[netlist.scopes[cell]], netlist.register)


def test_the_critical_path_is_told_by_blocks_from_register_to_register():
    path = _critical(timing_report())
    assert path.begin == "channel0.reader.count[1]"
    assert path.end == "channel0.reader.count[0]"
    legs = [(leg.block, leg.logic_ns, leg.routing_ns) for leg in path.legs]
    assert legs == [("reader", 0.5, 0.0), ("connections", 0.25, 1.0), ("reader", 0.5, 2.75)]
    assert (path.ns, path.logic_ns, path.routing_ns) == (5.0, 1.25, 3.75)


def test_a_design_without_a_path_between_registers_has_no_critical_path():
    report = timing_report()
    del report["critical_paths"][1]
    assert _critical(report) is None


VERILOG = """\
module other(a);
  input a;
  wire a;
endmodule

module \\top (clk, a, \\b$1 , q);
  input clk;
  wire clk;
  input [7:0] a;
  wire [7:0] a;
  input \\b$1 ;
  output [2:0] q;
  reg [2:0] q;
endmodule
"""


def test_ports_are_read_from_verilog():
    ports = [Port("clk", True, 1), Port("a", True, 8), Port("b$1", True, 1), Port("q", False, 3)]
    assert list(module_ports(VERILOG, "top")) == ports
    with pytest.raises(ValueError, match="module missing is not in the Verilog"):
        module_ports(VERILOG, "missing")


def _slices(text, bus):
    """Bits of a bus, each with the port that it is connected to."""
    found = {}
    for port, low, bits in re.findall(rf"\.(\w+)\({bus}\[(\d+) \+: (\d+)\]\)", text):
        for index in range(int(bits)):
            assert found.setdefault(int(low) + index, (port, index)) == (port, index)
    return found


def _folded_once(text, bits):
    """Check that every bit is in exactly one XOR of each level, down to a single bit."""
    bus, level = "i", 0
    while bits > 1 or level == 0:
        (terms,) = re.findall(rf"level{level} <= \{{(.*)\}};", text)
        ranges = re.findall(rf"\^{bus}\[(\d+):(\d+)\]", terms)
        covered = sorted(bit for high, low in ranges for bit in range(int(low), int(high) + 1))
        assert covered == list(range(bits))
        bus, bits, level = f"level{level}", len(ranges), level + 1
    assert f"assign o = {bus}[0];" in text


@pytest.mark.parametrize("inputs, outputs", [(1, 1), (2, 16), (300, 17), (64, 257), (3, 1000)])
def test_the_wrapper_drives_every_input_bit_and_observes_every_output_bit(inputs, outputs):
    ports = [Port("ap_clk", True, 1), Port("a", True, inputs), Port("q", False, outputs)]
    ports += [Port("flag", False, 1)]
    text = wrapper("design", ports)
    assert ".ap_clk(clk)" in text
    assert _slices(text, "given") == {bit: ("a", bit) for bit in range(inputs)}
    taken = [("q", bit) for bit in range(outputs)] + [("flag", 0)]
    assert _slices(text, "taken") == dict(enumerate(taken))
    assert f"output reg [{inputs - 1}:0] o" in text
    assert f"input [{outputs}:0] i, output reg [{outputs}:0] o" in text
    _folded_once(text, outputs + 1)


def test_the_wrapper_of_a_block_connects_all_of_its_ports():
    verilog = design_verilog(TINY, Target(ECP5), "topk")
    ports = module_ports(verilog, "topk")
    text = wrapper("topk", ports)
    given = {port.name for port in ports if port.is_input} - {"clk"}
    assert {port for port, _ in _slices(text, "given").values()} == given
    assert {port for port, _ in _slices(text, "taken").values()} == {
        port.name for port in ports if not port.is_input
    }
    assert {"rst", "k", "clear", "i__payload", "i__valid"} <= given


@pytest.mark.parametrize("name, is_input", [("a", True), ("q", False)])
def test_a_design_without_inputs_or_outputs_has_no_wrapper(name, is_input):
    with pytest.raises(ValueError, match="module m must have inputs and outputs besides its clock"):
        wrapper("m", [Port("clk", True, 1), Port(name, is_input, 1)])


def test_wiring_is_wrapped_without_a_clock():
    text = wrapper("m", [Port("a", True, 2), Port("q", False, 3)])
    assert "m dut (\n    .a(given[0 +: 2]),\n    .q(taken[0 +: 3]));" in text


def test_what_exceeds_a_device_is_named():
    used = {"lut4": 30000, "ff": 10, "dsp": 34, "ram": 2}
    check_fit("part", used, {"lut4": 83640, "ff": 83640, "dsp": 156, "ram": 208})
    with pytest.raises(UserError) as error:
        check_fit("LFE5U-25F", used, {"lut4": 24288, "ff": 24288, "dsp": 28, "ram": 56})
    assert str(error.value) == (
        "LFE5U-25F: the design does not fit: it needs 30,000 of 24,288 LUTs, 34 of 28 DSP blocks"
    )


def test_targets_are_checked():
    assert str(Target(ECP5)) == "ECP5 LFE5U-85F-6 CABGA756"
    assert part_name("um5g-45k") == "LFE5UM5G-45F"
    assert all(
        Target(ECP5, device, speed=8).package == default_package(device) for device in DEVICES
    )
    assert Target(ECP5, "um5g-25k").speed == 8
    for values, message in (
        ({"family": "ice40"}, "family must be one of ecp5, 7series, ultrascale+, got 'ice40'"),
        ({"family": ECP5, "device": "100k"}, "device must be one of 12k, .* got '100k'"),
        ({"family": ECP5, "package": ""}, "package must be one of CSFBGA285, .* got ''"),
        ({"family": ECP5, "device": "25k", "package": "CABGA756"}, "with 25k, got 'CABGA756'"),
        ({"family": ECP5, "speed": 5}, "speed must be one of 6, 7, 8, got 5"),
        (
            {"family": ECP5, "device": "um5g-85k", "speed": 6},
            "speed must be 8, the only grade of um5g-85k",
        ),
    ):
        with pytest.raises(ValueError, match=message.replace("+", r"\+")):
            Target(**values)


def test_synthesis_advances_with_its_passes():
    phase = SynthesisPhase()
    phase.line("1. Executing Verilog-2005 frontend: design.v")
    assert phase.fraction == 0
    phase.line("3.11. Executing OPT_CLEAN pass (remove unused cells and wires).")
    assert phase.fraction == pytest.approx(11 / SynthesisPhase.PASSES)
    phase.line("3.12.1. Executing OPT_EXPR pass (perform const folding).")
    phase.line("3.99. Executing CHECK pass (checking for obvious problems).")
    assert phase.fraction == 1


def test_place_and_route_advances_through_its_phases():
    phase = PlacementPhase()
    seen = []
    for line in (
        "Info: Packing LUTs...",
        "Info:     at iteration #3, type ALL: wirelen solved = 10240, spread = 38404",
        "Info:   at iteration #5: temp = 0.000000, timing cost = 490, wirelen = 42391",
        "Info: Routing 24863 arcs.",
        "Info:       1000 |       56        943 |   56   943 |     23936|       0.62       0.62|",
        "Info:      33042 |     5915      25695 |    0    34 |         0|       0.07      18.07|",
    ):
        phase.line(line)
        seen.append((phase.name, phase.fraction))
    names, fractions = zip(*seen, strict=True)
    assert names == (PACKING, PLACING, PLACING, ROUTING, ROUTING, ROUTING)
    assert list(fractions) == sorted(set(fractions))
    assert fractions[0] == 0 and fractions[-1] == 1
