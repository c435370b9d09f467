"""`unembed memory`: what a simulated DRAM gives, measured by a traffic generator on it alone."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from rich.table import Table

from host.console import print_json, print_table
from host.errors import UsageError
from host.options.memory import (
    add_clock_option,
    add_dram_options,
    check_dram_options,
    describe,
    memory_model,
)
from hw.config import BUS_BITS, CHANNELS
from sim.memory import DEVICES, DramDevice, MemoryModel
from sim.memory.traffic import BOUNDARY_BYTES, ROWS, Pattern, idle_latency, run_traffic

NAME = "memory"
HELP = "measure a DRAM of the simulation alone, or list them"

SEQUENTIAL, RANDOM, STREAMS, WRITES, LATENCY = PATTERNS = (
    "sequential",
    "random",
    "streams",
    "writes",
    "latency",
)
DEFAULT_BUS_BITS = 512
DEFAULT_STREAMS = 4
DEFAULT_WRITE_EVERY = 16
LATENCY_BYTES = 64
_OPTIONS_OF_ONE = {"streams": STREAMS, "write_every": WRITES}
"""Options that one pattern alone has."""
_OPTIONS = (
    "pattern",
    "burst_bytes",
    "outstanding",
    *_OPTIONS_OF_ONE,
    "bus_bits",
    "ports",
    "clock_mhz",
    "memory_latency_ns",
    "memory_devices",
)
"""All that are of use only with a device."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "memory",
        nargs="?",
        metavar="NAME",
        help=f"{', '.join(DEVICES)}; without it they are listed",
    )
    parser.add_argument(
        "--pattern",
        choices=PATTERNS,
        help="reads one behind the other; at random addresses; of several sequential streams in "
        "turns, in different banks; sequential with writes in between; or a read on its own "
        "(default: all)",
    )
    parser.add_argument("--json", action="store_true", help="report as JSON")
    group = parser.add_argument_group("traffic")
    group.add_argument(
        "--burst-bytes",
        type=int,
        metavar="N",
        help=f"bytes of a burst, a power of two to {BOUNDARY_BYTES} (default: the largest of the "
        f"bus; latency: {LATENCY_BYTES} or a beat)",
    )
    group.add_argument(
        "--outstanding",
        type=int,
        metavar="N",
        help="read bursts under way at most, at each port (default: any number)",
    )
    group.add_argument(
        "--streams",
        type=int,
        metavar="N",
        help=f"how many, for streams (default {DEFAULT_STREAMS})",
    )
    group.add_argument(
        "--write-every",
        type=int,
        metavar="N",
        help=f"for writes, each N-th burst is one (default {DEFAULT_WRITE_EVERY})",
    )
    group = parser.add_argument_group("simulated system")
    group.add_argument(
        "--bus-bits",
        type=int,
        choices=BUS_BITS,
        help=f"data width of a memory port (default {DEFAULT_BUS_BITS})",
    )
    group.add_argument(
        "--ports",
        type=int,
        choices=CHANNELS,
        help="memory ports, all of which read (default 1)",
    )
    add_clock_option(group, "one at which the ports do not limit the DRAM", "memory ports")
    add_dram_options(group)


def _check_arguments(arguments: argparse.Namespace) -> None:
    if arguments.memory is None:
        for name in _OPTIONS:
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name.replace('_', '-')}", "is of use only with a NAME")
        return
    check_dram_options(arguments, where="NAME")
    for name, pattern in _OPTIONS_OF_ONE.items():
        if getattr(arguments, name) is not None and arguments.pattern not in (None, pattern):
            raise UsageError(f"--{name.replace('_', '-')}", f"is of the pattern {pattern}")
    if arguments.write_every is not None and arguments.write_every < 2:
        raise UsageError("--write-every", "must be at least 2", found=arguments.write_every)
    if arguments.outstanding is not None and arguments.pattern == LATENCY:
        raise UsageError("--outstanding", f"is of no use with the pattern {LATENCY}")


