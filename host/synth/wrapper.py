"""A register wrapper, by which a design with any number of ports fits three pins.

Inputs come from a shift register, outputs are registered and folded by XOR onto one pin: every bit
of an input can be anything, and every bit of an output stays observable, so nothing of the design
is optimised away. Its paths are two LUTs long and do not limit the clock. Its cells, which
`host.synth.netlist` tells from the design's, do not count.
"""

from collections.abc import Iterator, Sequence

from host.synth.verilog_ports import Port

TOP, DESIGN, STIMULUS, CAPTURE, FOLD = "wrapper", "dut", "stimulus", "capture", "fold"
"""The wrapper and the instances in it."""
CLOCKS = ("clk", "ap_clk")
_WAYS = 16
"""Bits of an XOR: two levels of LUTs."""


def wrapper(module: str, ports: Sequence[Port]) -> str:
    """Verilog of the wrapper around `module`, whose clock, if it has one, is one of `CLOCKS`.

    Raises
    ------
    ValueError
        The module has no input or no output besides the clock.
    """
    inputs = [port for port in ports if port.is_input and port.name not in CLOCKS]
    outputs = [port for port in ports if not port.is_input]
    clocks = [port.name for port in ports if port.is_input and port.name in CLOCKS]
    if not (inputs and outputs):
        raise ValueError(f"module {module} must have inputs and outputs besides its clock")
    given, taken = (sum(port.bits for port in side) for side in (inputs, outputs))
    connections = [
        *(f".{clock}(clk)" for clock in clocks),
        *_slices(inputs, "given"),
        *_slices(outputs, "taken"),
    ]
    joined = ",\n    ".join(connections)
    return f"""\
module {TOP} (input clk, input scan_in, output scan_out);
  wire [{given - 1}:0] given;
  wire [{taken - 1}:0] taken, kept;
  wrapper_stimulus {STIMULUS} (.clk(clk), .i(scan_in), .o(given));
  {module} {DESIGN} (
    {joined});
  wrapper_capture {CAPTURE} (.clk(clk), .i(taken), .o(kept));
  wrapper_fold {FOLD} (.clk(clk), .i(kept), .o(scan_out));
endmodule

module wrapper_stimulus (input clk, input i, output reg [{given - 1}:0] o);
  always @(posedge clk) o <= {f"{{o[{given - 2}:0], i}}" if given > 1 else "i"};
endmodule

module wrapper_capture (input clk, input [{taken - 1}:0] i, output reg [{taken - 1}:0] o);
  always @(posedge clk) o <= i;
endmodule

module wrapper_fold (input clk, input [{taken - 1}:0] i, output o);
{_fold(taken)}
endmodule
"""


def _slices(ports: Sequence[Port], bus: str) -> Iterator[str]:
    at = 0
    for port in ports:
        yield f".{port.name}({bus}[{at} +: {port.bits}])"
        at += port.bits


def _fold(bits: int) -> str:
    """Registered XORs of `_WAYS` bits each, down to one bit."""
    lines, bus, level = [], "i", 0
    while bits > 1 or level == 0:
        width = -(-bits // _WAYS)
        terms = [
            f"^{bus}[{min(at + _WAYS, bits) - 1}:{at}]" for at in reversed(range(0, bits, _WAYS))
        ]
        lines.append(f"  reg [{width - 1}:0] level{level};")
        lines.append(f"  always @(posedge clk) level{level} <= {{{', '.join(terms)}}};")
        bus, bits, level = f"level{level}", width, level + 1
    return "\n".join([*lines, f"  assign o = {bus}[0];"])
