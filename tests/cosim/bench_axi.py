"""cocotb tests with cocotbext-axi's memory and master in place of our own; run by test_axi.py."""

import logging
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, First, RisingEdge, Timer
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiRam,
    AxiRamRead,
    AxiReadBus,
    AxiResp,
)

from hw.head import CONTROL_PREFIX, memory_prefix
from hw.register_map import OFFSETS, identification
from sim.cosim import bench
from tests.cosim.heads import random_head
from tests.cosim.jobs import MEMORY_BYTES, Job, check, run

CONFIG = bench().config
CLOCK_PERIOD_NS = 4
UNMAPPED = 0x1F8
JOB_CYCLES = 50_000
timed_test = cocotb.test(timeout_time=200_000 * CLOCK_PERIOD_NS, timeout_unit="ns")
"""A test that ends when the master waits for an answer that does not come."""


class AxiDevice:
    """The bare accelerator between cocotbext-axi's AxiLiteMaster and AxiRams of one content.

    Has what `tests.cosim.jobs` needs of a device. `dut` is the module ``unembed``.
    """

    config = CONFIG

    def __init__(self, dut):
        self.dut = dut
        cocotb.start_soon(Clock(dut.ap_clk, CLOCK_PERIOD_NS, unit="ns").start())
        reset = {"reset": dut.ap_rst_n, "reset_active_level": False}
        self.master = AxiLiteMaster(
            AxiLiteBus.from_prefix(dut, CONTROL_PREFIX.rstrip("_")), dut.ap_clk, **reset
        )
        self.memories = []
        for channel in range(CONFIG.channels):
            prefix = memory_prefix(channel).rstrip("_")
            # All share the content of the first one. Those without pins to write only read.
            content = {"mem": self.memories[0].mem} if self.memories else {}
            writes = hasattr(dut, f"{prefix}_awvalid")
            bus, kind = (AxiBus, AxiRam) if writes else (AxiReadBus, AxiRamRead)
            self.memories.append(
                kind(
                    bus.from_prefix(dut, prefix), dut.ap_clk, size=MEMORY_BYTES, **reset, **content
                )
            )
        for _, interface in self.interfaces():
            # It logs every burst.
            interface.log.setLevel(logging.WARNING)

    def interfaces(self):
        """Names and halves of all ports."""
        ports = [("control", self.master)]
        ports += [(f"memory {number}", memory) for number, memory in enumerate(self.memories)]
        for port, side in ports:
            if isinstance(side, AxiRamRead):
                yield f"{port} read", side
            else:
                yield f"{port} read", side.read_if
                yield f"{port} write", side.write_if

    def channels(self):
        """Names and drivers of the channels of all ports."""
        for half, interface in self.interfaces():
            for name in ("ar", "r") if half.endswith("read") else ("aw", "w", "b"):
                yield f"{half} {name}", getattr(interface, f"{name}_channel")

    def pause(self, probability: float, longest: int, seed: int) -> None:
        """Random pauses on every channel of all ports."""
        for name, channel in self.channels():
            channel.set_pause_generator(pauses(probability, longest, f"{seed} {name}"))

    async def reset(self) -> None:
        self.dut.ap_rst_n.value = 0
        await ClockCycles(self.dut.ap_clk, 8)
        self.dut.ap_rst_n.value = 1
        await RisingEdge(self.dut.ap_clk)

    async def read(self, offset: int) -> int:
        answer = await self.master.read(offset, 4)
        assert answer.resp == AxiResp.OKAY
        return int.from_bytes(answer.data, "little")

    async def write(self, offset: int, value: int) -> None:
        answer = await self.master.write(offset, int(value).to_bytes(4, "little"))
        assert answer.resp == AxiResp.OKAY

    async def interrupted(self, cycles: int) -> bool:
        """Wait until the interrupt is high, at most `cycles` clock cycles."""
        interrupt = self.dut.interrupt
        if interrupt.value == 0:
            await First(RisingEdge(interrupt), Timer(cycles * CLOCK_PERIOD_NS, unit="ns"))
        return interrupt.value == 1

    def read_memory(self, address: int, size: int) -> bytes:
        return self.memories[0].read(address, size)

    def write_memory(self, address: int, data) -> None:
        self.memories[0].write(address, bytes(data))


