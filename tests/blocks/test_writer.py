"""The writer against a Python memory; addresses in bytes, sizes in beats."""

import random

import pytest

from hw.config import HeadConfig
from hw.writer import Writer, longest_write_burst

from .axi_memory import WriteMemory, expected_bursts
from .streams import (
    STALLS,
    StreamMonitor,
    send,
    sender,
    simulate,
    stalls,
    wait,
    wait_until,
)

HIGH = 0x1_2345_6000
"""An address above 4 GiB."""


def config(bus_bits=64, max_burst=16):
    return HeadConfig(bus_bits=bus_bits, max_burst=max_burst, max_dim=64)


def commands_of(segments):
    return [{"address": address, "beats": beats} for address, beats in segments]


def addresses_of(segments, bus_bytes):
    return [start + beat * bus_bytes for start, beats in segments for beat in range(beats)]


class Recount:
    """Counts the events of a writer anew from its pins and checks what it may do, each clock."""

    def __init__(self, writer):
        self.writer = writer
        self.errors = 0
        self.beats = 0
        self.first_beat = self.last_beat = None

    async def run(self, ctx):
        writer = self.writer
        buffered = requested = commanded = answered = 0
        was_requested, was_idle = False, True
        pins = (
            writer.command.valid,
            writer.command.ready,
            writer.command.payload.beats,
            writer.i.valid,
            writer.i.ready,
            writer.awvalid,
            writer.awready,
            writer.awlen,
            writer.wvalid,
            writer.wready,
            writer.bvalid,
            writer.bresp,
            writer.idle,
            writer.beat,
            writer.error,
        )
        bursts = cycle = 0
        async for _, _, *sample in ctx.tick().sample(*pins):
            c_valid, c_ready, beats, i_valid, i_ready, aw_valid, aw_ready, aw_len = sample[:8]
            w_valid, w_ready, b_valid, b_resp, idle, beat, error = sample[8:]
            if aw_valid and not was_requested:
                requested += aw_len + 1
                bursts += 1
                assert requested <= buffered, "a burst began before it was buffered"
            was_requested = aw_valid and not aw_ready
            assert beat == (w_valid and w_ready)
            assert error == (b_valid and b_resp != 0)
            assert idle == was_idle
            was_idle = commanded == self.beats == buffered and bursts == answered
            was_idle &= not c_valid and not i_valid
            self.errors += error
            self.beats += beat
            if beat:
                self.last_beat = cycle
                self.first_beat = cycle if self.first_beat is None else self.first_beat
            cycle += 1
            answered += b_valid
            buffered += i_valid and i_ready
            commanded += beats if c_valid and c_ready else 0


def run(settings, segments, kind="none", **memory_options):
    """Write random beats to `segments`, all channels stalled alike; the memory and recount."""
    writer = Writer(settings)
    memory = WriteMemory(
        writer,
        settings.bus_bits,
        address_go=stalls(kind, 1),
        data_go=stalls(kind, 2),
        response_go=stalls(kind, 3),
        **memory_options,
    )
    recount = Recount(writer)
    rng = random.Random(5)
    addresses = addresses_of(segments, settings.bus_bytes)
    words = [rng.getrandbits(settings.bus_bits) for _ in addresses]

    async def finish(ctx):
        await send(ctx, writer.command, commands_of(segments), stalls(kind, 4))
        await wait_until(ctx, writer.idle, 8000)
        await ctx.tick()

    simulate(
        writer,
        finish,
        sender(writer.i, words, stalls(kind, 5)),
        background=[memory.run, recount.run, StreamMonitor(writer.i).run],
    )
    assert memory.words == dict(zip(addresses, words, strict=True))
    bursts = [
        burst
        for address, beats in segments
        for burst in expected_bursts(
            address, beats, settings.bus_bytes, longest_write_burst(settings)
        )
    ]
    assert [(burst.address, burst.beats) for burst in memory.bursts] == bursts
    assert memory.answers == len(bursts)
    assert recount.beats == len(words)
    return memory, recount


SHAPES = {
    "one_beat": (config(), [(0x1000, 1)]),
    "one_beat_before_the_boundary": (config(), [(0x1FF8, 1)]),
    "across_the_boundary": (config(), [(0x1FF8, 2)]),
    "exactly_one_burst": (config(), [(HIGH, 16)]),
    "one_beat_more_than_a_burst": (config(), [(HIGH, 17)]),
    "up_to_the_boundary": (config(), [(0x1F60, 20)]),
    "carry_into_the_high_half": (config(), [(0xFFFFFF80, 40)]),
    "carry_into_the_upper_pages": (config(512), [((1 << 38) - 0x2000, 256)]),
    "burst_of_one": (config(max_burst=1), [(0x1FD0, 30)]),
    "long_bursts_are_cut": (config(max_burst=256), [(0x1FD0, 100)]),
    "wide": (config(512), [(HIGH + 0xFC0, 35)]),
    "segments": (config(), [(HIGH, 5), (0x2FF8, 1), (0x8, 33), (0xFFFF_FFFF_FFFF_F000, 24)]),
}


