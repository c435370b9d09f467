"""The scale buffer takes what it said it would and gives the words in their order."""

import random
from itertools import chain, repeat

import pytest

from hw.config import HeadConfig
from hw.header import scale_word_bits, words_per_beat
from hw.scales import ScaleBuffer
from tests.blocks.streams import STALLS, EarlyMonitor, send_early, simulate, stalls, wait

SHAPES = {
    "words_of_half_a_beat": {"bus_bits": 64, "width": 4},
    "words_anywhere_in_a_beat": {"bus_bits": 512, "width": 32, "bias": True},
    "a_word_a_beat": {"bus_bits": 64, "weight_bits": 4, "width": 4},
    "word_wider_than_bus": {"bus_bits": 64, "weight_bits": 4, "width": 1},
}


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("fold", [1, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_lost_when_it_is_full(shape, fold, take):
    config = HeadConfig(tile_rows=16, max_dim=96, max_rows=64, fold=fold, **SHAPES[shape])
    dut = ScaleBuffer(config)
    rng = random.Random(shape)
    beats = [rng.getrandbits(config.bus_bits) for _ in range(400)]
    members = dict(dut.i.payload.shape())
    payloads = [{"data": beat} for beat in beats]
    if "words" in members:
        payloads = [payload | {"words": words_per_beat(config) - 1} for payload in payloads]
    width = scale_word_bits(config)
    content = sum(beat << config.bus_bits * at for at, beat in enumerate(beats))
    words = [
        content >> width * at & (1 << width) - 1 for at in range(400 * config.bus_bits // width)
    ]

    # Long enough for as many beats as are taken.
    fills = 600
    left = EarlyMonitor(dut.o, chain(repeat(False, fills), stalls(take)), "o")

    async def is_full(ctx):
        await wait(ctx, fills)
        assert not ctx.get(dut.i.ready_next)

    async def give(ctx):
        await send_early(ctx, dut.i, payloads)
        while len(left.words) < len(words):
            await ctx.tick()

    simulate(dut, give, is_full, background=[left.run], deadline=40000)
    assert left.words == words
