"""The mask buffer against bits placed one by one as the layout says."""

import random
from dataclasses import replace
from itertools import repeat

import pytest

from hw.config import HeadConfig
from hw.layout import ImageLayout
from hw.mask import MaskBuffer, mask_word_bits

from .streams import STALLS, StreamMonitor, receive, send, simulate, stalls, wait


def config(**options):
    return HeadConfig(**{"bus_bits": 64, "max_dim": 64, "max_rows": 4096, "mask": True} | options)


def mask_beats(layout, channel, allowed):
    """A channel's mask for ``allowed[vector][row]`` as beats; the bits of padding are random."""
    vectors, size = len(allowed), layout.config.bus_bytes
    beats = layout.mask_beats(channel, vectors)
    image = bytearray(random.Random(beats).randbytes(beats * size))
    for vector, bits in enumerate(allowed):
        for row, bit in enumerate(bits):
            at = layout.mask(row, vector, vectors)
            if at.channel == channel:
                image[at.byte] = image[at.byte] & ~(1 << at.bit) | bit << at.bit
    return [int.from_bytes(image[at : at + size], "little") for at in range(0, len(image), size)]


def channel_row_ids(layout, channel):
    """The rows of the vocabulary in a channel, in order."""
    tile_rows, channels = layout.config.tile_rows, layout.config.channels
    return [row for row in range(layout.rows) if row // tile_rows % channels == channel]


def run_jobs(settings, jobs, give="none", take="none", channel=0, slow=None):
    """Run jobs of ``(rows, vectors, enable)`` and compare every bit; the monitors of the outputs.

    `slow`: the number of a ranker that takes a row every 10 clocks.
    """
    dut = MaskBuffer(settings)
    outputs = [getattr(dut, f"o{ranker}") for ranker in range(settings.rankers)]
    entered = StreamMonitor(dut.i)
    monitors = [StreamMonitor(output, drop=dut.start) for output in outputs]
    rng = random.Random(len(jobs))

    def pace(ranker):
        if ranker == slow:
            return (clock == 9 for _ in repeat(None) for clock in range(10))
        return stalls(take, ranker)

    plans = []
    for rows, vectors, enable in jobs:
        layout = ImageLayout(settings, rows, 1)
        allowed = [[rng.getrandbits(1) for _ in range(rows)] for _ in range(vectors)]
        beats = mask_beats(layout, channel, allowed) if enable else []
        ids = channel_row_ids(layout, channel)
        plans.append((vectors, enable, beats, [[bits[row] for row in ids] for bits in allowed]))
    begun, ended = [0], [0] * settings.rankers
    given = [0]

    async def start(ctx):
        for number, (vectors, enable, _, _) in enumerate(plans):
            ctx.set(dut.vectors, vectors)
            ctx.set(dut.enable, enable)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            begun[0] = number + 1
            while min(given[0], *ended) <= number:
                await ctx.tick()

    async def feed(ctx):
        for number, (_, _, beats, _) in enumerate(plans):
            while begun[0] <= number:
                await ctx.tick()
            await send(ctx, dut.i, beats, stalls(give, number))
            given[0] = number + 1

    def taker(ranker):
        async def take_rows(ctx):
            for number, (vectors, enable, _, expected) in enumerate(plans):
                while begun[0] <= number:
                    await ctx.tick()
                # A ranker without a vector may stop in between and holds up nobody.
                count = len(expected[0]) if ranker < vectors else len(expected[0]) // 2
                words = await receive(ctx, outputs[ranker], count, pace(ranker))
                for slot, vector in enumerate(range(ranker, vectors, settings.rankers)):
                    bits = [word >> slot & 1 for word in words]
                    assert bits == (expected[vector] if enable else [1] * count), vector
                if not enable:
                    slots = settings.ranker_vectors(ranker)
                    assert words == [(1 << slots) - 1] * count
                ended[ranker] = number + 1

        return take_rows

    simulate(
        dut,
        start,
        feed,
        *(taker(ranker) for ranker in range(settings.rankers)),
        background=[entered.run, *(monitor.run for monitor in monitors)],
        deadline=20000,
    )
    return entered, monitors


SHAPES = {
    "one_vector": (config(), [(64, 1), (1, 1), (333, 1)]),
    "one_tile_is_a_word": (config(tile_rows=8, batch=3, rankers=1), [(100, 3), (7, 2), (65, 1)]),
    "one_row_a_tile": (config(width=8, tile_rows=1, batch=2), [(1, 1), (37, 2), (70, 1)]),
    "odd_tile": (config(width=8, tile_rows=7, batch=2), [(20, 2), (50, 1)]),
    "three_words_a_tile": (config(tile_rows=24, batch=5, rankers=2), [(100, 5), (25, 3), (24, 1)]),
    "tile_of_many_words": (config(tile_rows=512, batch=2, rankers=2), [(1300, 2), (513, 1)]),
    "two_rankers": (config(batch=3, rankers=2), [(130, 3), (129, 1), (64, 2)]),
    "a_ranker_each": (config(tile_rows=16, batch=4, rankers=4), [(70, 4), (33, 2), (17, 3)]),
    "sixteen": (config(bus_bits=128, batch=16, rankers=4), [(200, 16), (70, 11), (1, 1)]),
    "more_vectors_than_bits": (config(tile_rows=2, width=8, batch=7, rankers=2), [(41, 7), (9, 4)]),
    "wide_bus": (config(bus_bits=512, batch=2), [(700, 2), (65, 1)]),
    "tile_of_many_beats": (config(tile_rows=256, batch=4, rankers=2), [(600, 4), (257, 3)]),
}


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_row_gets_its_bits_job_after_job(shape, give, take):
    settings, jobs = SHAPES[shape]
    run_jobs(settings, [(rows, vectors, 1) for rows, vectors in jobs], give, take)


@pytest.mark.parametrize("rows", [1, 31, 32, 33, 63, 64, 65, 97, 128, 129])
def test_bits_past_the_last_row_reach_no_job(rows):
    settings = config(tile_rows=32, batch=2, rankers=2)
    run_jobs(settings, [(rows, 1, 1), (rows, 2, 1), (130 - rows, 2, 1)], "random", "random")


@pytest.mark.parametrize("channel", range(4))
def test_a_channel_has_the_bits_of_its_own_tiles(channel):
    settings = config(tile_rows=8, batch=2, channels=4)
    run_jobs(settings, [(75, 2, 1), (32, 1, 1)], "random", "random", channel)


@pytest.mark.parametrize("take", STALLS)
def test_without_a_mask_all_bits_are_one_and_no_beat_is_needed(take):
    settings = config(tile_rows=16, batch=3, rankers=2)
    jobs = [(50, 3, 0), (50, 3, 1), (20, 1, 0), (20, 2, 1)]
    run_jobs(settings, jobs, take=take)


def test_rankers_without_a_vector_hold_up_nobody():
    settings = config(tile_rows=16, batch=4, rankers=4)
    run_jobs(settings, [(600, 1, 1), (600, 3, 1)])


@pytest.mark.parametrize("slow", range(2))
def test_rankers_take_rows_at_their_own_pace(slow):
    settings = config(tile_rows=16, batch=3, rankers=2)
    _, monitors = run_jobs(settings, [(300, 3, 1)], slow=slow)
    # The other one is ahead by more than a tile, so it does not wait for each row.
    fast, late = monitors[1 - slow].cycles, monitors[slow].cycles
    assert max(sum(cycle < here for cycle in fast) - n for n, here in enumerate(late)) > 16


@pytest.mark.parametrize(
    "options, vectors",
    [
        ({}, 1),
        ({"batch": 4, "rankers": 2}, 4),
        ({"batch": 4, "rankers": 4, "tile_rows": 256}, 4),
        ({"batch": 16, "rankers": 16, "bus_bits": 512}, 16),
        ({"batch": 8, "rankers": 2, "tile_rows": 16}, 8),
        ({"batch": 6, "rankers": 4, "tile_rows": 24}, 6),
    ],
)
def test_a_row_per_clock_without_a_bubble_from_tile_to_tile(options, vectors):
    settings = config(**options)
    _, monitors = run_jobs(settings, [(settings.tile_rows * 6 + 5, vectors, 1)])
    assert [monitor.bubbles for monitor in monitors] == [0] * settings.rankers


def test_the_first_row_comes_four_clocks_after_its_beat():
    entered, (output,) = run_jobs(config(), [(64, 1, 1)])
    assert output.cycles[0] == entered.cycles[0] + 4


def test_a_start_drops_what_an_aborted_job_left():
    settings = config(tile_rows=16, batch=2, rankers=2)
    dut = MaskBuffer(settings)
    layout = ImageLayout(settings, 16, 1)

    async def job(ctx):
        ctx.set(dut.enable, 1)
        ctx.set(dut.vectors, 2)
        for clocks in range(20):
            for allowed in ([[0] * 16] * 2, [[1] * 16] * 2):
                ctx.set(dut.start, 1)
                await ctx.tick()
                ctx.set(dut.start, 0)
                await send(ctx, dut.i, mask_beats(layout, 0, allowed))
                if not allowed[0][0]:
                    await wait(ctx, clocks)
                    ctx.set(dut.o0.ready, clocks % 2)
                    await wait(ctx, clocks)
                    ctx.set(dut.o0.ready, 0)
                else:
                    assert await receive(ctx, dut.o0, 16) == [1] * 16
                    assert await receive(ctx, dut.o1, 16) == [1] * 16

    simulate(dut, job)


@pytest.mark.parametrize(
    "options, bits",
    [
        ({}, 8),
        ({"batch": 8}, 16),
        ({"batch": 9}, 32),
        ({"batch": 16, "tile_rows": 48}, 16),
        ({"width": 8, "tile_rows": 7}, 1),
        ({"width": 8, "tile_rows": 12}, 4),
    ],
)
def test_words_divide_the_tile_and_hold_two_bits_a_vector(options, bits):
    assert mask_word_bits(config(**options)) == bits


def test_a_configuration_without_a_mask_is_refused():
    with pytest.raises(ValueError, match="mask must be True .*, got False"):
        MaskBuffer(replace(config(), mask=False))
