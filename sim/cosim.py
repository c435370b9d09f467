"""cocotb testbenches on the accelerator and the DRAM model, and the host's view from within one.

`run` builds the simulator (cached) and runs the cocotb tests of a module in it; call it from a
pytest test. Within the simulation, `bench` tells what is simulated and `CocotbDevice` gives the
host driver the same device as `SimDevice`, so that the driver runs unchanged in a testbench::

    @cocotb.test()
    async def answers(dut):
        async with CocotbDevice(dut) as device:
            results = await device.call(lambda: Head(device, image).run(hidden, k=8))
"""

import os
import pickle
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree

import numpy as np
from cocotb.clock import Clock
from cocotb.simtime import get_sim_time
from cocotb.task import bridge, resume
from cocotb.triggers import ClockCycles, First, RisingEdge, Timer
from cocotb_tools.runner import get_runner

from hw.config import HeadConfig
from sim import build
from sim.device import REGISTER_DEADLINE_CYCLES, RESET_CYCLES, check_response, timeout_message
from sim.memory import Dram, MemoryModel, MemoryPort

Result = TypeVar("Result")

_BENCH_VARIABLE = "UNEMBED_BENCH"
_CLOCK_PERIOD_PS = 4000
_TIMEOUT = -1


@dataclass(frozen=True)
class Bench:
    """What a testbench simulates."""

    config: HeadConfig
    memory: MemoryModel
    parameters: dict[str, Any] = field(default_factory=dict)
    """Values the pytest test hands to the cocotb tests; anything that can be pickled."""


def bench() -> Bench:
    """What is simulated; to be called by a cocotb test."""
    return pickle.loads(Path(os.environ[_BENCH_VARIABLE]).read_bytes())


def run(
    test_module: str,
    config: HeadConfig,
    folder: Path,
    *,
    memory: MemoryModel | None = None,
    parameters: Mapping[str, Any] | None = None,
    tests: Sequence[str] | None = None,
    seed: int = 1,
    verilog: str | None = None,
    connect_memory: bool = True,
    quick: bool = False,
    progress: build.Progress = build.no_progress,
) -> None:
    """Run cocotb tests.

    Parameters
    ----------
    test_module : str
        Module with the cocotb tests, importable from here.
    config : HeadConfig
        The accelerator.
    folder : Path
        Where the results and the log go; one per call.
    memory : MemoryModel
        The DRAM.
    parameters : mapping
        See `Bench.parameters`.
    tests : sequence of str, optional
        Names of the tests to run. Default: all.
    seed : int
        Seed of cocotb's random numbers.
    verilog : str, optional
        Verilog of the accelerator. Default: generated from `config`.
    connect_memory : bool
        False: no DRAM model, the testbench drives all pins of the accelerator.
    quick : bool
        Build in a fraction of the time a simulator that is slow, for a few thousand clocks.

    Raises
    ------
    AssertionError
        A test failed, none was run, or the simulator ended early; the message has the names, the
        errors and the end of the log.
    ToolError
        The simulator had to be built and a tool is missing or failed.
    """
    if verilog is None:
        verilog = build.accelerator_verilog(config, progress)
    program = build.testbench_program(
        verilog, config.bus_bits, config.channels, connect_memory, quick, progress
    )
    folder.mkdir(parents=True, exist_ok=True)
    description = folder / "bench.pickle"
    description.write_bytes(
        pickle.dumps(Bench(config, memory or MemoryModel(), dict(parameters or {})))
    )
    results = folder.absolute() / "results.xml"
    log = folder.absolute() / "simulation.log"
    stopped = None
    try:
        get_runner("verilator").test(
            test_module=test_module,
            hdl_toplevel=program.name,
            hdl_toplevel_lang="verilog",
            testcase=tests,
            seed=seed,
            build_dir=program.parent,
            test_dir=folder,
            results_xml=str(results),
            log_file=log,
            extra_env={_BENCH_VARIABLE: str(description.absolute())},
        )
    except (SystemExit, RuntimeError) as error:
        # The runner ends the process where tests or the simulator failed; here a test fails.
        stopped = str(error)
    _check_results(results, log, stopped)


