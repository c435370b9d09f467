"""The register map as text: a Markdown page for people, a header for C programs."""

from hw.config import HeadConfig
from hw.register_map import (
    ARGUMENT_REGISTERS,
    CONTROL_REGISTERS,
    COUNTER_REGISTERS,
    IDENTIFICATION_REGISTERS,
    REGISTERS,
    Register,
    identification,
)
from hw.status import Status

C_PREFIX = "UNEMBED"

_INTRODUCTION = """\
# Registers of unembed

A 32-bit AXI4-Lite slave. Offsets are in bytes; the two low address bits are ignored and byte
strobes are honoured. SLVERR answers, without effect, any access to an unmapped word, a write to a
read-only register, and a write to an argument while CONTROL.START is set. Bits outside the fields
read zero.

Access: RO read-only, RW read and write, W1S writing 1 sets, W1C writing 1 clears, W1T writing 1
toggles, W1P writing 1 acts once.

To run a job: write the arguments; write CONTROL.START; wait for the interrupt or until
CONTROL.DONE reads 1; read STATUS and the counters; toggle ISR.DONE off if it is enabled; write
CONTROL.CONTINUE. A soft reset leaves arguments, enables, errors and counters as they are; so
does the reset pin for arguments.
"""

_SECTIONS = (
    ("Control", CONTROL_REGISTERS, "All read zero after the reset pin, CONTROL.IDLE reads 1."),
    (
        "Arguments",
        ARGUMENT_REGISTERS,
        "Zero when the device is configured. An address is a multiple of the bus width in bytes.",
    ),
    ("Identification", IDENTIFICATION_REGISTERS, "Constants of this build."),
    (
        "Counters",
        COUNTER_REGISTERS,
        "They cover the job that runs or else the last one, and are cleared when a job is "
        "accepted. The edges of a job are those that CYCLES counts.",
    ),
)


def _table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _bits(field):
    return f"{field.bit + field.width - 1}:{field.bit}" if field.width > 1 else str(field.bit)


def _register_row(register: Register, values: dict[str, int]):
    row = [f"0x{register.offset:03X}", register.name, register.access.value]
    if values:
        row.append(f"0x{values[register.name]:X}")
    return [*row, register.doc]


def markdown(config: HeadConfig) -> str:
    """The register map of one build as a Markdown page, the same text every time."""
    parts = [_INTRODUCTION]
    for title, registers, note in _SECTIONS:
        values = identification(config) if registers is IDENTIFICATION_REGISTERS else {}
        header = ["Offset", "Register", "Access", *(["Value"] if values else []), "Meaning"]
        parts.append(f"## {title}\n\n{note}\n")
        parts.append(_table(header, [_register_row(register, values) for register in registers]))
        for register in registers:
            if register.fields:
                parts.append(f"### {register.name}\n")
                rows = [
                    [_bits(field), field.name, field.access.value, field.doc]
                    for field in register.fields
                ]
                parts.append(_table(["Bits", "Field", "Access", "Meaning"], rows))
    parts.append("## Status codes\n\nIn STATUS.CODE; bit n of ERRORS belongs to code n.\n")
    parts.append(
        _table(
            ["Code", "Name", "Meaning"],
            [[str(int(status)), status.name, status.meaning] for status in Status],
        )
    )
    return "\n".join(parts)


def c_header(config: HeadConfig) -> str:
    """The register map as a C header: offsets, field masks and shifts, status codes, constants.

    Names are ``UNEMBED_<register>_OFFSET``, ``UNEMBED_<register>_<field>_MASK`` and ``_SHIFT``,
    ``UNEMBED_STATUS_CODE_<name>``, and ``UNEMBED_<register>_VALUE`` for the constants of this
    build. The same text every time.
    """
    guard = f"{C_PREFIX}_REGISTERS_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", ""]

    def define(name, value):
        lines.append(f"#define {C_PREFIX}_{name} {value}")

    for register in REGISTERS:
        define(f"{register.name}_OFFSET", f"0x{register.offset:03X}u")
        for field in register.fields:
            mask = ((1 << field.width) - 1) << field.bit
            define(f"{register.name}_{field.name}_MASK", f"0x{mask:08X}u")
            define(f"{register.name}_{field.name}_SHIFT", str(int(field.bit)))
    lines.append("")
    for status in Status:
        define(f"STATUS_CODE_{status.name}", f"{int(status)}u")
    lines.append("")
    for name, value in identification(config).items():
        define(f"{name}_VALUE", f"0x{value:X}u")
    lines += ["", "#endif", ""]
    return "\n".join(lines)