def _free_clock(memory: MemoryModel, bus_bits: int, ports: int) -> Fraction:
    """A multiple of the DRAM's clock at which the ports carry at least twice its peak, Hz."""
    ck = memory.dram.device.clock_hz
    times = Fraction(2 * memory.dram.peak_bytes_per_s(ports), ports * bus_bits // 8 * ck)
    return Fraction(ck * max(1, -(-times.numerator // times.denominator)))


def _bank_stride(device: DramDevice, streams: int) -> int:
    """Bytes from a stream to the next that spread streams over the banks, as far as they go."""
    rows = max(1, device.banks // streams)
    stride = rows * device.row_bytes * device.bank_groups * device.channels
    return -(-stride // BOUNDARY_BYTES) * BOUNDARY_BYTES


@dataclass(frozen=True)
class Measurement:
    """One line of the report."""

    pattern: str
    text: str
    latency_ns: float
    """Mean, from the address to the last data."""
    fraction_of_peak: float | None = None
    gigabytes_per_second: float | None = None
    bytes_per_cycle: float | None = None


@dataclass(frozen=True)
class Bench:
    """A DRAM with ports at a clock, on which patterns are measured."""

    memory: MemoryModel
    bus_bits: int
    ports: int
    clock_hz: Fraction
    arguments: argparse.Namespace

    def measure(self) -> Iterator[Measurement]:
        """The patterns of the options, or all.

        Raises
        ------
        UsageError
            An option of the traffic is out of range.
        """
        chosen = self.arguments.pattern
        for name in PATTERNS if chosen is None else (chosen,):
            try:
                yield from self._latencies() if name == LATENCY else self._traffic(name)
            except ValueError as error:
                field, _, rest = str(error).partition(" ")
                raise UsageError(f"--{field.replace('_', '-')}", rest) from None

    def _traffic(self, name: str) -> Iterator[Measurement]:
        arguments, device = self.arguments, self.memory.dram.device
        options, text = {}, name
        if name == STREAMS:
            streams = arguments.streams if arguments.streams is not None else DEFAULT_STREAMS
            options = {"streams": streams}
            if streams > 0:
                options["stream_bytes"] = _bank_stride(device, streams)
            text = f"{streams} sequential streams in turns"
        elif name == WRITES:
            every = arguments.write_every
            every = every if every is not None else DEFAULT_WRITE_EVERY
            options, text = {"write_every": every}, f"sequential, 1 burst in {every} written"
        elif name == RANDOM:
            options, text = {"random": True}, "random addresses"
        pattern = Pattern(arguments.burst_bytes, arguments.outstanding, **options)
        burst_bytes = pattern.burst_beats(self.bus_bits) * self.bus_bits // 8
        result = run_traffic(self.memory, self.bus_bits, self.clock_hz, pattern, ports=self.ports)
        yield Measurement(
            name,
            f"{text}, bursts of {burst_bytes} bytes",
            result.mean_latency_ns,
            result.fraction_of_peak,
            result.bytes_per_s / 1e9,
            result.bytes_per_cycle,
        )

    def _latencies(self) -> Iterator[Measurement]:
        size = self.arguments.burst_bytes
        size = size if size is not None else max(LATENCY_BYTES, self.bus_bits // 8)
        for row in ROWS:
            cycles = idle_latency(self.memory, self.bus_bits, self.clock_hz, row, size)
            text = f"a read of {size} bytes, {ROW_TEXTS[row]}"
            yield Measurement(LATENCY, text, float(cycles / self.clock_hz) * 1e9)


ROW_TEXTS = {"closed": "no row open", "hit": "its row open", "conflict": "another row open"}


def _list(as_json: bool) -> None:
    if as_json:
        print_json({"devices": [_device_report(device) for device in DEVICES.values()]})
        return
    table = Table(box=None, padding=(0, 3, 0, 0))
    table.add_column("name", no_wrap=True)
    for name in ("GB/s", "access", "latency", "refresh"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("part", overflow="fold")
    for device in DEVICES.values():
        report = _device_report(device)
        table.add_row(
            device.name,
            f"{report['peak_gigabytes_per_second']:.1f}",
            f"{device.access_bytes} bytes",
            f"{report['latency_ns']:.1f} ns",
            f"{100 * report['refresh_share']:.1f} %",
            device.part,
        )
    print_table(table)
    print("latency: of an access to an open row; refresh: what it takes of sequential reads")


def _device_report(device: DramDevice) -> dict[str, object]:
    return {
        "name": device.name,
        "part": device.part,
        "standard": device.standard,
        "peak_gigabytes_per_second": float(device.peak_bytes_per_s) / 1e9,
        "access_bytes": device.access_bytes,
        "latency_ns": device.read_clocks(device.access_bytes) / float(device.clock_hz) * 1e9,
        "refresh_share": float(1 - device.refresh_fraction),
    }


def run(arguments: argparse.Namespace) -> int:
    _check_arguments(arguments)
    if arguments.memory is None:
        _list(arguments.json)
        return 0
    memory = memory_model(arguments)
    bus_bits, ports = arguments.bus_bits or DEFAULT_BUS_BITS, arguments.ports or 1
    free = _free_clock(memory, bus_bits, ports)
    clock = free if arguments.clock_mhz is None else arguments.clock_mhz * 10**6
    bench = Bench(memory, bus_bits, ports, clock, arguments)
    measured = list(bench.measure())
    if arguments.json:
        _print_json(bench, measured)
    else:
        _print(bench, measured)
    return 0


def _print_json(bench: Bench, measured: list[Measurement]) -> None:
    print_json(
        {
            "memory": describe(bench.memory, bench.ports),
            "bus_bits": bench.bus_bits,
            "ports": bench.ports,
            "clock_mhz": float(bench.clock_hz) / 1e6,
            "measured": [
                {name: value for name, value in vars(line).items() if value is not None}
                for line in measured
            ],
        }
    )


def _print(bench: Bench, measured: list[Measurement]) -> None:
    described = describe(bench.memory, bench.ports)
    devices = described["devices"]
    ports = f"{bench.ports} ports" if bench.ports > 1 else "1 port"
    print(
        f"{f'{devices} x ' if devices > 1 else ''}{described['name']}, "
        f"{described['peak_gigabytes_per_second']:.2f} GB/s; {ports} of {bench.bus_bits} bits at "
        f"{float(bench.clock_hz) / 1e6:.6g} MHz; {described['latency_ns']:g} ns of controller and "
        "interconnect"
    )
    table = Table(box=None, padding=(0, 3, 0, 0))
    table.add_column("traffic", no_wrap=True)
    for name in ("of peak", "GB/s", "mean latency"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in measured:
        rates = ["", ""]
        if line.fraction_of_peak is not None:
            rates = [f"{100 * line.fraction_of_peak:.2f} %", f"{line.gigabytes_per_second:.2f}"]
        table.add_row(line.text, *rates, f"{line.latency_ns:,.1f} ns")
    print_table(table)
