"""What counters mean: utilisation and rates of jobs."""

from dataclasses import dataclass

import numpy as np

from host.results import Results


@dataclass(frozen=True)
class Figures:
    """Figures of J jobs, which served N hidden states, at a clock.

    Parameters
    ----------
    results : Results
    bus_bytes : int
        Bytes of a beat of one channel.
    clock_hz : float
    """

    results: Results
    bus_bytes: int
    clock_hz: float

    @property
    def counters(self) -> dict[str, np.ndarray]:
        """Counters of the jobs, int64 [J] each."""
        return self.results.counters

    @property
    def states(self) -> int:
        return len(self.results.ids)

    @property
    def channels(self) -> int:
        return self.results.channel_counters["data_beats"].shape[1]

    @property
    def bytes_read(self) -> np.ndarray:
        """Bytes on the read ports, int64 [J]."""
        return self.counters["data_beats"] * self.bus_bytes

    @property
    def utilisation(self) -> np.ndarray:
        """Share of a job's cycles with data on the read port, float64 [J]; the mean of channels."""
        return self.counters["data_beats"] / (self.counters["cycles"] * self.channels)

    @property
    def cycles_per_token(self) -> float:
        """Cycles of all jobs by states."""
        return float(self.counters["cycles"].sum()) / self.states

    @property
    def tokens_per_second(self) -> float:
        """States per second, jobs one after the other."""
        return self.clock_hz / self.cycles_per_token

    @property
    def gigabytes_per_second(self) -> float:
        """10^9 bytes read per second of the jobs."""
        cycles = float(self.counters["cycles"].sum())
        return float(self.bytes_read.sum()) / cycles * self.clock_hz / 1e9

    @property
    def peak_gigabytes_per_second(self) -> float:
        """What the read ports could carry at this clock."""
        return self.channels * self.bus_bytes * self.clock_hz / 1e9

    @property
    def write_share(self) -> float:
        """Bytes written by bytes read; all logits of a run raise it."""
        return float(self.counters["bytes_written"].sum() / self.bytes_read.sum())

    def as_dict(self) -> dict[str, float]:
        """The figures over all jobs as plain numbers."""
        return {
            "clock_mhz": self.clock_hz / 1e6,
            "cycles_per_token": self.cycles_per_token,
            "bus_utilisation": float(self.counters["data_beats"].sum())
            / float(self.counters["cycles"].sum() * self.channels),
            "bytes_per_token": float(self.bytes_read.sum()) / self.states,
            "bytes_written_per_token": float(self.counters["bytes_written"].sum()) / self.states,
            "write_share": self.write_share,
            "tokens_per_second": self.tokens_per_second,
            "gigabytes_per_second": self.gigabytes_per_second,
        }

    def line(self) -> str:
        """The figures over all jobs in one line."""
        values = self.as_dict()
        written = ""
        if self.results.all_logits is not None:
            written = f", {100 * values['write_share']:.2f} % as many written"
        return (
            f"{values['cycles_per_token']:,.0f} cycles and {values['bytes_per_token']:,.0f} bytes "
            f"per token{written}: at {values['clock_mhz']:g} MHz "
            f"{values['tokens_per_second']:,.1f} tokens/s, {values['gigabytes_per_second']:.2f} of "
            f"{self.peak_gigabytes_per_second:.2f} GB/s"
        )
