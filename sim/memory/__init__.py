"""The simulated DRAM: its description (`MemoryModel`) and its content and ports (`Dram`)."""

from sim.memory.library import Dram, MemoryPort, Statistics
from sim.memory.model import CHANNELS, Faults, MemoryModel, Stall, Stalls

__all__ = [
    "CHANNELS",
    "Dram",
    "Faults",
    "MemoryModel",
    "MemoryPort",
    "Stall",
    "Stalls",
    "Statistics",
]
