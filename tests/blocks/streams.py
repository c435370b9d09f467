"""Drives, takes and checks streams in Amaranth's simulator."""

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

from amaranth.hdl import ClockDomain, Const, Module, Value
from amaranth.sim import Simulator

STALLS = ("none", "random", "long")
"""The kinds of stalls every streaming test runs with."""


def stalls(kind: str, seed: int = 0) -> Iterator[bool]:
    """Per clock, whether a side may offer or take a word.

    "none" always, "random" half of the time, "long" in runs of up to 40 clocks either way.
    """
    if kind == "none":
        return repeat(True)
    rng = random.Random(f"{kind} {seed}")
    if kind == "random":
        return (rng.random() < 0.5 for _ in repeat(None))
    if kind == "long":
        return (go for _ in repeat(None) for go in (True, False) for _ in range(rng.randint(1, 40)))
    raise ValueError(f"kind must be one of {', '.join(STALLS)}, got {kind!r}")


def simulate(
    dut,
    *testbenches: Callable,
    background: Iterable[Callable] = (),
    deadline: int = 20000,
) -> None:
    """Run `dut` with async testbenches until all but those in the background have ended.

    Raises
    ------
    TimeoutError
        They have not ended after `deadline` clocks.
    """
    top = Module()
    top.domains.sync = ClockDomain()  # a block without registers needs it for `tick` alone
    top.submodules.dut = dut
    simulator = Simulator(top)
    simulator.add_clock(1e-8)
    running = {}

    def wrap(index, testbench):
        async def run(ctx):
            running[index] = testbench
            await testbench(ctx)
            del running[index]

        return run

    async def watchdog(ctx):
        for _ in range(deadline):
            await ctx.tick()
        names = ", ".join(testbench.__qualname__ for testbench in running.values())
        raise TimeoutError(f"not done after {deadline} clocks: {names}")

    for index, testbench in enumerate(testbenches):
        simulator.add_testbench(wrap(index, testbench))
    for testbench in background:
        simulator.add_testbench(testbench, background=True)
    simulator.add_testbench(watchdog, background=True)
    simulator.run()


async def wait(ctx, clocks: int) -> None:
    """Let `clocks` pass."""
    for _ in range(clocks):
        await ctx.tick()


async def wait_until(ctx, condition, deadline: int = 2000) -> int:
    """Let clocks pass until `condition` is high; how many did.

    Raises
    ------
    TimeoutError
        It is low for `deadline` clocks.
    """
    for clocks in range(deadline):
        if ctx.get(condition):
            return clocks
        await ctx.tick()
    raise TimeoutError(f"not met after {deadline} clocks")


async def send(ctx, stream, words: Iterable, go: Iterator[bool] | None = None) -> None:
    """Offer `words` in order; a word is offered in clocks that `go` allows, and then kept."""
    go = repeat(True) if go is None else go
    for word in words:
        while not next(go):
            ctx.set(stream.valid, 0)
            await ctx.tick()
        ctx.set(stream.payload, word)
        ctx.set(stream.valid, 1)
        await ctx.tick().until(stream.ready)
    ctx.set(stream.valid, 0)


async def send_early(ctx, stream, words: Iterable, go: Iterator[bool] | None = None) -> None:
    """Give `words` in order on a stream with `ready_next`, in clocks that `go` allows."""
    go = repeat(True) if go is None else go
    taken = False
    for word in words:
        while not (next(go) and taken):
            *_, taken = await ctx.tick().sample(stream.ready_next)
        ctx.set(stream.payload, word)
        ctx.set(stream.valid, 1)
        *_, taken = await ctx.tick().sample(stream.ready_next)
        ctx.set(stream.valid, 0)


async def receive(ctx, stream, count: int, go: Iterator[bool] | None = None) -> list:
    """Take `count` words, ready in clocks that `go` allows whether one is offered or not."""
    go = repeat(True) if go is None else go
    words = []
    while len(words) < count:
        ready = next(go)
        ctx.set(stream.ready, ready)
        _, _, valid, payload = await ctx.tick().sample(stream.valid, stream.payload)
        if valid and ready:
            words.append(payload)
    ctx.set(stream.ready, 0)
    return words


def sender(stream, words: Iterable, go: Iterator[bool] | None = None) -> Callable:
    """`send` as a testbench."""

    async def sender(ctx):
        await send(ctx, stream, words, go)

    return sender


def receiver(stream, count: int, go: Iterator[bool] | None = None, into: list | None = None):
    """`receive` as a testbench; the words are appended to `into`."""

    async def receiver(ctx):
        words = await receive(ctx, stream, count, go)
        if into is not None:
            into.extend(words)

    return receiver


class HandshakeChecker:
    """Checks the rule of a valid/ready handshake: no offer is withdrawn or changed.

    Parameters
    ----------
    name : str
        Names the channel in the errors.
    """

    def __init__(self, name: str):
        self.name = name
        self._waiting = None

    def forget(self) -> None:
        """Let an offer that waits be withdrawn."""
        self._waiting = None

    def step(self, cycle: int, valid: int, ready: int, payload) -> bool:
        """Take the values at one clock edge; True for a transfer."""
        if self._waiting is not None:
            assert valid, f"{self.name}: valid was withdrawn in clock {cycle}"
            assert payload == self._waiting, f"{self.name}: payload changed in clock {cycle}"
        self._waiting = payload if valid and not ready else None
        return bool(valid and ready)


class StreamMonitor:
    """Watches a stream, checks its handshake and keeps what was transferred and when.

    Pass `run` to `simulate` as a background testbench.

    Parameters
    ----------
    stream : stream interface
    name : str, optional
    drop : Value, optional
        While it is high and in the clock after, offers may be withdrawn.

    Attributes
    ----------
    words : list
        Payloads transferred, as the simulator gives them (integers, or views for structures).
    cycles : list of int
        The clock of each transfer.
    """

    def __init__(self, stream, name: str = "stream", drop=None):
        self.stream = stream
        self.drop = Const(0) if drop is None else drop
        self.words = []
        self.cycles = []
        self._checker = HandshakeChecker(name)

    async def run(self, ctx):
        stream = self.stream
        samples = ctx.tick().sample(
            stream.valid, stream.ready, Value.cast(stream.payload), stream.payload, self.drop
        )
        cycle = 0
        dropped = False
        async for _, reset, valid, ready, bits, payload, drop in samples:
            if self._checker.step(cycle, valid, ready, bits):
                self.words.append(payload)
                self.cycles.append(cycle)
            if drop or dropped or reset:
                self._checker.forget()
            dropped = drop
            cycle += 1

    @property
    def bubbles(self) -> int:
        """Clocks without a transfer between the first and the last one."""
        if not self.cycles:
            return 0
        return self.cycles[-1] - self.cycles[0] + 1 - len(self.cycles)


class EarlyMonitor:
    """Takes from a stream with `ready_next` in clocks that `go` allows, and keeps the words.

    Checks that none comes in a clock that was not told.
    """

    def __init__(self, stream, go: Iterator[bool], name: str = "stream"):
        self.stream = stream
        self.go = go
        self.name = name
        self.words = []

    async def run(self, ctx):
        stream = self.stream
        taken = False
        while True:
            ready = next(self.go)
            ctx.set(stream.ready_next, ready)
            _, _, valid, payload = await ctx.tick().sample(stream.valid, stream.payload)
            if valid:
                assert taken, f"{self.name}: a word came in a clock that had not been told"
                self.words.append(payload)
            taken = ready
