"""Scores on their way to memory, against the layout; addresses in bytes."""

import random

import pytest

from hw.config import HeadConfig
from hw.layout import ImageLayout
from hw.logits import LogitsWriter

from .streams import (
    STALLS,
    StreamMonitor,
    receive,
    send,
    simulate,
    stalls,
    wait,
    wait_until,
)

BASE = 0x1_FFFF_FF40
"""An address whose low half overflows within the scores, aligned to the widest bus alone."""


def config(bus_bits=64, batch=1, rankers=1, **options):
    return HeadConfig(
        bus_bits=bus_bits, batch=batch, rankers=rankers, max_dim=64, max_rows=4096, **options
    )


def words_of(rng, count):
    return [rng.getrandbits(64) for _ in range(count)]


def written(commands, beats, bus_bits):
    """The 8-byte words in memory after `commands`, by address."""
    memory, rest = {}, iter(beats)
    for address, count in commands:
        for beat in range(count):
            word = next(rest)
            for lane in range(bus_bits // 64):
                at = address + beat * bus_bits // 8 + 8 * lane
                assert at not in memory, f"{at:#x} written twice"
                memory[at] = word >> 64 * lane & (1 << 64) - 1
    assert not list(rest)
    return memory


def run(settings, ranker, jobs, give="none", take="none"):
    """Write the words of each of `jobs`; per job what is in memory and the commands."""
    dut = LogitsWriter(settings, ranker)
    commands, beats = StreamMonitor(dut.o_command), StreamMonitor(dut.o)
    results = []

    async def buffered(ctx):
        """No command is offered before the words of its beats are here."""
        command = dut.o_command
        pins = ctx.tick().sample(
            dut.i.valid, dut.i.ready, command.valid, command.ready, command.payload.beats, dut.start
        )
        given = commanded = 0
        async for _, _, i_valid, i_ready, valid, ready, count, start in pins:
            if start:
                given = commanded = 0
            if valid:
                assert given > (commanded + count - 1) * settings.bus_bits // 64
            given += i_valid and i_ready
            commanded += count if valid and ready else 0

    async def bench(ctx):
        for number, words in enumerate(jobs):
            first = len(commands.words), len(beats.words)
            ctx.set(dut.address, BASE)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            ctx.set(dut.address, 0)
            assert not ctx.get(dut.done)
            await send(ctx, dut.i, words, stalls(give, number))
            await wait(ctx, number % 3)
            ctx.set(dut.flush, 1)
            await ctx.tick()
            ctx.set(dut.flush, 0)
            await wait_until(ctx, dut.done)
            await ctx.tick()
            made = [(each.address, each.beats) for each in commands.words[first[0] :]]
            memory = written(made, beats.words[first[1] :], settings.bus_bits)
            results.append((memory, made))

    async def writer(ctx):
        """Takes a command, then its beats."""
        go = stalls(take, 7)
        while True:
            (command,) = await receive(ctx, dut.o_command, 1, go)
            await receive(ctx, dut.o, command.beats, go)

    background = [commands.run, beats.run, writer, buffered]
    simulate(dut, bench, background=background, deadline=30000)
    return results


COUNTS = [0, 1, 7, 8, 9, 15, 16, 17, 127, 128, 129, 300]


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("bus_bits", [64, 128, 512])
def test_scores_go_to_whole_chunks_and_the_rest_is_padded_with_zeros(bus_bits, give, take):
    rng = random.Random(bus_bits)
    jobs = [words_of(rng, count) for count in rng.sample(COUNTS, len(COUNTS))]
    for words, (memory, commands) in zip(
        jobs, run(config(bus_bits), 0, jobs, give, take), strict=True
    ):
        lanes = bus_bits // 64
        padded = words + [0] * (-len(words) % lanes)
        assert memory == {BASE + 8 * number: word for number, word in enumerate(padded)}
        beats = len(padded) // lanes
        counts = [min(16, beats - first) for first in range(0, beats, 16)]
        assert [count for _, count in commands] == counts


@pytest.mark.parametrize("rows", [1, 64, 70, 300])
@pytest.mark.parametrize(
    "batch, rankers, vectors, bus_bits",
    [(1, 1, 1, 64), (4, 2, 3, 128), (6, 4, 6, 64), (4, 4, 2, 512), (2, 2, 1, 64)],
)
def test_every_score_lies_where_the_layout_says(batch, rankers, vectors, bus_bits, rows):
    settings = config(bus_bits, batch, rankers)
    layout = ImageLayout(settings, rows, 8)
    rng = random.Random(rows)
    scores = [words_of(rng, rows) for _ in range(vectors)]
    memory = {}
    for ranker in range(rankers):
        own = range(ranker, vectors, rankers)
        words = [scores[vector][row] for row in range(rows) for vector in own]
        ((part, _),) = run(settings, ranker, [words], take="random")
        assert not part.keys() & memory.keys()
        memory |= part
    for vector in range(vectors):
        for row in range(rows):
            at = BASE + layout.logit(row, vector, vectors).byte
            assert memory[at] == scores[vector][row]
    assert max(memory) < BASE + layout.logits_bytes(0, vectors)


def test_takes_a_score_per_clock():
    for bus_bits in (64, 512):
        dut = LogitsWriter(config(bus_bits), 0)
        entered, left = StreamMonitor(dut.i), StreamMonitor(dut.o)
        count = 64 * bus_bits // 64

        async def job(ctx, dut=dut, count=count):
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            ctx.set(dut.o.ready, 1)
            ctx.set(dut.o_command.ready, 1)
            await send(ctx, dut.i, range(count))
            ctx.set(dut.flush, 1)
            await wait_until(ctx, dut.done)

        simulate(dut, job, background=[entered.run, left.run])
        assert entered.bubbles == 0
        assert len(left.words) == 64


def test_two_chunks_are_buffered_while_the_writer_is_busy():
    dut = LogitsWriter(config(), 0)
    entered, left = StreamMonitor(dut.i), StreamMonitor(dut.o)

    async def job(ctx):
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        await send(ctx, dut.i, range(98))
        ctx.set(dut.flush, 1)
        await wait_until(ctx, dut.done)

    async def writer(ctx):
        await wait(ctx, 100)
        assert 32 <= len(entered.words) <= 34
        # Beats that go before their command do not unsettle the count of the chunks.
        ctx.set(dut.o.ready, 1)
        await wait(ctx, 100)
        assert 32 <= len(left.words) <= len(entered.words) <= 34
        commands = [await receive(ctx, dut.o_command, 1) for _ in range(7)]
        assert [command.beats for (command,) in commands] == [16] * 6 + [2]

    simulate(dut, job, writer, background=[entered.run, left.run])


def test_a_start_drops_what_an_aborted_job_left():
    settings = config(128)
    dut = LogitsWriter(settings, 0)

    async def job(ctx):
        for clocks in range(40):
            ctx.set(dut.start, 1)
            ctx.set(dut.address, 0x1000)
            await ctx.tick()
            ctx.set(dut.start, 0)
            await send(ctx, dut.i, range(100, 100 + clocks))
            ctx.set(dut.flush, clocks // 2 % 2)
            await ctx.tick()
            ctx.set(dut.flush, 0)
            ctx.set(dut.start, 1)
            ctx.set(dut.address, 0x2000)
            await ctx.tick()
            ctx.set(dut.start, 0)
            await send(ctx, dut.i, range(3))
            ctx.set(dut.flush, 1)
            (command,) = await receive(ctx, dut.o_command, 1)
            ctx.set(dut.flush, 0)
            assert (command.address, command.beats) == (0x2000, 2)
            assert await receive(ctx, dut.o, 2) == [1 << 64, 2]
            assert ctx.get(dut.done)

    simulate(dut, job)


def test_a_ranker_that_is_not_built_is_refused():
    with pytest.raises(ValueError, match=r"ranker must be in 0\.\.1, got 2"):
        LogitsWriter(config(batch=3, rankers=2), 2)