def _check_results(results: Path, log: Path, stopped: str | None) -> None:
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    tail = "\n".join(lines[-40:])
    if not results.is_file():
        raise AssertionError(f"the simulator ended without results ({stopped})\n{tail}")
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    if not any(case.find("skipped") is None for case in cases):
        raise AssertionError(f"no cocotb test was run\n{tail}")
    failures = []
    for case in cases:
        for problem in (*case.iter("failure"), *case.iter("error")):
            text = problem.get("message") or problem.get("error_msg") or problem.text or ""
            failures.append(f"{case.get('name')}: {text.strip()}")
    if failures or stopped is not None:
        reason = f"cocotb failed ({stopped})" if stopped else "cocotb tests failed"
        raise AssertionError("\n".join([reason, *failures, tail]))


_closed: list["CocotbDevice"] = []


class CocotbDevice:
    """The accelerator of a testbench as a device of the host driver.

    The methods of the device are synchronous and may be called only within `call`. A testbench
    can use `read`, `write`, `interrupted` and the memory instead, which it can await.

    Parameters
    ----------
    dut
        The top: module ``simulation``.
    setup : Bench, optional
        Default: `bench()`.
    clock_hz : float
        Clock the figures of the driver and the DRAM timing refer to; simulated time always runs
        at 250 MHz.
    """

    name = "cocotb"

    def __init__(self, dut, setup: Bench | None = None, clock_hz: float = 250e6):
        self.dut = dut
        self.bench = setup if setup is not None else bench()
        self.config = self.bench.config
        self.clock_hz = clock_hz
        self.memory = Dram(self.bench.memory.base, self.bench.memory.size)
        self.ports = self.memory.ports(
            self.bench.memory, self.config.bus_bits, self.config.channels, clock_hz
        )
        self._clock = Clock(dut.ap_clk, _CLOCK_PERIOD_PS, unit="ps")
        self._start_ps = 0

    @property
    def port(self) -> MemoryPort:
        """The memory port of channel 0."""
        return self.ports[0]

    async def __aenter__(self) -> "CocotbDevice":
        await self.start()
        return self

    async def __aexit__(self, *exception) -> None:
        self.close()

    async def start(self) -> None:
        """Start the clock, connect the memory and reset the accelerator."""
        for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
            self._pin(name).value = 0
        for name in ("awaddr", "awprot", "wdata", "wstrb", "araddr", "arprot"):
            self._pin(name).value = 0
        self.dut.memory_port.value = sum(
            port.handle << 64 * channel for channel, port in enumerate(self.ports)
        )
        self._clock.start(start_high=False)
        self._start_ps = get_sim_time("ps")
        await self.reset()
        while _closed:
            _closed.pop()._free()

    def close(self) -> None:
        """Stop the clock. The memory is freed when the next device has taken its place."""
        self._clock.stop()
        # The simulator may finish a clock edge, which uses the port.
        _closed.append(self)

    def _free(self) -> None:
        for port in self.ports:
            port.close()
        self.memory.close()

    async def reset(self, cycles: int = RESET_CYCLES) -> None:
        """Reset the accelerator and the memory's ports; the memory keeps its content."""
        self.dut.ap_rst_n.value = 0
        await ClockCycles(self.dut.ap_clk, cycles)
        self.dut.ap_rst_n.value = 1
        await RisingEdge(self.dut.ap_clk)

    async def call(self, function: Callable[..., Result], *arguments) -> Result:
        """Run a function that uses the synchronous methods of this device."""
        return await bridge(function)(*arguments)

    # AXI4-Lite on the pins. On a rising edge of the clock, cocotb reads what the edge sees and
    # writes what follows it.

    def _pin(self, name: str):
        return getattr(self.dut, f"s_axi_control_{name}")

    async def _after_edge(self) -> None:
        # A timer may end at the time of a rising edge, but before it. A pin that changes together
        # with the clock could be seen by this edge or by the next.
        if self.dut.ap_clk.value == 0:
            await RisingEdge(self.dut.ap_clk)

    async def read(self, offset: int) -> int:
        """The 32-bit register at `offset`; raises `BusError` as `read_register` does."""
        response, value = await self.transact_read(offset)
        check_response("read", offset, response)
        return value

    async def write(self, offset: int, value: int, strobe: int = 0xF) -> None:
        """Write a 32-bit register; raises `BusError` as `write_register` does."""
        check_response("write", offset, await self.transact_write(offset, value, strobe))

    async def transact_read(self, offset: int) -> tuple[int, int]:
        """AXI response (negative: none) and value of a register read."""
        await self._after_edge()
        self._pin("araddr").value = offset
        self._pin("arvalid").value = 1
        self._pin("rready").value = 1
        waiting = True
        for _ in range(REGISTER_DEADLINE_CYCLES):
            await RisingEdge(self.dut.ap_clk)
            if waiting and self._pin("arready").value == 1:
                self._pin("arvalid").value = 0
                waiting = False
            if self._pin("rvalid").value == 1:
                self._pin("rready").value = 0
                return int(self._pin("rresp").value), int(self._pin("rdata").value)
        return _TIMEOUT, 0

    async def transact_write(self, offset: int, value: int, strobe: int = 0xF) -> int:
        """AXI response (negative: none) of a register write."""
        await self._after_edge()
        self._pin("awaddr").value = offset
        self._pin("wdata").value = value
        self._pin("wstrb").value = strobe
        self._pin("bready").value = 1
        waiting = {"aw", "w"}
        for channel in waiting:
            self._pin(f"{channel}valid").value = 1
        for _ in range(REGISTER_DEADLINE_CYCLES):
            await RisingEdge(self.dut.ap_clk)
            for channel in sorted(waiting):
                if self._pin(f"{channel}ready").value == 1:
                    self._pin(f"{channel}valid").value = 0
                    waiting.remove(channel)
            if self._pin("bvalid").value == 1:
                self._pin("bready").value = 0
                return int(self._pin("bresp").value)
        return _TIMEOUT

    async def interrupted(self, cycles: int) -> bool:
        """Wait until the interrupt is high, at most `cycles` clock cycles."""
        if self.dut.irq.value == 0:
            await First(RisingEdge(self.dut.irq), Timer(cycles * _CLOCK_PERIOD_PS, unit="ps"))
        return self.dut.irq.value == 1

    @property
    def cycles(self) -> int:
        """Clock cycles since the start."""
        return int(get_sim_time("ps") - self._start_ps) // _CLOCK_PERIOD_PS

    # The device of the host driver.

    def _resume(self, coroutine: Callable[..., Awaitable[Result]], *arguments) -> Result:
        return resume(coroutine)(*arguments)

    def read_register(self, offset: int) -> int:
        return self._resume(self.read, offset)

    def write_register(self, offset: int, value: int) -> None:
        self._resume(self.write, offset, value)

    @property
    def memory_base(self) -> int:
        return self.bench.memory.base

    @property
    def memory_bytes(self) -> int:
        return self.bench.memory.size

    def read_memory(self, address: int, size: int) -> np.ndarray:
        return self.memory.read(address, size)

    def write_memory(self, address: int, data) -> None:
        self.memory.write(address, data)

    def map_memory(self, address: int, data) -> None:
        self.memory.map(address, data)

    def wait_interrupt(self, cycles: int) -> None:
        if not self._resume(self.interrupted, cycles):
            raise TimeoutError(timeout_message(self, cycles))
