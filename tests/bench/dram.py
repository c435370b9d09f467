"""SmolLM2's head on real DRAM: how near it comes to what the memory gives, and what is its fault.

The limit is that of a traffic generator which reads from the same memory at the same clock and
width, with any number of requests under way. Refresh is on, controller and interconnect take
100 ns, burst and buffer are those chosen for the memory. Cycles are exact: the same on every
machine. The speed of the simulation is compared with that on ideal memory.

python -m tests.bench.dram
"""

import argparse
import sys
from dataclasses import dataclass

from rich.table import Table

from host.console import print_table, stages
from host.demo import model_file, packed_model
from host.driver import Head
from host.image import Image
from host.pack import PackOptions
from hw.config import HeadConfig
from sim.device import SimDevice
from sim.first_job import FirstJobDevice
from sim.memory import DEVICES, DramTiming, MemoryModel
from sim.memory.sizing import Sizing, choose
from sim.memory.traffic import sequential_limit
from tests.bench import speed
from tests.host import smollm2

K = 64
LATENCY_NS = 100
LEAST_SHARE = 0.99
MOST_OWN = 0.003
LEAST_SPEED = 0.5


@dataclass(frozen=True)
class System:
    device: str
    clock_mhz: int
    bus_bits: int
    channels: int = 1

    @property
    def clock_hz(self) -> int:
        return self.clock_mhz * 10**6

    @property
    def memory(self) -> MemoryModel:
        return MemoryModel(dram=DramTiming(DEVICES[self.device], latency_ns=LATENCY_NS))


SYSTEMS = (
    System("ddr4-2400-x64", 300, 512),
    System("ddr4-3200-x64", 400, 512),
    System("lpddr4-3200-x32", 200, 512),
    System("hbm2-2000-pc", 300, 512, 4),
    System("ddr3-1600-x16", 300, 128),
)


@dataclass(frozen=True)
class Run:
    """A job, and the limit of its memory."""

    system: System
    sizing: Sizing
    cycles: int
    beats: int
    """Of all channels."""
    own: int
    """Clocks of the slowest channel in which data was refused or a request not made in time."""
    limit: float
    """Bytes per clock and channel."""

    @property
    def bytes_per_cycle(self) -> float:
        """Of all channels."""
        return self.beats * self.system.bus_bits / 8 / self.cycles

    @property
    def share_of_peak(self) -> float:
        peak = self.system.memory.dram.peak_bytes_per_s(self.system.channels)
        return self.bytes_per_cycle * self.system.clock_hz / float(peak)

    @property
    def share_of_limit(self) -> float:
        return self.bytes_per_cycle / (self.limit * self.system.channels)

    @property
    def own_share(self) -> float:
        return self.own / self.cycles

    @property
    def passed(self) -> bool:
        return self.share_of_limit >= LEAST_SHARE and self.own_share < MOST_OWN


def configuration(image: Image, system: System) -> tuple[HeadConfig, Sizing]:
    """The hardware for an image, its reads sized for the memory."""
    sizing = choose(system.memory, system.bus_bits, system.clock_hz, system.channels)
    return HeadConfig(
        **image.config_fields, max_dim=image.dim, max_rows=image.rows, k=K,
        max_burst=sizing.max_burst, outstanding_bytes=sizing.outstanding_bytes,
    ), sizing  # fmt: skip


def packed(system: System, progress) -> Image:
    options = PackOptions(bus_bits=system.bus_bits, channels=system.channels)
    return Image(packed_model(model_file(), progress, options))


def run(system: System, progress) -> Run:
    image = packed(system, progress)
    config, sizing = configuration(image, system)
    with FirstJobDevice(config, system.memory, system.clock_hz, progress=progress) as device:
        results = Head(device, image).run(smollm2.states()["hidden"][:1], K)
        recorded = [recording.totals for recording in device.recordings]
    refused = results.channel_counters["refused_cycles"][0]
    own = [totals["unoffered"] + int(n) for totals, n in zip(recorded, refused, strict=True)]
    return Run(
        system,
        sizing,
        int(results.counters["cycles"][0]),
        int(results.counters["data_beats"][0]),
        max(own),
        sequential_limit(system.memory, system.bus_bits, system.clock_hz, system.channels),
    )


def print_runs(runs: list[Run]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("memory", no_wrap=True)
    for name in ("MHz", "bits", "buffer", "cycles", "tokens/s", "peak", "limit", "own", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for found in runs:
        system = found.system
        table.add_row(
            f"{f'{system.channels} x ' if system.channels > 1 else ''}{system.device}",
            f"{system.clock_mhz}",
            f"{system.bus_bits}",
            f"{found.sizing.outstanding_bytes:,}",
            f"{found.cycles:,}",
            f"{system.clock_hz / found.cycles:,.1f}",
            f"{found.share_of_peak:.2%}",
            f"{found.share_of_limit:.2%}",
            f"{found.own_share:.3%}",
            "ok" if found.passed else "FAILED",
        )
    print_table(table)
    print(
        f"  peak, limit: share of the DRAM's peak and of a sequential reader's (at least "
        f"{LEAST_SHARE:.0%});\n  own: clocks in which the accelerator refused data or made\n  no "
        f"request that it had room for (below {MOST_OWN:.1%})",
        flush=True,
    )


def simulation_speed(system: System, rounds: int, progress) -> bool:
    """Print the speed on ideal memory and on the system's, best runs; whether it is kept up."""
    image = packed(system, progress)
    config, _ = configuration(image, system)
    hidden = smollm2.states()["hidden"][0]
    with (
        SimDevice(config, progress=progress) as ideal,
        SimDevice(config, system.memory, system.clock_hz, progress=progress) as dram,
    ):
        devices = {"ideal": ideal, system.device: dram}
        best = dict.fromkeys(devices, 0.0)
        for device in devices.values():
            speed.load(device, image, hidden)
        for turn in range(rounds):
            for name, device in devices.items():
                best[name] = max(best[name], speed.run(device).processor)
            progress("measuring", turn + 1, rounds)
    share = best[system.device] / best["ideal"]
    passed = share >= LEAST_SPEED
    rates = ", ".join(f"{name} {rate / 1e6:.2f}" for name, rate in best.items())
    print(
        f"simulation, millions of cycles per second of CPU time: {rates}; "
        f"{share:.0%}, at least {LEAST_SPEED:.0%}  {'ok' if passed else 'FAILED'}"
    )
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of speed (default %(default)s)")
    arguments = parser.parse_args()
    with stages() as progress:
        runs = [run(system, progress) for system in SYSTEMS]
        print(f"SmolLM2-135M-Instruct, K = {K}, refresh on, {LATENCY_NS} ns of latency")
        print_runs(runs)
        fast = simulation_speed(SYSTEMS[0], arguments.rounds, progress)
    return int(not (fast and all(found.passed for found in runs)))


if __name__ == "__main__":
    sys.exit(main())
