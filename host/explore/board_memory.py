"""The memory of a board as the simulation has one."""

from dataclasses import replace
from fractions import Fraction
from math import ceil

from host.boards.board import Board
from host.options.memory import DEFAULT_LATENCY_NS
from sim.memory import DEVICES, DramTiming, MemoryModel
from sim.memory.devices import DramDevice

SAME_TIME = ("trfc", "trefi")
"""Timings that take as long at a lower clock; the others may need fewer clocks then, but keep
theirs, so that such a memory is rather too slow than too fast."""


def board_device(board: Board) -> DramDevice:
    """The device of `sim.memory.devices.DEVICES` that a board's memory is most like, at its rate.

    That is the one with the same peak; otherwise the slowest that is faster, slowed down.
    """
    peak = board.memory.peak_bytes_per_s
    faster = [device for device in DEVICES.values() if device.peak_bytes_per_s >= peak]
    device = min(faster, key=lambda each: each.peak_bytes_per_s)
    rate = Fraction(peak * 8, device.channels * device.bus_bits * 10**6)
    if rate == device.data_rate:
        return device
    slower = rate / device.data_rate
    times = {name: ceil(getattr(device, name) * slower) for name in SAME_TIME}
    return replace(
        device, name=f"{device.name} at {ceil(rate)} MT/s", data_rate=ceil(rate), **times
    )


def board_memory(board: Board, devices: int = 1) -> MemoryModel:
    """So many such memories, which the ports of the accelerator share."""
    timing = DramTiming(board_device(board), latency_ns=DEFAULT_LATENCY_NS, count=devices)
    return MemoryModel(dram=timing)
