"""The simulated system as command-line options: its clock and its memory."""

import argparse
from collections.abc import Collection
from fractions import Fraction

from host.errors import UsageError
from hw.config import is_power_of_two
from sim.memory import MemoryModel
from sim.memory.devices import DEVICES
from sim.memory.model import DramTiming

IDEAL = "ideal"
DEFAULT_CLOCK_MHZ = 250
LOWEST_CLOCK_MHZ, HIGHEST_CLOCK_MHZ = Fraction(1, 1000), 10**6
DEFAULT_LATENCY = 40
HIGHEST_LATENCY = 100_000
DEFAULT_LATENCY_NS = 100.0
HIGHEST_LATENCY_NS = 100_000.0
MOST_DEVICES = 64
NO_DRAM = f"is of a DRAM; {IDEAL} memory takes --latency"


def clock_mhz(text: str) -> Fraction:
    """A clock as an option has it, exactly: decimal, or a ratio such as 1000/3.

    Raises
    ------
    argparse.ArgumentTypeError
        It is no number, or out of range.
    """
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if not LOWEST_CLOCK_MHZ <= value < HIGHEST_CLOCK_MHZ:
        raise argparse.ArgumentTypeError(
            f"must be a number from {float(LOWEST_CLOCK_MHZ)} to below {HIGHEST_CLOCK_MHZ}, "
            f"such as 333.33 or 1000/3, got {text}"
        )
    return value


def add_simulation_options(parser: argparse.ArgumentParser) -> None:
    """Add the simulated clock and memory."""
    group = parser.add_argument_group("simulated system")
    group.add_argument(
        "--memory",
        metavar="NAME",
        default=IDEAL,
        help="DRAM at the memory ports: ideal, which delivers a beat per clock, or "
        f"{', '.join(DEVICES)} (default %(default)s)",
    )
    add_clock_option(group, DEFAULT_CLOCK_MHZ)
    add_dram_options(group)
    add_latency_option(group)


def add_sizing_options(parser: argparse.ArgumentParser) -> None:
    """Add the clock and the memory that hardware is to be built for."""
    group = parser.add_argument_group(
        "memory", "--max-burst and --outstanding-bytes then default to what it needs."
    )
    group.add_argument(
        "--memory", metavar="NAME", help=f"DRAM at the memory ports: {', '.join(DEVICES)}"
    )
    add_clock_option(group, f"the board's, or {DEFAULT_CLOCK_MHZ}")
    add_dram_options(group)


def add_clock_option(group, default: object, what: str = "accelerator and memory ports") -> None:
    """Add the clock of `what`; the help says what `default` is."""
    group.add_argument(
        "--clock-mhz",
        type=clock_mhz,
        metavar="MHZ",
        help=f"clock of {what}, as 300, 333.33 or 1000/3 (default {default})",
    )


def add_dram_options(group) -> None:
    """Add what else decides a DRAM's timing: latency and number of devices."""
    group.add_argument(
        "--memory-latency-ns",
        type=float,
        metavar="NS",
        help="with a DRAM, what controller and interconnect add to every access "
        f"(default {DEFAULT_LATENCY_NS:g})",
    )
    group.add_argument(
        "--memory-devices",
        type=int,
        metavar="N",
        help="with a DRAM, how many such devices the memory ports share, a power of two "
        "(default: one for each port)",
    )


def add_latency_option(group) -> None:
    """Add what decides the timing of ideal memory."""
    group.add_argument(
        "--latency",
        type=int,
        metavar="CYCLES",
        help="with ideal memory, clocks from a read address to its first data "
        f"(default {DEFAULT_LATENCY})",
    )


def check_simulation_options(arguments: argparse.Namespace) -> None:
    """Raise UsageError for a memory that is unknown, out of range or contradicts itself."""
    if arguments.memory != IDEAL:
        if arguments.latency is not None:
            raise UsageError(
                "--latency", f"is of ideal memory; {arguments.memory} takes --memory-latency-ns"
            )
        check_dram_options(arguments, IDEAL)
        return
    _check_no_dram(arguments, NO_DRAM)
    _check_latency(arguments)