@pytest.mark.parametrize("kind", STALLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_writes_every_beat_in_whole_buffered_bursts(shape, kind):
    run(*SHAPES[shape], kind)


@pytest.mark.parametrize("kind", STALLS)
@pytest.mark.parametrize("order", ["address", "data"])
def test_address_and_data_may_be_accepted_in_either_order(order, kind):
    run(config(), [(0x1FC0, 40), (0x8000, 3)], kind, order=order)


@pytest.mark.parametrize("bus_bits, start", [(64, 0x1000), (128, 0x1010), (128, HIGH)])
def test_segments_of_a_burst_follow_each_other_with_a_clock_between_at_most(bus_bits, start):
    settings = config(bus_bits)
    beats = longest_write_burst(settings)
    segments = [(start + beats * settings.bus_bytes * number, beats) for number in range(40)]
    memory, recount = run(settings, segments)
    clocks = recount.last_beat - recount.first_beat + 1
    short = sum(burst.beats == 1 for burst in memory.bursts[:-1])
    assert clocks - recount.beats == len(memory.bursts) - 1 + short


def test_more_bursts_than_may_wait_for_a_response():
    memory, _ = run(config(max_burst=1), [(0x1000, 40)], latency=60)
    assert memory.answers == 40


@pytest.mark.parametrize("response", [1, 2, 3])
def test_error_pulses_for_a_response_that_is_not_okay(response):
    # The memory drives BRESP = SLVERR whenever BVALID is low.
    _, recount = run(config(), [(0x1000, 64)], "random", responses={1: response, 3: response})
    assert recount.errors == 2


def test_no_error_when_every_response_is_okay():
    _, recount = run(config(), [(0x1000, 64)], "random")
    assert recount.errors == 0


def test_beats_may_come_before_their_command():
    writer = Writer(config())
    memory = WriteMemory(writer, 64)

    async def job(ctx):
        await send(ctx, writer.i, range(16))
        await wait(ctx, 10)
        assert not memory.bursts and not ctx.get(writer.idle)
        await send(ctx, writer.command, commands_of([(0x1000, 20)]))
        await send(ctx, writer.i, range(16, 20))
        await wait_until(ctx, writer.idle)
        assert memory.words == {0x1000 + 8 * beat: beat for beat in range(20)}

    simulate(writer, job, background=[memory.run])


def no_new_request(writer):
    """A testbench that checks that no AWVALID rises while abort is high."""

    async def watch(ctx):
        allowed = True
        pins = ctx.tick().sample(writer.awvalid, writer.awready, writer.abort)
        async for _, _, valid, ready, abort in pins:
            assert allowed or not valid
            allowed = not abort or (valid and not ready)

    return watch


def test_no_address_is_raised_from_the_first_clock_of_an_abort():
    writer = Writer(config(max_burst=1))
    memory = WriteMemory(writer, 64)

    async def abort_after_every_number_of_clocks(ctx):
        for clocks in range(12):
            await send(ctx, writer.i, range(10))
            await send(ctx, writer.command, commands_of([(0x1000 * (clocks + 1), 10)]))
            await wait(ctx, clocks)
            ctx.set(writer.abort, 1)
            await ctx.tick()
            await wait_until(ctx, writer.idle)
            await ctx.tick()
            assert memory.answers == memory.beats == len(memory.bursts)
            ctx.set(writer.abort, 0)

    testbench = abort_after_every_number_of_clocks
    simulate(writer, testbench, background=[memory.run, no_new_request(writer)])


@pytest.mark.parametrize("blocked", ["address", "data", "response"])
@pytest.mark.parametrize("pulse", [None, 1, 3])
def test_abort_completes_the_burst_that_has_begun_and_the_next_job_is_right(pulse, blocked):
    writer = Writer(config())
    block = [True]
    free = {f"{blocked}_go": iter(lambda: not block[0], None)}
    memory = WriteMemory(writer, 64, **free)

    async def job(ctx):
        await send(ctx, writer.command, commands_of([(0x1000, 16)]))
        await send(ctx, writer.i, range(16))
        await wait_until(ctx, writer.awvalid)
        await wait(ctx, 6)
        # The begin of a second burst, which must not be written.
        await send(ctx, writer.command, commands_of([(0x4000, 16)]))
        await send(ctx, writer.i, range(100, 102))
        await wait(ctx, 30)
        ctx.set(writer.abort, 1)
        await send(ctx, writer.i, range(200, 201 + (pulse is None)))
        if pulse is None:
            await send(ctx, writer.command, commands_of([(0x6000, 16)]))
            assert not ctx.get(writer.idle)
            block[0] = False
            await wait_until(ctx, writer.idle)
        else:
            await wait(ctx, pulse - 1)
        ctx.set(writer.abort, 0)
        block[0] = False
        await send(ctx, writer.command, commands_of([(0x8000, 18)]))
        await send(ctx, writer.i, range(300, 318))
        await wait_until(ctx, writer.idle)
        await ctx.tick()
        first = {0x1000 + 8 * beat: beat for beat in range(16)}
        second = {0x8000 + 8 * beat: 300 + beat for beat in range(18)}
        assert memory.words == first | second
        assert memory.answers == 3

    simulate(writer, job, background=[memory.run, no_new_request(writer)])


def test_axi_outputs_do_not_follow_axi_inputs_within_a_clock():
    writer = Writer(config())

    def outputs(ctx):
        pins = ("awvalid", "awaddr", "awlen", "wvalid", "wdata", "wlast", "bready")
        return [ctx.get(getattr(writer, pin)) for pin in pins]

    async def toggle(ctx):
        await send(ctx, writer.command, commands_of([(0x1000, 20)]))
        await send(ctx, writer.i, range(18))
        for _ in range(12):
            before = outputs(ctx)
            for ready in (1, 0):
                for pin in (writer.awready, writer.wready, writer.bvalid):
                    ctx.set(pin, ready)
                    assert outputs(ctx) == before
            ctx.set(writer.wready, 1)
            await ctx.tick()

    simulate(writer, toggle)
