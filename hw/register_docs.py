"""The register map as text: a Markdown page for people, a header for C programs."""

from hw.config import HeadConfig
from hw.register_map import (
    Feature,
    Register,
    features,
    identification,
    registers,
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

_QUEUE = """
The next job may be started as soon as CONTROL.START reads 0: it reads its image while the results
of the one before are written; one with FLAGS.LOGITS waits until that has ended. Jobs end in the
order of their starts, each only when the DONE of the one before was cleared. STATUS is that of the
last one that ended; status and counters of each are in the trailer of its own result block.
"""

_COUNTERS = (
    "They cover the job that runs or else the last one, and are cleared when a job is accepted."
)
_QUEUE_COUNTERS = (
    "They cover the job whose results are being collected and written, or else the last one whose "
    "were."
)


def _sections(config: HeadConfig):
    """Title, registers and introduction of each section."""
    table = registers(config)
    counters = _QUEUE_COUNTERS if config.job_queue else _COUNTERS
    return (
        ("Control", table.control, "All read zero after the reset pin, CONTROL.IDLE reads 1."),
        (
            "Arguments",
            table.arguments,
            "Zero when the device is configured. An address is a multiple of the bus width in "
            "bytes.",
        ),
        ("Identification", table.identification, "Constants of this build."),
        (
            "Counters",
            table.counters,
            f"{counters} The edges of a job are those that CYCLES counts"
            + (
                ", as far as they belong to it and not to the next job."
                if config.job_queue
                else "."
            ),
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
    parts = [_INTRODUCTION + (_QUEUE if config.job_queue else "")]
    for title, section, note in _sections(config):
        values = identification(config) if title == "Identification" else {}
        header = ["Offset", "Register", "Access", *(["Value"] if values else []), "Meaning"]
        parts.append(f"## {title}\n\n{note}\n")
        parts.append(_table(header, [_register_row(register, values) for register in section]))
        for register in section:
            if register.fields:
                parts.append(f"### {register.name}\n")
                rows = [
                    [_bits(field), field.name, field.access.value, field.doc]
                    for field in register.fields
                ]
                parts.append(_table(["Bits", "Field", "Access", "Meaning"], rows))
    parts.append("## Features\n\nBits of FEATURES.\n")
    built = features(config)
    parts.append(
        _table(
            ["Bit", "Name", "Built"],
            [
                [str(feature.bit_length() - 1), feature.name, "yes" if feature in built else "no"]
                for feature in Feature
            ],
        )
    )
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
    ``UNEMBED_STATUS_CODE_<name>``, ``UNEMBED_FEATURE_<name>``, and ``UNEMBED_<register>_VALUE`` for
    the constants of this build. The same text every time.
    """
    guard = f"{C_PREFIX}_REGISTERS_H"
    lines = [f"#ifndef {guard}", f"#define {guard}", ""]

    def define(name, value):
        lines.append(f"#define {C_PREFIX}_{name} {value}")

    for register in registers(config).all:
        define(f"{register.name}_OFFSET", f"0x{register.offset:03X}u")
        for field in register.fields:
            mask = ((1 << field.width) - 1) << field.bit
            define(f"{register.name}_{field.name}_MASK", f"0x{mask:08X}u")
            define(f"{register.name}_{field.name}_SHIFT", str(int(field.bit)))
    lines.append("")
    for status in Status:
        define(f"STATUS_CODE_{status.name}", f"{int(status)}u")
    for feature in Feature:
        define(f"FEATURE_{feature.name}", f"0x{feature:X}u")
    lines.append("")
    for name, value in identification(config).items():
        define(f"{name}_VALUE", f"0x{value:X}u")
    lines += ["", "#endif", ""]
    return "\n".join(lines)
