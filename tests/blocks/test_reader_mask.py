"""The reader's second stream, the mask, beside the first one; addresses and sizes in bytes."""

from itertools import chain, repeat

import pytest

from hw.reader import Reader

from .axi_memory import ReadMemory
from .reader_bench import (
    HIGH,
    MASK,
    Recount,
    commands_of,
    config,
    expected_beats,
    is_mask,
    no_new_request,
    run,
)
from .streams import STALLS, StreamMonitor, receive, send, simulate, stalls, wait, wait_until

MASKED = {
    "one_beat_each": (config(mask=True), [(0x1000, 1)], [(MASK, 1)]),
    "across_the_boundary": (config(mask=True), [(HIGH, 90)], [(MASK + 0xFF8, 20)]),
    "many_bursts": (config(max_burst=64, mask=True), [(HIGH, 200)], [(MASK + 8, 120)]),
    "burst_of_one": (config(64, 1, 8, mask=True), [(0x1000, 40)], [(MASK, 20)]),
    "burst_of_three": (config(64, 3, 8, mask=True), [(0x1FD0, 40)], [(MASK + 0xFF0, 21)]),
    "burst_as_large_as_the_room": (config(64, 16, 16, mask=True), [(0x4010, 99)], [(MASK, 40)]),
    "wide": (config(512, 64, 64, mask=True), [(HIGH + 0xFC0, 66)], [(MASK + 0xF80, 36)]),
    "segments": (
        config(mask=True),
        [(HIGH, 5), (0x2FF8, 1), (0x8, 33), (0xFFFF_FFFF_FFFF_F000, 24)],
        [(MASK, 1), (MASK + 0xFF8, 2), (MASK + 0x2000, 17)],
    ),
    "no_mask": (config(mask=True), [(0x1000, 50)], []),
    "no_image": (config(mask=True), [], [(MASK, 50)]),
}


@pytest.mark.parametrize("latency", [1, 40])
@pytest.mark.parametrize("kind", STALLS)
@pytest.mark.parametrize("shape", MASKED)
def test_the_mask_and_the_image_each_come_in_order_and_the_counts_cover_both(shape, kind, latency):
    settings, segments, masks = MASKED[shape]
    _, _, recount = run(settings, segments, latency, kind, masks=masks)
    assert recount.data == sum(beats for _, beats in segments)
    assert all(len(clocks) == 3 for clocks in recount.masks)


@pytest.mark.parametrize("latency", [20, 160])
def test_beside_the_mask_the_image_streams_a_beat_per_clock(latency):
    beats, mask_beats = 3000, 150
    settings = config(64, 64, 256, mask=True)
    _, outputs, recount = run(settings, [(0x800, beats)], latency, masks=[(MASK, mask_beats)])
    assert beats / (beats + outputs[0].bubbles - mask_beats) >= 0.9995
    # A burst of the mask is requested three clocks after the last beat of the one before.
    ends = [done for _, _, done in recount.masks[:-1]]
    assert [b - a for a, (b, _, _) in zip(ends, recount.masks[1:], strict=True)] == [3] * 9


def test_a_mask_that_nobody_takes_does_not_hold_up_the_image():
    go = chain(repeat(False, 600), repeat(True))
    _, outputs, recount = run(
        config(64, 16, 64, mask=True), [(0x1000, 400)], masks=[(MASK, 90)], mask_go=go
    )
    assert outputs[0].cycles[-1] < 600
    assert outputs[1].cycles[0] == 600
    assert recount.most_mask_reserved == 32


def test_an_image_that_nobody_takes_does_not_hold_up_the_mask():
    reader = Reader(config(64, 16, 64, mask=True))
    memory = ReadMemory(reader, 64)
    recount = Recount(reader)

    async def job(ctx):
        await send(ctx, reader.command, [{"address": 0x1000, "beats": 100}])
        await wait(ctx, 200)
        assert memory.beats == 64
        await send(ctx, reader.mask_command, [{"address": MASK, "beats": 70}])
        await receive(ctx, reader.mask_o, 70)
        assert memory.beats == 64 + 70
        await receive(ctx, reader.o, 100)
        assert ctx.get(reader.idle)

    simulate(reader, job, background=[memory.run, recount.run])


