"""What established simulators measure on the devices of the memory model, and the model's own."""

import csv
from dataclasses import dataclass
from pathlib import Path

from sim.memory import DEVICES, DramTiming, MemoryModel
from sim.memory.traffic import Pattern, idle_latency, run_traffic

FILE = Path(__file__).with_name("data") / "dram" / "reference.csv"
BUS_BITS = 512
TOLERANCE = 0.03
"""Of a fraction of peak: how far outside the range of the two simulators the model may be."""
LATENCY_TOLERANCES = {"dramsim3": 2, "ramulator2": 1}
"""Of an idle latency, clocks; the simulators differ from each other by one."""


@dataclass(frozen=True)
class Reference:
    """One line of the file."""

    device: str
    pattern: str
    mapping: str
    outstanding: int | None
    burst_bytes: int
    streams: int
    offset_bytes: int | None
    write_every: int
    dramsim3: float
    ramulator2: float

    @property
    def is_latency(self) -> bool:
        return self.pattern.startswith("idle_latency")

    @property
    def name(self) -> str:
        number = self.outstanding or "any"
        name = f"{self.device}-{self.pattern}-{self.mapping}-{number}x{self.burst_bytes}"
        return name + "".join(f"-{n}" for n in (self.streams - 1, self.write_every) if n)

    def measure(self) -> float:
        """The same on the memory model: clocks of the DRAM, or the fraction of peak.

        The port has the clock of the DRAM and is wider than it, and nothing is added to latencies,
        so that only the DRAM and its controller are measured.
        """
        device = DEVICES[self.device]
        timing = DramTiming(device, latency_ns=0, mapping=self.mapping)
        model = MemoryModel(dram=timing, max_outstanding=100_000)
        if self.is_latency:
            row = self.pattern.rpartition("_")[2]
            return idle_latency(model, BUS_BITS, device.clock_hz, row, self.burst_bytes)
        offset = {}
        if self.offset_bytes is not None:
            offset["write_offset" if self.write_every else "stream_bytes"] = self.offset_bytes
        pattern = Pattern(
            burst_bytes=self.burst_bytes,
            outstanding=self.outstanding,
            random=self.pattern == "rand4096",
            streams=self.streams,
            write_every=self.write_every,
            **offset,
        )
        return run_traffic(model, BUS_BITS, device.clock_hz, pattern).fraction_of_peak

    def agrees(self, measured: float) -> bool:
        """Whether the model is as near to the simulators as is asked of it."""
        values = {"dramsim3": self.dramsim3, "ramulator2": self.ramulator2}
        if self.is_latency:
            return all(
                abs(measured - value) <= LATENCY_TOLERANCES[name] for name, value in values.items()
            )
        low, high = min(values.values()), max(values.values())
        return (1 - TOLERANCE) * low <= measured <= (1 + TOLERANCE) * high


def references() -> list[Reference]:
    """All lines of the file."""

    def number(text):
        return int(text) if text else None

    with open(FILE, newline="") as file:
        return [
            Reference(
                device=row["device"],
                pattern=row["pattern"],
                mapping=row["mapping"],
                outstanding=None if row["outstanding"] == "unlimited" else int(row["outstanding"]),
                burst_bytes=int(row["burst_bytes"]),
                streams=int(row["streams"]),
                offset_bytes=number(row["offset_bytes"]),
                write_every=number(row["write_every"]) or 0,
                dramsim3=float(row["dramsim3"]),
                ramulator2=float(row["ramulator2"]),
            )
            for row in csv.DictReader(file)
        ]
