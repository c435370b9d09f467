"""The whole system on the ECPIX-5: what it uses, its clocks, and what the accelerator reads.

Utilisation and clocks are of the placed bitstreams, with either bridge; the bandwidth is simulated.
Bitstreams come from the cache where nothing has changed; anew each takes five to ten minutes.

python -m tests.bench.ecpix5
"""

import tempfile
from contextlib import closing
from pathlib import Path

from host.boards.board import board
from host.console import stages
from host.devices.litex import open_litex
from host.litex.build import BOARD, SystemOptions, bitstream
from host.litex.report import read_report
from hw.config import HeadConfig
from tests.litex.bandwidth import LEAST_BANDWIDTH, PEAK_BANDWIDTH, read_bandwidth
from tests.litex.server import CommUART, served
from tests.litex.system import Simulation, system

BRIDGES = ("uart", "ethernet")
LEAST_MULTIPLIERS = 32
ROWS = 3000


def place(config: HeadConfig) -> bool:
    """Print what the system uses with each bridge; whether all clocks are met."""
    met = True
    for bridge in BRIDGES:
        options = SystemOptions(bridge=bridge)
        with stages() as progress:
            report = read_report(bitstream(config, options, progress) / "nextpnr.json")
        used = ", ".join(
            f"{count:,} of {report.available[name]:,} {name}" for name, count in report.used.items()
        )
        print(f"{bridge}: {used}")
        for clock in report.clocks:
            met &= clock.met
            verdict = "met" if clock.met else "MISSED"
            print(f"  {clock.net}: {clock.achieved:.1f} of {clock.required:.1f} MHz, {verdict}")
    return met


def bandwidth(config: HeadConfig) -> float:
    """Bytes per second that a job reads while it streams, simulated."""
    built = system(config)
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Simulation(built)) as simulation,
        served(CommUART(simulation)) as port,
        open_litex("localhost", port, built.csr) as device,
    ):
        return read_bandwidth(device, config, ROWS, Path(folder))


def main() -> int:
    config = HeadConfig(**board(BOARD).defaults)
    multipliers = config.lanes * config.batch
    passed = multipliers >= LEAST_MULTIPLIERS
    print(f"{multipliers} multipliers ({LEAST_MULTIPLIERS} required)")
    passed &= place(config)
    rate = bandwidth(config)
    passed &= rate >= LEAST_BANDWIDTH
    print(
        f"reads {rate / 1e6:.1f} of {PEAK_BANDWIDTH / 1e6:.0f} MB/s in simulation "
        f"({LEAST_BANDWIDTH / 1e6:.0f} required)"
    )
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
