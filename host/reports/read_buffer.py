"""What commands say of the buffer of reads under way: its size, why, and what a small one costs."""

import argparse
from dataclasses import dataclass
from fractions import Fraction

from host.messages import say
from host.options.hardware import BUFFER_FIELDS, given_parameters
from host.options.memory import clock_hz, memory_model
from hw.config import HeadConfig
from sim.memory.sizing import USUAL_BEATS, Sizing, choose, read_path


@dataclass(frozen=True)
class ReadBuffer:
    """The read buffer of each channel, for the memory it works with.

    Parameters
    ----------
    sizing : Sizing
    bytes_per_cycle : Fraction
        What bus and memory allow a channel.
    where : dict of str
        Where a size was set, by `HeadConfig` field; those that are missing were chosen.
    worth_a_line : bool
        The sizes follow from a memory or a choice, not from defaults alone.
    """

    sizing: Sizing
    bytes_per_cycle: Fraction
    where: dict[str, str]
    worth_a_line: bool

    def line(self) -> str:
        """Sizes and reason in one line."""
        sizing = self.sizing
        given = f" (set by {', '.join(self.where.values())})" if self.where else ""
        return (
            f"read buffer {sizing.outstanding_bytes:,} bytes, bursts of {sizing.max_burst} beats"
            f"{given}; needed by {sizing.reason}"
        )

    def as_dict(self) -> dict[str, object]:
        """Sizes and reason as JSON has them."""
        sizing = self.sizing
        return {
            "max_burst": sizing.max_burst,
            "outstanding_bytes": sizing.outstanding_bytes,
            "needed_bytes": sizing.needed_bytes,
            "chosen": [field for field in BUFFER_FIELDS if field not in self.where],
            "share_of_rate": sizing.share,
            "reason": sizing.reason,
        }

    def warn(self) -> None:
        """Say so if the sizes keep the memory from its full rate, and what that costs."""
        sizing = self.sizing
        if not sizing.limits:
            return
        where = self.where.get("outstanding_bytes") or "read buffer"
        rate = float(self.bytes_per_cycle)
        say(
            "warning",
            f"{where}: {sizing.outstanding_bytes:,} bytes under way limit reads to "
            f"{sizing.share * rate:.3g} of {rate:.3g} bytes per clock ({sizing.share:.1%}); "
            f"needed are, for {sizing.reason}",
        )


def read_buffer(arguments: argparse.Namespace, config: HeadConfig) -> ReadBuffer:
    """The read buffer of a configuration at the memory and clock of the options."""
    memory = memory_model(arguments)
    system = (memory, config.bus_bits, clock_hz(arguments), config.channels)
    sizes = {field: getattr(config, field) for field in BUFFER_FIELDS}
    given = given_parameters(arguments)
    return ReadBuffer(
        choose(*system, **sizes),
        read_path(*system).bytes_per_cycle,
        {field: given[field][1] for field in BUFFER_FIELDS if field in given},
        memory.dram is not None or config.outstanding_beats != USUAL_BEATS,
    )
