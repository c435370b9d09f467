"""The register map as SystemRDL 2.0, for generators of drivers, models and documentation."""

from hw.config import HeadConfig
from hw.register_map import (
    CONTROL_REGISTERS,
    WORD_BITS,
    Access,
    Field,
    Register,
    identification,
    registers,
)
from hw.status import Status

_ACCESS = {
    Access.READ: "sw = r; hw = w;",
    Access.WRITE: "sw = rw; hw = r;",
    Access.SET: "sw = rw; hw = rw; onwrite = woset;",
    Access.CLEAR: "sw = rw; hw = rw; onwrite = woclr;",
    Access.TOGGLE: "sw = rw; hw = rw; onwrite = wot;",
    # Software that reads it gets zero: only writes mean something.
    Access.PULSE: "sw = w; hw = r; singlepulse;",
}

_CONSTANT = "sw = r; hw = na;"

_STATUS = "status_code"

VALUE = "VALUE"
"""Name of the field of a register that is one number."""

_AFTER_RESET = {("CONTROL", "IDLE"): 1}
"""Fields of the control registers that do not read zero after the reset pin."""


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _status_enum() -> list[str]:
    lines = [f"enum {_STATUS} {{"]
    for status in Status:
        lines.append(f"    {status.name} = {int(status)} {{ desc = {_string(status.meaning)}; }};")
    return [*lines, "};", ""]


def _field(register: Register, field: Field, access: str, reset: int | None) -> list[str]:
    bits = f"[{field.bit + field.width - 1}:{field.bit}]"
    lines = ["field {", f"    desc = {_string(field.doc)};", f"    {access}"]
    if (register.name, field.name) == ("STATUS", "CODE"):
        lines.append(f"    encode = {_STATUS};")
    return [*lines, f"}} {field.name}{bits}{'' if reset is None else f' = {reset:#x}'};"]


def _register(register: Register, constants: dict[str, int], resets: bool) -> list[str]:
    constant = constants.get(register.name)
    fields = register.fields or (Field(VALUE, 0, register.access, register.doc, width=WORD_BITS),)
    lines = ["reg {", f"    desc = {_string(register.doc)};"]
    for field in fields:
        reset = constant
        if resets:
            reset = _AFTER_RESET.get((register.name, field.name), 0)
        access = _ACCESS[field.access] if constant is None else _CONSTANT
        lines += [f"    {line}" for line in _field(register, field, access, reset)]
    return [*lines, f"}} {register.name} @ {register.offset:#05x};"]


def systemrdl(config: HeadConfig, name: str) -> str:
    """The register map of one build as an address map `name`, the same text every time.

    A register that is one number has one field, `VALUE`. Fields have reset values where the reset
    pin or the build decides what is read.
    """
    constants = identification(config)
    lines = [f"// Registers of {name}: SystemRDL 2.0.", ""]
    lines += _status_enum()
    lines += [
        f"addrmap {name} {{",
        f"    default regwidth = {WORD_BITS};",
        f"    default accesswidth = {WORD_BITS};",
        "    addressing = compact;",
        "",
    ]
    for register in registers(config).all:
        body = _register(register, constants, register in CONTROL_REGISTERS)
        lines += [f"    {line}" for line in body] + [""]
    return "\n".join([*lines[:-1], "};", ""])
