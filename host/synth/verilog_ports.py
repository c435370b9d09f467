"""The ports of modules in Verilog that Yosys has written."""

import re
from dataclasses import dataclass

_MODULE = re.compile(r"^module\s+(\\\S+|\w+)\s*\(", re.MULTILINE)
_PORT = re.compile(r"^\s*(input|output)\s+(?:\[(\d+):0\]\s*)?(\\\S+|\w+)\s*;", re.MULTILINE)


@dataclass(frozen=True)
class Port:
    """A port of a module."""

    name: str
    is_input: bool
    bits: int


def module_ports(verilog: str, module: str) -> tuple[Port, ...]:
    """Ports of a module, in the order of their declarations.

    Raises
    ------
    ValueError
        There is no such module.
    """
    for match in _MODULE.finditer(verilog):
        if match[1].lstrip("\\") == module:
            break
    else:
        raise ValueError(f"module {module} is not in the Verilog")
    body = verilog[match.end() : verilog.index("\nendmodule", match.end())]
    return tuple(
        Port(name.lstrip("\\"), direction == "input", int(high or 0) + 1)
        for direction, high, name in _PORT.findall(body)
    )
