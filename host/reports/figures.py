"""What counters mean: utilisation and rates of jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from host.image.payload import image_parts, padding_rows
from host.reports.cycles import Cycles
from host.results import Results
from hw.layout import ImageLayout
from hw.plan import hidden_beats


@dataclass(frozen=True)
class MemoryRates:
    """What a memory could give, bytes per second over all ports of the accelerators."""

    sequential: float
    """To a reader of consecutive addresses that never runs out of requests."""
    peak: float | None = None
    """Of the DRAM's pins; None without a DRAM."""


@dataclass(frozen=True)
class Figures:
    """Figures of J jobs, which served N hidden states, at a clock.

    Parameters
    ----------
    results : Results
    bus_bytes : int
        Bytes of a beat of one channel.
    clock_hz : float
    layouts : sequence of ImageLayout, optional
        Of the images for the hardware they ran on, one for each shard, in their order. Without
        them `cycles` and `payload` are not known.
    memory : MemoryRates, optional
    """

    results: Results
    bus_bytes: int
    clock_hz: float
    layouts: Sequence[ImageLayout] = ()
    memory: MemoryRates | None = None

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

    @cached_property
    def cycles(self) -> Cycles:
        """Where the cycles went."""
        return Cycles.of(self.results, self.layouts)

    @cached_property
    def payload(self) -> dict[str, float]:
        """Bytes read per job by what they hold, the mean: the parts of `image_parts`, hidden
        states with their parameters, masks. They add up to the bytes read.
        """
        jobs = len(self.counters["cycles"])
        images = [image_parts(layout) for layout in self.layouts]
        parts = {name: sum(image[name] for image in images) for name in images[0]}
        vectors = self.results.vectors.tolist()
        parts["hidden"] = sum(
            hidden_beats(layout.config, layout.dim, count)
            for layout in self.layouts
            for count in vectors
        ) * (self.bus_bytes / jobs)
        masks = self.counters["data_beats"].sum() - self.counters["stream_beats"].sum()
        parts["mask"] = masks * self.bus_bytes / jobs
        return {name: float(size) for name, size in parts.items()}

    @property
    def payload_efficiency(self) -> float:
        """Bytes of weights, without padding, by bytes read."""
        return self.payload["weights"] / sum(self.payload.values())

    @property
    def row_efficiency(self) -> float:
        """Rows of the vocabulary by rows read."""
        rows = sum(layout.rows for layout in self.layouts)
        return rows / (rows + sum(map(padding_rows, self.layouts)))

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

    @property
    def limits(self) -> dict[str, float]:
        """Rates that bound the reading of the jobs, 10^9 bytes per second, by name."""
        rates = {"port": self.peak_gigabytes_per_second}
        if self.memory is not None:
            rates["memory"] = self.memory.sequential / 1e9
            if self.memory.peak is not None:
                rates["dram"] = self.memory.peak / 1e9
        return rates

    def arrays(self) -> dict[str, np.ndarray]:
        """Start and tail of the jobs, int64 [J], added up over the channels like the counters;
        with several channels also those of each, [J, C], as ``channel_`` with the name.
        """
        arrays = {}
        for name in ("start", "tail"):
            values = getattr(self.cycles, name)
            arrays[f"{name}_cycles"] = values.sum(axis=1)
            if values.shape[1] > 1:
                arrays[f"channel_{name}_cycles"] = values
        return arrays

    def as_dict(self) -> dict[str, object]:
        """The figures over all jobs as plain numbers; those per job are means."""
        limits = self.limits
        details = {
            "limits_gigabytes_per_second": limits,
            "shares_of_limits": {
                name: self.gigabytes_per_second / rate for name, rate in limits.items()
            },
        }
        if self.layouts:
            details |= {
                "cycles_per_job": self.cycles.means(),
                "bytes_per_job": self.payload,
                "payload_efficiency": self.payload_efficiency,
                "row_efficiency": self.row_efficiency,
            }
        return self._rates() | details

    def _rates(self) -> dict[str, float]:
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
        values = self._rates()
        written = ""
        if self.results.all_logits is not None:
            written = f", {100 * values['write_share']:.2f} % as many written"
        return (
            f"{values['cycles_per_token']:,.0f} cycles and {values['bytes_per_token']:,.0f} bytes "
            f"per token{written}: at {values['clock_mhz']:g} MHz "
            f"{values['tokens_per_second']:,.1f} tokens/s, {values['gigabytes_per_second']:.2f} of "
            f"{self.peak_gigabytes_per_second:.2f} GB/s"
        )