def test_the_image_is_over_while_its_mask_still_waits():
    reader = Reader(config(64, 16, 64, mask=True))
    memory = ReadMemory(reader, 64)

    async def job(ctx):
        assert ctx.get(reader.image_idle)
        await send(ctx, reader.mask_command, [{"address": MASK, "beats": 70}])
        assert ctx.get(reader.image_idle)
        await send(ctx, reader.command, [{"address": 0x1000, "beats": 5}])
        assert not ctx.get(reader.image_idle)
        await receive(ctx, reader.o, 5)
        await wait(ctx, 100)
        assert ctx.get(reader.image_idle) and not ctx.get(reader.idle)
        await receive(ctx, reader.mask_o, 70)
        assert ctx.get(reader.idle)

    simulate(reader, job, background=[memory.run])


def test_error_pulses_for_beats_of_the_mask():
    # Beats 16 to 31 are those of the mask: its request follows the first one of the image.
    settings = config(mask=True)
    memory, _, recount = run(
        settings, [(0x1000, 40)], masks=[(MASK, 16)], kind="none", responses={20: 2, 25: 3}
    )
    assert is_mask(memory.bursts[1].address)
    assert recount.errors == 2


@pytest.mark.parametrize("pulse", [None, 1, 2, 30])
@pytest.mark.parametrize("clocks", range(1, 60, 4))
def test_abort_drops_the_mask_as_well_and_the_next_job_is_right(clocks, pulse):
    reader = Reader(config(64, 16, 64, mask=True))
    memory = ReadMemory(reader, 64, latency=25, address_go=stalls("random", clocks))
    outputs = [StreamMonitor(output, drop=reader.abort) for output in (reader.o, reader.mask_o)]

    async def read(ctx, address, beats, mask_beats):
        await send(ctx, reader.mask_command, commands_of([(MASK + address, mask_beats)]))
        await send(ctx, reader.command, commands_of([(address, beats)]))

    async def job(ctx):
        await read(ctx, 0x1000, 500, 500)
        for clock in range(clocks):
            ctx.set(reader.o.ready, clock % 3 == 0)
            ctx.set(reader.mask_o.ready, clock % 5 == 0)
            await ctx.tick()
        ctx.set(reader.o.ready, 0)
        ctx.set(reader.mask_o.ready, 0)
        ctx.set(reader.abort, 1)
        # Commands that come meanwhile are dropped as well.
        await send(ctx, reader.mask_command, commands_of([(MASK + 0x5000, 9)]))
        if pulse is None:
            await wait_until(ctx, reader.idle)
            assert not ctx.get(reader.o.valid) and not ctx.get(reader.mask_o.valid)
        else:
            await wait(ctx, pulse - 1)
        ctx.set(reader.abort, 0)
        before = [len(output.words) for output in outputs]
        after = (0x8008, 50), (MASK + 0x8008, 45)
        await read(ctx, 0x8008, 50, 45)
        ctx.set(reader.o.ready, 1)
        ctx.set(reader.mask_o.ready, 1)
        await wait_until(ctx, reader.idle)
        await ctx.tick()
        for output, start, segment in zip(outputs, before, after, strict=True):
            assert output.words[start:] == expected_beats([segment], 64)
        # The rooms are whole again: the next job fills them.
        ctx.set(reader.o.ready, 0)
        ctx.set(reader.mask_o.ready, 0)
        beats = memory.beats
        await read(ctx, 0x9000, 200, 200)
        await wait(ctx, 300)
        assert memory.beats == beats + 64 + 32

    background = [memory.run, no_new_request(reader), *(output.run for output in outputs)]
    simulate(reader, job, background=background)
