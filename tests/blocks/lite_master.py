"""Drives and checks a register file through its AXI4-Lite pins, in Amaranth's simulator."""

import random

from hw.axi import RESP_OKAY
from hw.config import HeadConfig
from hw.register_map import OFFSETS
from hw.registers import Registers

from .streams import HandshakeChecker, simulate, wait

ORDERS = ("together", "address first", "data first")


class Master:
    """An AXI4-Lite master that waits for each answer; `kind` of stalls on every channel.

    After a handshake it leaves other values on the pins.
    """

    def __init__(self, dut, kind="none", seed=0):
        self.dut = dut
        self.rng = random.Random(f"{kind} {seed}")
        self.longest = {"none": 0, "random": 3, "long": 20}[kind]
        self.payloads = {"aw": (dut.awaddr,), "w": (dut.wdata, dut.wstrb)}

    async def _pause(self, ctx):
        await wait(ctx, self.rng.randint(0, self.longest))

    async def _response(self, ctx, valid, ready, pins):
        """Answer `valid` with `ready`, before or after it; the values of `pins`."""
        await self._pause(ctx)
        ctx.set(ready, 1)
        values = await ctx.tick().sample(*pins).until(valid)
        ctx.set(ready, 0)
        return values

    async def write(self, ctx, name, value, strobe=0xF, order="together"):
        """Write to a register, or to an offset; the response."""
        dut = self.dut
        offset = OFFSETS.get(name, name)
        gap = self.rng.randint(1, 1 + self.longest)
        late = {"together": (0, 0), "address first": (0, gap), "data first": (gap, 0)}[order]
        ctx.set(dut.awaddr, offset)
        ctx.set(dut.wdata, value)
        ctx.set(dut.wstrb, strobe)
        left = {"aw": late[0], "w": late[1]}
        clock = 0
        while left:
            offered = [name for name, delay in left.items() if clock >= delay]
            for name in offered:
                ctx.set(getattr(dut, f"{name}valid"), 1)
            _, _, *ready = await ctx.tick().sample(dut.awready, dut.wready)
            accepted = dict(zip(("aw", "w"), ready, strict=True))
            for name in offered:
                if accepted[name]:
                    ctx.set(getattr(dut, f"{name}valid"), 0)
                    for pin in self.payloads[name]:
                        ctx.set(pin, self.rng.getrandbits(len(pin)))
                    del left[name]
            clock += 1
        return (await self._response(ctx, dut.bvalid, dut.bready, [dut.bresp]))[0]

    async def read(self, ctx, name):
        """Read a register, or an offset; the response and the word."""
        dut = self.dut
        await self._pause(ctx)
        ctx.set(dut.araddr, OFFSETS.get(name, name))
        ctx.set(dut.arvalid, 1)
        await ctx.tick().until(dut.arready)
        ctx.set(dut.arvalid, 0)
        ctx.set(dut.araddr, self.rng.getrandbits(12))
        response, word = await self._response(ctx, dut.rvalid, dut.rready, [dut.rresp, dut.rdata])
        return response, word

    async def get(self, ctx, name):
        response, word = await self.read(ctx, name)
        assert response == RESP_OKAY
        return word

    async def put(self, ctx, name, value):
        assert await self.write(ctx, name, value) == RESP_OKAY


def channel_checker(dut):
    """A background testbench: offers on B, R and the job stream are kept; responses are due."""

    async def check(ctx):
        checkers = {"b": HandshakeChecker("b"), "r": HandshakeChecker("r")}
        start = HandshakeChecker("start")
        taken = {"aw": 0, "w": 0, "b": 0, "ar": 0, "r": 0}
        pins = (
            [pin for name in taken for pin in handshake(dut, name)]
            + [dut.bresp, dut.rresp, dut.rdata]
            + [dut.start.valid, dut.start.ready, dut.start.payload, dut.soft_reset]
        )
        cycle = 0
        async for _, _, *values in ctx.tick().sample(*pins):
            *rest, start_valid, start_ready, job, soft_reset = values
            *handshakes, bresp, rresp, rdata = rest
            for index, name in enumerate(taken):
                valid, ready = handshakes[2 * index : 2 * index + 2]
                if name in checkers:
                    payload = bresp if name == "b" else (rresp, rdata)
                    checkers[name].step(cycle, valid, ready, payload)
                taken[name] += valid and ready
            if soft_reset:
                start.forget()
            start.step(cycle, start_valid, start_ready, job)
            assert taken["b"] <= min(taken["aw"], taken["w"]) <= taken["b"] + 1
            assert taken["r"] <= taken["ar"] <= taken["r"] + 1
            cycle += 1

    return check


def handshake(dut, name):
    return getattr(dut, f"{name}valid"), getattr(dut, f"{name}ready")


def run(testbench, config=None, kind="none", deadline=20000, background=()):
    """Simulate `testbench(ctx, dut, master)` on a register file whose accelerator is idle."""
    dut = Registers(config or HeadConfig())
    master = Master(dut, kind)

    async def bench(ctx):
        ctx.set(dut.idle, 1)
        await testbench(ctx, dut, master)

    tasks = [channel_checker(dut), *(task(dut) for task in background)]
    simulate(dut, bench, background=tasks, deadline=deadline)
