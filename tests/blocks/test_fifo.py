import random
from itertools import chain, repeat

import pytest

from hw.fifo import StreamFIFO

from .streams import STALLS, StreamMonitor, receiver, send, sender, simulate, stalls, wait


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("depth", [1, 2, 5, 16])
def test_words_come_out_in_order(depth, give, take):
    fifo = StreamFIFO(12, depth, "auto")
    words = [random.Random(depth).randrange(4096) for _ in range(200)]
    monitor = StreamMonitor(fifo.o)
    simulate(
        fifo,
        sender(fifo.i, words, stalls(give, 1)),
        receiver(fifo.o, len(words), stalls(take, 2)),
        background=[monitor.run],
    )
    assert monitor.words == words


@pytest.mark.parametrize("depth", [2, 5, 16])
def test_a_word_per_clock_without_bubbles_three_clocks_later(depth):
    fifo = StreamFIFO(8, depth)
    entered, left = StreamMonitor(fifo.i), StreamMonitor(fifo.o)
    simulate(
        fifo,
        sender(fifo.i, range(100)),
        receiver(fifo.o, 100),
        background=[entered.run, left.run],
    )
    assert entered.bubbles == 0
    assert left.cycles == [cycle + 3 for cycle in entered.cycles]


@pytest.mark.parametrize("depth", [1, 2, 7, 16])
def test_holds_its_depth_and_empties_without_bubbles(depth):
    fifo = StreamFIFO(8, depth)
    entered, left = StreamMonitor(fifo.i), StreamMonitor(fifo.o)

    async def fill_then_empty(ctx):
        await wait(ctx, 60)
        assert depth <= len(entered.words) <= depth + 2
        assert ctx.get(fifo.level) == len(entered.words)
        assert not ctx.get(fifo.i.ready)
        ctx.set(fifo.o.ready, 1)
        await wait(ctx, 100)

    # The second word comes when the first one has long waited on the output.
    go = chain([True], repeat(False, 10), repeat(True))
    simulate(
        fifo,
        sender(fifo.i, range(depth + 20), go),
        fill_then_empty,
        background=[entered.run, left.run],
    )
    assert left.words == list(range(depth + 20))
    if depth > 1:
        assert left.bubbles == 0


def test_nothing_waits_where_there_is_always_room():
    fifo = StreamFIFO(8, 16, has_room=True)
    held = [0]
    words = [word % 256 for word in range(300)]
    go = stalls("random", 1)
    offered, left = StreamMonitor(fifo.i), StreamMonitor(fifo.o)

    async def watch(ctx):
        async for _, _, level in ctx.tick().sample(fifo.level):
            held[0] = level

    simulate(
        fifo,
        # The RAM alone holds 16 words; two come until the level is seen.
        sender(fifo.i, words, iter(lambda: held[0] < 14, None)),
        receiver(fifo.o, len(words), go),
        background=[watch, offered.run, left.run],
    )
    assert offered.words == left.words == words


@pytest.mark.parametrize("take", STALLS)
def test_level_counts_the_words_held(take):
    fifo = StreamFIFO(8, 6)

    async def recount(ctx):
        level = 0
        pins = ctx.tick().sample(fifo.level, fifo.i.valid, fifo.i.ready, fifo.o.valid, fifo.o.ready)
        async for _, _, shown, i_valid, i_ready, o_valid, o_ready in pins:
            assert shown == level
            level += (i_valid and i_ready) - (o_valid and o_ready)

    simulate(
        fifo,
        sender(fifo.i, range(150), stalls("long", 3)),
        receiver(fifo.o, 150, stalls(take, 4)),
        background=[recount],
    )


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("depth", [1, 2, 3, 8, 11])
def test_ready_is_told_a_clock_ahead_while_three_words_fit(depth, take):
    fifo = StreamFIFO(8, depth)

    async def compare(ctx):
        told = False
        pins = ctx.tick().sample(fifo.ready_next, fifo.i.ready, fifo.level)
        async for _, _, ready_next, ready, level in pins:
            assert ready or not told
            # Two of the words held may be in the registers behind the RAM, and one just left it.
            assert ready_next or level > depth - 4
            told = ready_next

    simulate(
        fifo,
        sender(fifo.i, range(150), stalls("long", 3)),
        receiver(fifo.o, 150, stalls(take, 4)),
        background=[compare],
    )


def test_outputs_do_not_follow_inputs_within_a_clock():
    fifo = StreamFIFO(8, 4)

    async def toggle(ctx):
        await send(ctx, fifo.i, range(6))
        await wait(ctx, 4)
        full = ctx.get(fifo.i.ready), ctx.get(fifo.o.valid), ctx.get(fifo.o.payload)
        assert full == (0, 1, 0)
        ctx.set(fifo.o.ready, 1)
        ctx.set(fifo.i.valid, 1)
        assert (ctx.get(fifo.i.ready), ctx.get(fifo.o.valid), ctx.get(fifo.o.payload)) == full

    simulate(fifo, toggle)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, 4), "width must be at least 1, got 0"),
        ((8, 0), "depth must be at least 1, got 0"),
        ((8, 4, "lut"), "memory must be one of block, auto, got 'lut'"),
    ],
)
def test_parameters_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        StreamFIFO(*arguments)


def test_a_depth_that_is_no_integer_is_refused():
    with pytest.raises(TypeError, match=r"depth must be an integer, got 4\.0"):
        StreamFIFO(8, 4.0)
