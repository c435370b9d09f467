"""What the memory of a run could have given."""

from collections.abc import Sequence
from fractions import Fraction

from host.reports.figures import MemoryRates
from hw.config import HeadConfig
from sim.memory import MemoryModel
from sim.memory.traffic import sequential_limit


def memory_rates(
    memory: MemoryModel, configs: Sequence[HeadConfig], clock_hz: float | Fraction
) -> MemoryRates:
    """The limits of simulated memories, alike, one for each accelerator of `configs`.

    The sequential rate of a DRAM is measured: a traffic generator reads from the model with any
    number of requests under way. Memory without DRAM timing gives what its ports carry.
    """
    sequential = peak = 0.0
    for config in configs:
        ports = config.channels
        if memory.dram is None:
            sequential += ports * config.bus_bytes * float(clock_hz)
            continue
        rate = sequential_limit(memory, config.bus_bits, clock_hz, ports)
        sequential += ports * rate * float(clock_hz)
        peak += float((memory.dram.count or ports) * memory.dram.device.peak_bytes_per_s)
    return MemoryRates(sequential, peak or None)
