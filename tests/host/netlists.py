"""A small netlist as Yosys and nextpnr write them, for the tests of `host.synth`.

The design has two blocks, a reader and a farm in a data path; it is in the register wrapper.
"""

DESIGN_LINES = {
    "dut": 1,
    "dut.channel0": 20,
    "dut.channel0.reader": 40,
    "dut.channel0.datapath": 60,
    "dut.channel0.datapath.farm": 80,
    "dut.channel0.datapath.farm.lane0": 100,
    "dut.channel0.datapath.farm.scale_product": 120,
}
"""First line of each module in design.v."""
WRAPPER_LINES = {"stimulus": 10, "capture": 14, "fold": 18}
"""The same in wrapper.v."""


class NetlistBuilder:
    """Collects cells; nets are named by the cells that drive them."""

    def __init__(self):
        self.cells = {}
        self.netnames = {}
        self._nets = {}
        for file, lines in (("design.v", DESIGN_LINES), ("wrapper.v", WRAPPER_LINES)):
            for path, line in lines.items():
                attributes = {"module_src": f"{file}:{line}.1-{line + 9}.10"}
                if "." in path:
                    attributes["hdlname"] = path.replace(".", " ")
                self.cells[path] = {"type": "$scopeinfo", "attributes": attributes}

    def net(self, driver: str) -> int:
        """The number of the net that a cell drives."""
        return self._nets.setdefault(driver, len(self._nets) + 2)

    def add(self, name: str, kind: str, inputs=(), source: str = "", hdlname: str = "", **pins):
        """Add a cell whose inputs are driven by other cells."""
        connections = {f"I{index}": [self.net(driver)] for index, driver in enumerate(inputs)}
        directions = dict.fromkeys(connections, "input") | {"O": "output"}
        attributes = {"src": source} if source else {}
        if hdlname:
            attributes["hdlname"] = hdlname
        self.cells[name] = {
            "type": kind,
            "attributes": attributes,
            "port_directions": directions | dict.fromkeys(pins, "inout"),
            "connections": connections | {"O": [self.net(name)]},
        }

    def name(self, hdlname: str, *drivers: str) -> None:
        """Name a net, or several as a vector, like the designer has."""
        self.netnames[hdlname.replace(" ", ".")] = {
            "attributes": {"hdlname": hdlname},
            "bits": [self.net(driver) for driver in drivers],
        }

    @property
    def module(self) -> dict:
        """The top module."""
        return {"attributes": {}, "cells": self.cells, "netnames": self.netnames}


def sample() -> NetlistBuilder:
    """The netlist of this file's first lines."""
    netlist = NetlistBuilder()
    add = netlist.add
    add("given", "TRELLIS_FF", ["given"], "wrapper.v:11.3-11.9")
    add("kept", "TRELLIS_FF", ["output_lut"], "wrapper.v:15.3-15.9")
    add("folded", "TRELLIS_FF", ["xor"], "wrapper.v:19.3-19.9|/share/map.v:1.1-1.9")
    add("xor", "LUT4", ["kept"])
    # The reader: a register of two bits, whose input is logic of two LUTs behind one another.
    add("count0", "TRELLIS_FF", ["next0"], "design.v:45.3-45.9")
    add("count1", "TRELLIS_FF", ["next1"], "design.v:45.3-45.9")
    add("next0", "LUT4", ["inner"])
    add("next1", "LUT4", ["inner"])
    add("inner", "LUT4", ["given", "count0", "shared"])
    add("ram", "DP16KD", ["count0"], "design.v:47.3-47.9", "dut channel0 reader ram")
    # One that feeds both blocks.
    add("shared", "LUT4", ["count1"])
    # The farm: two multipliers, a carry chain of two bits, and an output of the design.
    add("dot", "MULT18X18D", ["shared"], "design.v:105.1-105.9", "dut channel0 datapath farm x")
    add("scaled", "MULT18X18D", ["sum"], "design.v:125.1-125.9")
    add("sum", "CCU2C", ["dot"], "design.v:85.1-85.9|/share/arith.v:2.1-2.9")
    add("output_lut", "LUT4", ["scaled"])
    netlist.name("dut channel0 reader count", "count0", "count1")
    netlist.name("dut result", "output_lut")
    netlist.name("dut channel0 datapath farm result", "output_lut")
    return netlist


def packed(netlist: NetlistBuilder) -> dict:
    """The cells as nextpnr packs them."""
    cells = {}

    def cell(name, kind, **connections):
        cells[name] = {"type": kind, "connections": connections}

    for name, before in netlist.cells.items():
        match before["type"]:
            case "$scopeinfo":
                pass
            case "LUT4":
                cell(name, "TRELLIS_COMB")
            case "CCU2C":
                cell(f"{name}$CCU2_COMB0", "TRELLIS_COMB", FCI=[901], FCO=[902])
                cell(f"{name}$CCU2_COMB1", "TRELLIS_COMB", FCI=[902], FCO=[903])
            case kind:
                cell(name, kind)
    # What nextpnr puts before a chain, and the constants.
    cell("$nextpnr_CCU2C_0$CCU2_COMB0", "TRELLIS_COMB", FCO=[900])
    cell("$nextpnr_CCU2C_0$CCU2_COMB1", "TRELLIS_COMB", FCI=[900], FCO=[901])
    cell("$PACKER_GND", "TRELLIS_COMB")
    cell("clk$io", "TRELLIS_IO")
    return cells


def timing_report(mhz: float = 200.0) -> dict:
    """nextpnr's report after routing, its critical path as long as the clock."""

    def step(kind, delay, begin, end):
        return {"type": kind, "delay": delay, "from": {"cell": begin}, "to": {"cell": end}}

    path = [
        step("clk-to-q", 0.5, "count1", "count1"),
        step("routing", 1.0, "count1", "shared"),
        step("logic", 0.25, "shared", "shared"),
        step("routing", 1000 / mhz - 3.0, "shared", "inner"),
        step("logic", 0.25, "inner", "inner"),
        step("routing", 0.5, "inner", "next0"),
        step("logic", 0.25, "next0", "next0"),
        step("routing", 0.25, "next0", "count0"),
        step("setup", 0.0, "count0", "count0"),
    ]
    clock = "posedge clk"
    return {
        "fmax": {"clk": {"achieved": mhz, "constraint": 130.0}},
        "critical_paths": [
            {"from": "<async>", "to": clock, "path": [step("routing", 99.0, "given", "given")]},
            {"from": clock, "to": clock, "path": path},
        ],
    }
