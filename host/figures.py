"""What counters mean: utilisation and rates of jobs."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Figures:
    """Figures of N jobs at a clock.

    Parameters
    ----------
    counters : dict of int64 [N]
        As in `host.results.Results`.
    bus_bytes : int
        Bytes of a beat.
    clock_hz : float
    """

    counters: dict[str, np.ndarray]
    bus_bytes: int
    clock_hz: float

    @property
    def bytes_read(self) -> np.ndarray:
        """Bytes on the read port, int64 [N]."""
        return self.counters["data_beats"] * self.bus_bytes

    @property
    def utilisation(self) -> np.ndarray:
        """Share of a job's cycles with data on the read port, float64 [N]."""
        return self.counters["data_beats"] / self.counters["cycles"]

    @property
    def mean_cycles(self) -> float:
        return float(self.counters["cycles"].mean())

    @property
    def tokens_per_second(self) -> float:
        """Jobs per second, one after the other."""
        return self.clock_hz / self.mean_cycles

    @property
    def gigabytes_per_second(self) -> float:
        """10^9 bytes read per second of the jobs."""
        cycles = float(self.counters["cycles"].sum())
        return float(self.bytes_read.sum()) / cycles * self.clock_hz / 1e9

    @property
    def peak_gigabytes_per_second(self) -> float:
        """What the bus could carry at this clock."""
        return self.bus_bytes * self.clock_hz / 1e9

    def as_dict(self) -> dict[str, float]:
        """The figures over all jobs as plain numbers."""
        cycles = float(self.counters["cycles"].sum())
        return {
            "clock_mhz": self.clock_hz / 1e6,
            "cycles_per_token": self.mean_cycles,
            "bus_utilisation": float(self.counters["data_beats"].sum()) / cycles,
            "bytes_per_token": float(self.bytes_read.mean()),
            "tokens_per_second": self.tokens_per_second,
            "gigabytes_per_second": self.gigabytes_per_second,
        }

    def line(self) -> str:
        """The figures over all jobs in one line."""
        values = self.as_dict()
        return (
            f"{values['cycles_per_token']:,.0f} cycles and {values['bytes_per_token']:,.0f} bytes "
            f"per token: at {values['clock_mhz']:g} MHz {values['tokens_per_second']:,.1f} "
            f"tokens/s, {values['gigabytes_per_second']:.2f} of "
            f"{self.peak_gigabytes_per_second:.2f} GB/s"
        )
