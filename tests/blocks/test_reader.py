"""The reader against a Python memory; addresses and sizes in bytes."""

from itertools import pairwise

import pytest

from hw.reader import Reader

from .axi_memory import ReadMemory
from .reader_bench import HIGH, MASK, Recount, config, expected_beats, no_new_request, run
from .streams import STALLS, StreamMonitor, send, simulate, wait, wait_until

SHAPES = {
    "one_beat": (config(), [(0x1000, 1)]),
    "one_beat_before_the_boundary": (config(), [(0x1FF8, 1)]),
    "across_the_boundary": (config(), [(0x1FF8, 2)]),
    "exactly_one_burst": (config(), [(HIGH, 16)]),
    "one_beat_more_than_a_burst": (config(), [(HIGH, 17)]),
    "up_to_the_boundary": (config(), [(0x1F60, 20)]),
    "carry_into_the_high_half": (config(), [(0xFFFFFF80, 40)]),
    "carry_into_the_upper_pages": (config(512, 64, 128), [((1 << 38) - 0x2000, 256)]),
    "burst_of_one": (config(max_burst=1, outstanding_beats=8), [(0x1FD0, 30)]),
    "burst_of_three": (config(max_burst=3), [(0x1FD0, 40)]),
    "burst_as_large_as_the_room": (config(max_burst=16, outstanding_beats=16), [(0x4010, 100)]),
    "wide": (config(512, 64, 64), [(HIGH + 0xFC0, 66)]),
    "segments": (config(), [(HIGH, 5), (0x2FF8, 1), (0x8, 33), (0xFFFF_FFFF_FFFF_F000, 24)]),
}


