"""The simulated DRAM: its description (`MemoryModel`) and its content and ports (`Dram`)."""

from sim.memory.devices import DEVICES, DramDevice, device
from sim.memory.library import Dram, MemoryPort, Statistics
from sim.memory.model import CHANNELS, DramTiming, Faults, MemoryModel, Stall, Stalls

__all__ = [
    "CHANNELS",
    "DEVICES",
    "Dram",
    "DramDevice",
    "DramTiming",
    "Faults",
    "MemoryModel",
    "MemoryPort",
    "Stall",
    "Stalls",
    "Statistics",
    "device",
]
