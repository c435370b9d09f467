"""The parameters of each vector reach their registers, whatever the bus width."""

import random

import pytest

from hw.config import BUS_BITS, HeadConfig
from hw.parameters import Parameters, parameter_beats
from tests.blocks.streams import send_early, simulate, stalls


def beats_of(config, words):
    content = b"".join(word.to_bytes(4, "little") for word in words)
    size = parameter_beats(config) * config.bus_bytes
    content = content.ljust(size, b"\xff")
    return [
        int.from_bytes(content[at : at + config.bus_bytes], "little")
        for at in range(0, size, config.bus_bytes)
    ]


@pytest.mark.parametrize("bus_bits", BUS_BITS)
@pytest.mark.parametrize("batch", [1, 3])
def test_every_vector_gets_its_words_also_in_the_next_job(bus_bits, batch):
    config = HeadConfig(bus_bits=bus_bits, bias=True, bound=True, logsumexp=True, batch=batch)
    dut = Parameters(config)
    rng = random.Random(bus_bits)

    async def bench(ctx):
        for job in range(3):
            count = batch - job % batch
            ctx.set(dut.vectors, count)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            vectors = [[rng.getrandbits(32) for _ in range(4)] for _ in range(count)]
            beats = [beat for words in vectors for beat in beats_of(config, words)]
            await send_early(ctx, dut.i, beats[:-1], stalls("random", job))
            assert not ctx.get(dut.loaded)
            await send_early(ctx, dut.i, beats[-1:], stalls("random", job))
            assert ctx.get(dut.loaded)
            for vector, (bias, bound, multiplier, shift) in enumerate(vectors):
                found = ctx.get(dut.o[vector])
                assert (found.bias, found.bound, found.multiplier) == (bias, bound, multiplier)
                assert found.shift == shift % 128

    simulate(dut, bench)


def test_words_of_functions_that_are_not_built_read_as_zero():
    config = HeadConfig(bus_bits=128, bound=True)
    dut = Parameters(config)

    async def bench(ctx):
        await send_early(ctx, dut.i, beats_of(config, [1, 2, 3, 4]))
        found = ctx.get(dut.o[0])
        assert (found.bias, found.bound, found.multiplier, found.shift) == (0, 2, 0, 0)

    simulate(dut, bench)


def test_a_configuration_without_parameters_is_refused():
    assert parameter_beats(HeadConfig()) == 0
    with pytest.raises(ValueError, match="bias, bound or logsumexp is needed, got none"):
        Parameters(HeadConfig())