@pytest.mark.parametrize("kind", STALLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_reads_every_beat_in_order_with_exact_bursts_and_counts(shape, kind):
    settings, segments = SHAPES[shape]
    _, _, recount = run(settings, segments, kind=kind)
    assert recount.data + recount.refused + recount.waiting == recount.active
    assert recount.data == sum(beats for _, beats in segments)


@pytest.mark.parametrize(
    "bus_bits, address, size, expected",
    [
        (128, 0x0800, 8192, [(0x0800, 128), (0x1000, 256), (0x2000, 128)]),
        (128, 0x1000, 8192, [(0x1000, 256), (0x2000, 256)]),
        (128, 0x1000, 4096, [(0x1000, 256)]),
        (64, 0x0800, 8192, [(0x0800, 256), (0x1000, 256), (0x1800, 256), (0x2000, 256)]),
        (512, 0x0800, 8192, [(0x0800, 32), (0x1000, 64), (0x2000, 32)]),
    ],
)
def test_longest_bursts_end_at_4_kib(bus_bits, address, size, expected):
    longest = min(256, 4096 * 8 // bus_bits)
    settings = config(bus_bits, longest, 256)
    memory, _, _ = run(settings, [(address, size * 8 // bus_bits)])
    assert [(burst.address, burst.beats) for burst in memory.bursts] == expected


@pytest.mark.parametrize("latency", [20, 160])
def test_streams_a_beat_per_clock_whatever_the_latency(latency):
    beats = 3000
    _, (output,), _ = run(config(64, 64, 256), [(0x800, beats)], latency)
    assert beats / (beats + output.bubbles) >= 0.9995


def test_segments_follow_without_a_bubble():
    segments = [(0x3000, 18), (HIGH + 0xF00, 70), (0x8, 3), (0x10000, 40)]
    _, (output,), _ = run(config(64, 16, 128), segments, latency=20)
    assert output.bubbles == 0


def test_requests_every_two_clocks():
    memory, _, _ = run(config(64, 1, 64), [(0x1000, 32)], latency=4)
    clocks = [burst.cycle for burst in memory.bursts]
    assert [b - a for a, b in pairwise(clocks)] == [2] * 31


def test_fills_its_room_but_never_more_when_the_consumer_is_slow():
    reader = Reader(config(64, 8, 32))
    memory = ReadMemory(reader, 64, latency=3)
    recount = Recount(reader)

    async def consume_late(ctx):
        await send(ctx, reader.command, [{"address": 0x1000, "beats": 100}])
        await wait(ctx, 150)
        assert memory.beats == 32
        ctx.set(reader.o.ready, 1)
        await wait(ctx, 200)
        assert ctx.get(reader.idle)
        assert memory.beats == 100

    simulate(reader, consume_late, background=[memory.run, recount.run])
    assert recount.most_reserved == 32


@pytest.mark.parametrize("response", [1, 2, 3])
def test_error_pulses_for_a_beat_that_is_not_okay_and_only_at_its_handshake(response):
    # The memory drives RRESP = SLVERR whenever RVALID is low.
    _, _, recount = run(
        config(), [(0x1000, 40)], kind="random", responses={3: response, 20: response}
    )
    assert recount.errors == 2


def test_no_error_when_every_beat_is_okay():
    _, _, recount = run(config(), [(0x1000, 40)], kind="random")
    assert recount.errors == 0


def abort_case(pulse, stalled_address=False, consumed=0):
    """Abort with bursts open; the next job must be right.

    `pulse`: clocks that abort is high, None for until idle.
    """
    reader = Reader(config(64, 16, 64))
    blocked = [False]
    address_go = iter(lambda: not blocked[0], None)
    memory = ReadMemory(reader, 64, latency=30, address_go=address_go)
    output = StreamMonitor(reader.o, drop=reader.abort)
    after = [(0x8008, 50)]

    async def job(ctx):
        await send(ctx, reader.command, [{"address": 0x1000, "beats": 500}])
        while len(memory.bursts) < 3 or memory.beats < consumed:
            await ctx.tick()
            ctx.set(reader.o.ready, memory.beats < consumed)
        if stalled_address:
            # Room for one burst more, whose address is left waiting.
            blocked[0] = True
            await wait_until(ctx, reader.arvalid)
        ctx.set(reader.o.ready, 0)
        ctx.set(reader.abort, 1)
        # A command that comes meanwhile is dropped as well.
        await send(ctx, reader.command, [{"address": 0x5000, "beats": 9}])
        if pulse is None:
            for _ in range(20 if stalled_address else 0):
                assert not ctx.get(reader.idle)
                assert ctx.get(reader.arvalid)
                await ctx.tick()
            blocked[0] = False
            await wait_until(ctx, reader.idle)
            assert not ctx.get(reader.o.valid)
            assert memory.beats == 16 * len(memory.bursts)
        else:
            await wait(ctx, pulse - 1)
            blocked[0] = False
        ctx.set(reader.abort, 0)
        before = len(output.words)
        await send(ctx, reader.command, [{"address": a, "beats": n} for a, n in after])
        ctx.set(reader.o.ready, 1)
        await wait_until(ctx, reader.idle)
        await ctx.tick()
        assert output.words[before:] == expected_beats(after, 64)
        assert ctx.get(reader.outstanding_beats) == 0
        # The room is whole again: the next job fills it.
        ctx.set(reader.o.ready, 0)
        beats = memory.beats
        await send(ctx, reader.command, [{"address": 0x9000, "beats": 200}])
        await wait(ctx, 200)
        assert memory.beats == beats + 64

    simulate(reader, job, background=[memory.run, output.run, no_new_request(reader)])


def test_abort_drains_open_bursts_and_the_next_job_is_right():
    abort_case(pulse=None)


def test_abort_keeps_an_address_that_waits():
    abort_case(pulse=None, stalled_address=True)


def test_abort_drops_beats_that_are_buffered():
    abort_case(pulse=None, consumed=20)


@pytest.mark.parametrize("pulse", [1, 2, 25, 40, 60])
def test_a_short_abort_drains_before_the_next_command(pulse):
    abort_case(pulse=pulse, consumed=10)


def test_no_address_is_raised_from_the_first_clock_of_an_abort():
    reader = Reader(config(64, 1, 64))
    memory = ReadMemory(reader, 64)

    async def abort_after_every_number_of_clocks(ctx):
        for clocks in range(12):
            await send(ctx, reader.command, [{"address": 0x1000, "beats": 60}])
            await wait(ctx, clocks)
            ctx.set(reader.abort, 1)
            await ctx.tick()
            await wait_until(ctx, reader.idle)
            await ctx.tick()
            assert memory.beats == len(memory.bursts)
            ctx.set(reader.abort, 0)

    testbench = abort_after_every_number_of_clocks
    simulate(reader, testbench, background=[memory.run, no_new_request(reader)])


def test_a_short_abort_waits_for_an_address_that_is_not_accepted():
    reader = Reader(config())
    blocked = [True]
    memory = ReadMemory(reader, 64, address_go=iter(lambda: not blocked[0], None))
    output = StreamMonitor(reader.o)

    async def job(ctx):
        await send(ctx, reader.command, [{"address": 0x1000, "beats": 16}])
        await wait_until(ctx, reader.arvalid)
        ctx.set(reader.abort, 1)
        await ctx.tick()
        ctx.set(reader.abort, 0)
        await wait(ctx, 20)
        assert ctx.get(reader.arvalid) and not ctx.get(reader.idle)
        blocked[0] = False
        ctx.set(reader.o.ready, 1)
        await send(ctx, reader.command, [{"address": 0x5000, "beats": 20}])
        await wait_until(ctx, reader.idle)
        await ctx.tick()
        assert output.words == expected_beats([(0x5000, 20)], 64)

    simulate(reader, job, background=[memory.run, output.run])


def test_abort_when_idle_changes_nothing():
    reader = Reader(config())
    memory = ReadMemory(reader, 64)

    async def job(ctx):
        ctx.set(reader.abort, 1)
        for _ in range(3):
            await ctx.tick()
            assert ctx.get(reader.idle)
        ctx.set(reader.abort, 0)
        await ctx.tick()
        ctx.set(reader.o.ready, 1)
        await send(ctx, reader.command, [{"address": 0x1000, "beats": 20}])
        await wait_until(ctx, reader.idle)
        assert memory.beats == 20

    simulate(reader, job, background=[memory.run])


@pytest.mark.parametrize("mask", [False, True])
def test_axi_outputs_do_not_follow_axi_inputs_within_a_clock(mask):
    reader = Reader(config(mask=mask))

    def outputs(ctx):
        pins = ("arvalid", "araddr", "arlen", "rready")
        return [ctx.get(getattr(reader, pin)) for pin in pins]

    async def toggle(ctx):
        if mask:
            await send(ctx, reader.mask_command, [{"address": MASK, "beats": 100}])
        await send(ctx, reader.command, [{"address": 0x1000, "beats": 100}])
        for _ in range(8):
            before = outputs(ctx)
            for ready in (1, 0):
                ctx.set(reader.arready, ready)
                ctx.set(reader.rvalid, ready)
                assert outputs(ctx) == before
            await ctx.tick()

    simulate(reader, toggle)