def check_swept_memories(arguments: argparse.Namespace, names: Collection[str]) -> None:
    """Raise UsageError for an option out of range, or of none of several memories."""
    check_dram_values(arguments)
    _check_latency(arguments)
    if IDEAL not in names and arguments.latency is not None:
        raise UsageError("--latency", f"is of {IDEAL} memory, which --memory does not name")
    if not set(names) - {IDEAL}:
        _check_no_dram(arguments, NO_DRAM)


def check_sizing_options(arguments: argparse.Namespace, with_clock: bool = False) -> None:
    """Raise UsageError for a memory that is unknown, or for options without one.

    `with_clock`: the clock is of use without a memory as well.
    """
    if arguments.memory is None:
        message = "is of use only with --memory"
        _check_no_dram(arguments, message)
        if arguments.clock_mhz is not None and not with_clock:
            raise UsageError("--clock-mhz", message)
    else:
        check_dram_options(arguments)


def check_dram_options(
    arguments: argparse.Namespace, *others: str, where: str = "--memory"
) -> None:
    """Raise UsageError for an unknown DRAM or an option of it out of range.

    `others` are what the memory may be besides, `where` is the argument that names it.
    """
    if arguments.memory not in DEVICES:
        known = ", ".join((*others, *DEVICES))
        raise UsageError(where, "is unknown", expected=known, found=arguments.memory)
    check_dram_values(arguments)


def check_dram_values(arguments: argparse.Namespace) -> None:
    """Raise UsageError for an option of a DRAM, whatever its name, out of range."""
    latency, devices = arguments.memory_latency_ns, arguments.memory_devices
    if latency is not None and not 0 <= latency <= HIGHEST_LATENCY_NS:
        raise UsageError(
            "--memory-latency-ns", f"must be in 0..{HIGHEST_LATENCY_NS:.0f}", found=f"{latency:g}"
        )
    if devices is not None and not (is_power_of_two(devices) and devices <= MOST_DEVICES):
        raise UsageError(
            "--memory-devices", f"must be a power of two in 1..{MOST_DEVICES}", found=devices
        )


def _check_latency(arguments: argparse.Namespace) -> None:
    if arguments.latency is not None and not 1 <= arguments.latency <= HIGHEST_LATENCY:
        raise UsageError("--latency", f"must be in 1..{HIGHEST_LATENCY}", found=arguments.latency)


def _check_no_dram(arguments: argparse.Namespace, message: str) -> None:
    for option in ("memory_latency_ns", "memory_devices"):
        if getattr(arguments, option) is not None:
            raise UsageError("--" + option.replace("_", "-"), message)


def memory_model(arguments: argparse.Namespace) -> MemoryModel:
    """The memory that options describe, which have been checked."""
    if arguments.memory == IDEAL:
        latency = arguments.latency if arguments.latency is not None else DEFAULT_LATENCY
        return MemoryModel(latency_cycles=latency)
    latency_ns = arguments.memory_latency_ns
    timing = DramTiming(
        DEVICES[arguments.memory],
        latency_ns=latency_ns if latency_ns is not None else DEFAULT_LATENCY_NS,
        count=arguments.memory_devices,
    )
    return MemoryModel(dram=timing)


def clock_hz(arguments: argparse.Namespace) -> Fraction:
    """The accelerator's clock, exactly."""
    mhz = arguments.clock_mhz if arguments.clock_mhz is not None else DEFAULT_CLOCK_MHZ
    return Fraction(mhz * 10**6)


def describe(memory: MemoryModel, ports: int) -> dict[str, object]:
    """A memory as JSON has it; `ports` are the accelerator's."""
    dram = memory.dram
    if dram is None:
        return {"name": IDEAL, "latency_cycles": memory.latency_cycles}
    devices = dram.count or ports
    return {
        "name": dram.device.name,
        "devices": devices,
        "latency_ns": dram.latency_ns,
        "peak_gigabytes_per_second": float(devices * dram.device.peak_bytes_per_s) / 1e9,
    }
