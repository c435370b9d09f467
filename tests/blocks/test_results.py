"""The result block: records sorted best first, zeros past the count, and the trailer."""

import struct

import pytest

from hw.config import HeadConfig
from hw.counters import COUNTERS
from hw.results import RECORD_BYTES, TRAILER_BYTES, ResultBuffer, record_beats
from tests.blocks.streams import STALLS, receive, send, simulate, stalls

ROWS = [(-(2**40), 7), (-1, 999), (0, 3), (0, 2), (2**40, 500)]
"""(score, id) as the top-k gives them: worst first."""


def expected_records(rows, k, size):
    block = struct.pack("<I12x", len(rows))
    for score, row_id in reversed(rows):
        block += struct.pack("<qII", score, row_id, 0)
    block = block.ljust((1 + k) * RECORD_BYTES, b"\0")
    return block.ljust(-(-len(block) // size) * size, b"\0")


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("bus_bits", [64, 128, 256, 512])
@pytest.mark.parametrize(("k", "found"), [(1, 1), (2, 0), (5, 5), (8, 3)])
def test_blocks_hold_the_best_first_and_the_trailer_last(bus_bits, k, found, stall):
    config = HeadConfig(bus_bits=bus_bits, k=8, max_dim=576, max_rows=1000)
    dut = ResultBuffer(config)
    rows = ROWS[len(ROWS) - found :]
    empty = {"score": 123, "id": 45, "occupied": 0}
    entries = [empty] * (k - found)
    entries += [{"score": score, "id": row_id, "occupied": 1} for score, row_id in rows]
    counters = [index * 1000 + 1 for index in range(len(COUNTERS))]

    async def bench(ctx):
        for job in (5, 6):
            ctx.set(dut.k, k)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            await send(ctx, dut.i, entries, stalls(stall))
            assert ctx.get(dut.collected)
            assert ctx.get(dut.beats) == record_beats(config, k)
            ctx.set(dut.send_records, 1)
            await ctx.tick()
            ctx.set(dut.send_records, 0)
            beats = await receive(ctx, dut.o, record_beats(config, k), stalls(stall, 1))
            size = config.bus_bytes
            block = b"".join(beat.to_bytes(size, "little") for beat in beats)
            assert block == expected_records(rows, k, size)

            for index, value in enumerate(counters):
                ctx.set(dut.counters[index], value)
            ctx.set(dut.status, 9)
            ctx.set(dut.job, job)
            ctx.set(dut.send_trailer, 1)
            await ctx.tick()
            ctx.set(dut.send_trailer, 0)
            beats = await receive(ctx, dut.o, TRAILER_BYTES // size, stalls(stall, 2))
            trailer = b"".join(beat.to_bytes(size, "little") for beat in beats)
            padding = [0] * (15 - len(counters))
            assert trailer == struct.pack("<15QII", *counters, *padding, 9, job)

    simulate(dut, bench)
