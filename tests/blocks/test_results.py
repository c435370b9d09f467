"""The result block: records sorted best first, zeros past the count, and the trailer."""

import random
import struct

import pytest

from hw.config import HeadConfig
from hw.counters import counter_names
from hw.entries import EntryStore
from hw.results import RECORD_BYTES, ResultBuffer, record_beats, trailer_beats, trailer_words
from tests.blocks.streams import (
    STALLS,
    StreamMonitor,
    receive,
    receiver,
    send,
    sender,
    simulate,
    stalls,
    wait_until,
)

ROWS = [(-(2**40), 7), (-1, 999), (0, 3), (0, 2), (2**40, 500)]
"""(score, id) as the top-k gives them: worst first."""
EMPTY = {"rank": 123, "id": 45, "occupied": 0}


def entries(rows, k):
    """The entries of a list of (rank, id), worst first."""
    filled = [{"rank": rank, "id": row_id, "occupied": 1} for rank, row_id in rows]
    return [EMPTY] * (k - len(filled)) + filled


def expected_records(rows, k, size, lse=(0, 0)):
    block = struct.pack("<IiQ", len(rows), *lse)
    for score, row_id in reversed(rows):
        block += struct.pack("<qII", score, row_id, 0)
    block = block.ljust((1 + k) * RECORD_BYTES, b"\0")
    return block.ljust(-(-len(block) // size) * size, b"\0")


async def pulse(ctx, signal):
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def collect(ctx, dut, k, lists, go=None):
    """Give each channel its list of entries, one after the other."""
    ctx.set(dut.k, k)
    await pulse(ctx, dut.collect)
    for channel, one in enumerate(lists):
        assert not ctx.get(dut.collected)
        await send(ctx, getattr(dut, f"i{channel}"), one, go)
    await wait_until(ctx, dut.collected, deadline=10)


async def part(ctx, dut, strobe, beats, go=None):
    """The bytes of `beats` beats that `strobe` asks for."""
    await pulse(ctx, strobe)
    words = await receive(ctx, dut.o, beats, go)
    return b"".join(word.to_bytes(dut.config.bus_bytes, "little") for word in words)


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("bus_bits", [64, 128, 256, 512])
@pytest.mark.parametrize(("k", "found"), [(1, 1), (2, 0), (5, 5), (8, 3)])
def test_blocks_hold_the_best_first_and_the_trailer_last(bus_bits, k, found, stall):
    config = HeadConfig(bus_bits=bus_bits, k=8, max_dim=576, max_rows=1000)
    dut = ResultBuffer(config)
    rows = ROWS[len(ROWS) - found :]
    counters = [index * 1000 + 1 for index in range(len(counter_names(config)))]

    async def bench(ctx):
        for job in (5, 6):
            await collect(ctx, dut, k, [entries(rows, k)], stalls(stall))
            beats = record_beats(config, k)
            assert ctx.get(dut.beats) == beats
            block = await part(ctx, dut, dut.send_records, beats, stalls(stall, 1))
            assert block == expected_records(rows, k, config.bus_bytes)

            for index, value in enumerate(counters):
                ctx.set(dut.counters[index], value)
            ctx.set(dut.status, 9)
            ctx.set(dut.job, job)
            trailer = await part(
                ctx, dut, dut.send_trailer, trailer_beats(config), stalls(stall, 2)
            )
            padding = [0] * (15 - len(counters))
            assert trailer == struct.pack("<15QII", *counters, *padding, 9, job)

    simulate(dut, bench)


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("channels", [2, 4, 8])
def test_lists_of_channels_are_merged_in_the_total_order(channels, stall):
    config = HeadConfig(bus_bits=128, k=16, max_dim=64, max_rows=1000, channels=channels)
    dut = ResultBuffer(config)
    rng = random.Random(f"{channels} {stall}")

    def case(k, ranks, counts):
        ids = rng.sample(range(1000), channels * k)
        return k, [
            sorted(
                ((rng.choice(ranks), ids.pop()) for _ in range(count)),
                key=lambda row: (row[0], -row[1]),
            )
            for count in counts
        ]

    spread = range(-(2**30), 2**30)
    cases = [
        case(16, spread, [16] * channels),
        case(16, [3, 4], [16] * channels),
        case(16, [7], [16] * channels),
        case(16, spread, [0] * channels),
        case(16, spread, [0] * (channels - 1) + [16]),
        case(5, spread, [rng.randrange(6) for _ in range(channels)]),
        case(12, [-1, 0, 1], [1] * channels),
        case(1, spread, [1] * channels),
    ]

    async def bench(ctx):
        for k, lists in cases:
            await collect(ctx, dut, k, [entries(one, k) for one in lists], stalls(stall))
            beats = record_beats(config, k)
            block = await part(ctx, dut, dut.send_records, beats, stalls(stall, 1))
            rows = sorted(sum(lists, []), key=lambda row: (row[0], -row[1]))[-k:]
            assert block == expected_records(rows, k, config.bus_bytes)

    simulate(dut, bench)


@pytest.mark.parametrize(("channels", "clocks"), [(1, 1), (2, 3), (8, 3)])
def test_a_record_takes_few_clocks_whatever_the_channels(channels, clocks):
    k = 64
    config = HeadConfig(bus_bits=128, k=k, max_dim=64, max_rows=1000, channels=channels)
    dut = ResultBuffer(config)
    monitor = StreamMonitor(dut.o)
    # All winners are in the last channel: nothing is left to be had from the others.
    lists = [entries([], k)] * (channels - 1) + [entries([(rank, 9) for rank in range(k)], k)]

    async def bench(ctx):
        await collect(ctx, dut, k, lists)
        await part(ctx, dut, dut.send_records, record_beats(config, k))

    simulate(dut, bench, background=[monitor.run])
    assert monitor.cycles[-1] - monitor.cycles[0] <= clocks * k


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("channels", [1, 2])
def test_records_hold_the_score_without_the_bound(channels, stall):
    config = HeadConfig(bus_bits=64, k=8, max_dim=64, max_rows=1000, channels=channels, bound=True)
    dut = ResultBuffer(config)
    rng = random.Random(stall)
    scores = [-config.sum_bound, config.sum_bound, 0, -1]
    terms = [-(2**15), 2**15 - 1, 0, -1]

    def one_list(multiplier, ids):
        rows = [(rng.choice(scores), rng.choice(terms), row_id) for row_id in ids]
        rows = [(score + term * multiplier, -row_id, score, term) for score, term, row_id in rows]
        return sorted(rows)

    async def bench(ctx):
        for multiplier in (2**32 - 1, 1, 0, 2**17):
            ids = rng.sample(range(1000), 16)
            lists = [one_list(multiplier, ids[8 * n : 8 * n + 8]) for n in range(channels)]
            ctx.set(dut.bound_multiplier, multiplier)
            given = [
                [
                    {"rank": rank, "id": -row_id, "term": term, "occupied": 1}
                    for rank, row_id, _, term in one
                ]
                for one in lists
            ]
            await collect(ctx, dut, 8, given, stalls(stall))
            block = await part(
                ctx, dut, dut.send_records, record_beats(config, 8), stalls(stall, 1)
            )
            rows = [(score, -row_id) for _, row_id, score, _ in sorted(sum(lists, []))[-8:]]
            assert block == expected_records(rows, 8, config.bus_bytes)

    simulate(dut, bench)


@pytest.mark.parametrize("lse", [(0, 0), (-4096, 1), (4095, 2**64 - 1)])
def test_the_log_sum_exp_follows_the_count(lse):
    config = HeadConfig(bus_bits=64, k=2, max_dim=64, max_rows=1000, logsumexp=True)
    dut = ResultBuffer(config)

    async def bench(ctx):
        await collect(ctx, dut, 2, [entries(ROWS[:1], 2)])
        ctx.set(dut.lse, {"exponent": lse[0], "sum": lse[1]})
        block = await part(ctx, dut, dut.send_records, record_beats(config, 2))
        assert block == expected_records(ROWS[:1], 2, config.bus_bytes, lse)

    simulate(dut, bench)


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize(("channels", "words"), [(1, 16), (2, 24), (4, 40), (8, 64)])
def test_trailers_have_room_for_the_counters_of_all_channels(channels, words, stall):
    config = HeadConfig(bus_bits=256, k=1, max_dim=64, max_rows=1000, channels=channels)
    dut = ResultBuffer(config)
    assert trailer_words(config) == words
    counters = [(index + 1) << 40 | index for index in range(4 + 7 * channels)]

    async def bench(ctx):
        for index, value in enumerate(counters):
            ctx.set(dut.counters[index], value)
        ctx.set(dut.status, 3)
        ctx.set(dut.job, 2**32 - 1)
        trailer = await part(ctx, dut, dut.send_trailer, trailer_beats(config), stalls(stall))
        padding = [0] * (words - 1 - len(counters))
        assert trailer == struct.pack(f"<{words - 1}QII", *counters, *padding, 3, 2**32 - 1)

    simulate(dut, bench)


def test_what_is_left_of_a_vector_does_not_reach_the_next_one():
    config = HeadConfig(bus_bits=64, k=8, max_dim=64, max_rows=1000, channels=4)
    dut = ResultBuffer(config)

    async def bench(ctx):
        # Not even sent, and with the merge's buffers full of better rows.
        await collect(ctx, dut, 8, [entries([(1000, channel)], 8) for channel in range(4)])
        for _ in range(20):
            await ctx.tick()
        await collect(ctx, dut, 2, [entries([(channel, channel)], 2) for channel in range(4)])
        block = await part(ctx, dut, dut.send_records, record_beats(config, 2))
        assert block == expected_records([(2, 2), (3, 3)], 2, config.bus_bytes)

    simulate(dut, bench)


@pytest.mark.parametrize("stall", STALLS)
def test_stored_entries_come_back_in_reverse_without_what_an_empty_slot_held(stall):
    config = HeadConfig(bus_bits=64, k=5, max_dim=64, max_rows=1000)
    dut = EntryStore(config)
    monitor = StreamMonitor(dut.o)
    given = entries([(rank, rank + 1) for rank in range(4)], 5)
    got = []

    async def start(ctx):
        ctx.set(dut.k, 5)
        await pulse(ctx, dut.collect)
        await sender(dut.i, given, stalls(stall))(ctx)
        await wait_until(ctx, dut.complete, deadline=2)
        assert ctx.get(dut.count) == 4

    async def bench(ctx):
        await start(ctx)
        await receiver(dut.o, 5, stalls(stall, 1), got)(ctx)

    simulate(dut, bench, background=[monitor.run])
    expected = [tuple(entry.values()) for entry in reversed(given) if entry is not EMPTY]
    assert [(word.rank, word.id, word.occupied) for word in got] == [*expected, (0, 0, 0)]
    if stall == "none":
        assert monitor.bubbles == 0