def pauses(probability: float, longest: int, seed: str):
    """Whether a channel pauses, clock by clock: pauses of 1..`longest` clocks."""
    rng = random.Random(seed)
    while True:
        if rng.random() < probability:
            yield from [True] * rng.randint(1, longest)
        yield False


async def jobs_are_right(device, seed):
    """Jobs of several shapes, bit-exact."""
    rng = np.random.default_rng(seed)
    largest = min(100, CONFIG.max_rows), min(200, CONFIG.max_dim)
    for rows, dim, k, ties in (
        (*largest, CONFIG.k, False),
        (1, 1, 1, False),
        (37, 45, min(5, CONFIG.k), True),
    ):
        head = random_head(CONFIG, rows, dim, rng, vectors=CONFIG.batch, ties=ties)
        allowed = rng.random((CONFIG.batch, rows)) < 0.7 if CONFIG.mask else None
        job = Job(head, k, allowed=allowed, logits=CONFIG.all_logits)
        result = await run(device, job, JOB_CYCLES)
        check(device, job, result)
        assert result.counters["rows"] == rows * CONFIG.batch


@timed_test
async def jobs_are_right_at_full_speed(dut):
    device = AxiDevice(dut)
    await device.reset()
    await jobs_are_right(device, 1)


@timed_test
async def jobs_are_right_with_short_pauses_on_every_channel(dut):
    device = AxiDevice(dut)
    device.pause(0.5, 2, seed=2)
    await device.reset()
    await jobs_are_right(device, 2)


@timed_test
async def jobs_are_right_with_long_pauses_on_every_channel(dut):
    device = AxiDevice(dut)
    device.pause(0.05, 60, seed=3)
    await device.reset()
    await jobs_are_right(device, 3)


@timed_test
async def registers_answer_accesses_that_follow_each_other_at_once(dut):
    device = AxiDevice(dut)
    await device.reset()
    words = identification(CONFIG)
    first = OFFSETS[next(iter(words))]
    for probability in (0, 0.4):
        device.pause(probability, 4, seed=4)
        # One call is one transaction per word, each offered before the last one is answered.
        answer = await device.master.read(first, 4 * len(words))
        assert answer.resp == AxiResp.OKAY
        assert np.frombuffer(answer.data, "<u4").tolist() == list(words.values())
        for seed in range(5):
            arguments = np.random.default_rng(seed).bytes(16)
            answer = await device.master.write(OFFSETS["ROWS"], arguments)
            assert answer.resp == AxiResp.OKAY
            assert (await device.master.read(OFFSETS["ROWS"], 16)).data == arguments


@timed_test
async def bytes_of_a_register_are_written_by_strobe(dut):
    device = AxiDevice(dut)
    await device.reset()
    await device.write(OFFSETS["ROWS"], 0x11223344)
    # Across two words: strobes 1000 and 0011.
    await device.write(OFFSETS["DIM"], 0x55667788)
    answer = await device.master.write(OFFSETS["ROWS"] + 3, b"\xaa\xbb\xcc")
    assert answer.resp == AxiResp.OKAY
    assert await device.read(OFFSETS["ROWS"]) == 0xAA223344
    assert await device.read(OFFSETS["DIM"]) == 0x5566CCBB


@timed_test
async def an_unmapped_register_is_answered_with_slverr(dut):
    device = AxiDevice(dut)
    await device.reset()
    assert (await device.master.read(UNMAPPED, 4)).resp == AxiResp.SLVERR
    assert (await device.master.write(UNMAPPED, bytes(4))).resp == AxiResp.SLVERR
    await jobs_are_right(device, 5)
