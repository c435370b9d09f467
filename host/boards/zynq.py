"""Files for a Zynq UltraScale+ board: what its Tcl script has to know of an accelerator."""

import math
from fractions import Fraction

from host.boards.board import Board, constraint_text
from host.boards.generic import clock_text, ip_version
from hw.channel import has_writer
from hw.config import HeadConfig
from hw.head import CONTROL_PREFIX, head_members, memory_prefix


def interfaces(config: HeadConfig) -> list[tuple[str, str, str, dict[str, str]]]:
    """The AXI interfaces of an accelerator: name, mode, channels, and what AXI calls its ports."""
    control = (CONTROL_PREFIX, "slave", "READ_WRITE")
    memory = (
        (memory_prefix(c), "master", "READ_WRITE" if has_writer(config, c) else "READ_ONLY")
        for c in range(config.channels)
    )
    pins = head_members(config)
    return [
        (
            prefix.removesuffix("_"),
            mode,
            channels,
            {pin: pin.removeprefix(prefix).upper() for pin in pins if pin.startswith(prefix)},
        )
        for prefix, mode, channels in (control, *memory)
    ]


def settings(board: Board, config: HeadConfig, clock_mhz: Fraction) -> str:
    """The accelerator as variables for the board's build.tcl."""
    lines = [
        "# What build.tcl has to know of the accelerator.",
        f"set part {board.fpga.part}",
        f"set version {ip_version()}",
        f"set clock_mhz {clock_text(clock_mhz)}",
        f"set bus_bits {config.bus_bits}",
        f"set channels {config.channels}",
        "# Name, mode, channels, and each port with the name that AXI gives it.",
        "set interfaces {",
    ]
    for name, mode, channels, ports in interfaces(config):
        lines.append(f"    {name} {mode} {channels} {{")
        lines += [f"        {physical} {logical}" for physical, logical in ports.items()]
        lines.append("    }")
    return "\n".join([*lines, "}", ""])


def xdc(clock_mhz: Fraction) -> str:
    """The clock of an accelerator that is synthesised alone, as a Xilinx design constraint."""
    picoseconds = math.floor(10**6 / clock_mhz)  # rounded up, they would allow a slower clock
    return (
        "# The accelerator alone; in a block design its clock is known.\n"
        f"create_clock -name ap_clk -period {picoseconds / 1000:.3f} [get_ports ap_clk]\n"
    )


def zynq_files(board: Board, config: HeadConfig, clock_mhz: Fraction) -> dict[str, str]:
    """Constraints and Tcl, by file name."""
    return {
        "unembed.xdc": xdc(clock_mhz),
        f"{board.name}.xdc": constraint_text(board.name, f"{board.name}.xdc"),
        "settings.tcl": settings(board, config, clock_mhz),
        "build.tcl": constraint_text(board.name, "build.tcl"),
    }
