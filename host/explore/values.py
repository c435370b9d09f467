"""Lists of values as options of a sweep: `16,32,64`, ranges of powers of two `16..512`, both."""

import argparse
from collections.abc import Callable
from fractions import Fraction

from host.options.hardware import Parameter
from host.options.memory import IDEAL, clock_mhz
from hw.config import GROUPS, WHOLE_ROW, is_power_of_two
from sim.memory.devices import DEVICES

RANGE = ".."
FLAGS = {"no": False, "yes": True}
MEMORIES = (IDEAL, *DEVICES)


def _values(text: str, value: Callable[[str], object], ranges: bool = False) -> tuple:
    """Values between commas, each once."""
    values = []
    for part in text.split(","):
        if ranges and RANGE in part:
            values += _powers_of_two(part)
        else:
            values.append(value(part.strip()))
    return tuple(dict.fromkeys(values))


def _powers_of_two(text: str) -> list[int]:
    low, high = (_integer(end.strip()) for end in text.split(RANGE, 1))
    if not (is_power_of_two(low) and is_power_of_two(high) and low <= high):
        raise argparse.ArgumentTypeError(
            f"a range must go from one power of two up to another, such as 16..512, got {text}"
        )
    return [1 << shift for shift in range(low.bit_length() - 1, high.bit_length())]


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be integers between commas, or a range such as 16..512, got {text or 'nothing'}"
        ) from None


def _one_of(text: str, allowed: dict[str, object], what: str) -> object:
    if text not in allowed:
        names = ", ".join(allowed)
        raise argparse.ArgumentTypeError(f"{what}must be of {names}, got {text or 'nothing'}")
    return allowed[text]


def integers(text: str) -> tuple[int, ...]:
    """Integers and ranges of powers of two.

    Raises
    ------
    argparse.ArgumentTypeError
        A part is neither; the message has it. So for the other functions of this file.
    """
    return _values(text, _integer, ranges=True)


def memories(text: str) -> tuple[str, ...]:
    """Names of memories."""
    return _values(text, lambda part: _one_of(part, {name: name for name in MEMORIES}, ""))


def clocks_mhz(text: str) -> tuple[Fraction, ...]:
    """Clocks, exactly."""
    return _values(text, clock_mhz)


def weight_widths(text: str) -> tuple[int, ...]:
    """Widths of weights, as numbers or as `int8`."""
    return _values(text, lambda part: _integer(part.removeprefix("int")), ranges=True)


def parameter_values(parameter: Parameter) -> Callable[[str], tuple]:
    """What reads the values of a hardware parameter."""
    if parameter.is_flag:
        return lambda text: _values(text, lambda part: _one_of(part, FLAGS, ""))
    if parameter.field == "group":
        groups = {"row" if group == WHOLE_ROW else str(group): group for group in GROUPS}
        return lambda text: _values(text, lambda part: _one_of(part, groups, ""))
    read = weight_widths if parameter.field == "weight_bits" else integers

    def values(text: str) -> tuple[int, ...]:
        found = read(text)
        for value in found:
            if parameter.choices and value not in parameter.choices:
                names = ", ".join(map(str, parameter.choices))
                raise argparse.ArgumentTypeError(f"must be of {names}, got {value}")
        return found

    return values


def shown(field: str, value: object) -> str:
    """A value as its option has it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field == "group":
        return "row" if value == WHOLE_ROW else str(value)
    if field == "weight_bits":
        return f"int{value}"
    if isinstance(value, Fraction):
        # Decimal where that is exact.
        return f"{float(value):.6g}" if Fraction(f"{float(value):.6g}") == value else str(value)
    return str(value)
