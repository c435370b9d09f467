"""The counters against a recount from a record of every clock."""

import random
from dataclasses import dataclass

import pytest

from hw.config import HeadConfig
from hw.counters import COUNTERS, Counters, EventCounter

from .streams import simulate

NAMES = [name for name, _ in COUNTERS]
SETTLE_CLOCKS = 1
"""Clocks between that of `end` and the first with final counts."""


@dataclass
class Clock:
    """What the pins show in one clock."""

    begin: bool = False
    end: bool = False
    arvalid: bool = False
    arready: bool = False
    arlen: int = 0
    rvalid: bool = False
    active: bool = False
    stream_valid: bool = False
    stream_ready: bool = False
    rows_taken: bool = False
    inserted: bool = False
    write_beat: bool = False

    @property
    def address(self):
        return self.arvalid and self.arready


def traffic(rng, clocks, limit):
    """Clocks of one job, then clocks between jobs, with traffic that a reader could cause.

    At most `limit` beats are outstanding. Between jobs the pins move too: it must not be counted.
    """
    record = [Clock(begin=True)]
    outstanding = 0
    burst = None
    share = rng.choice((0.1, 0.5, 0.95))
    for index in range(clocks):
        if burst is None and rng.random() < 0.3:
            burst = rng.randrange(0, min(16, limit))
        offer = burst is not None and outstanding + burst < limit
        clock = Clock(
            end=index == clocks - 1,
            arvalid=offer,
            arready=rng.random() < share,
            arlen=burst if offer else rng.randrange(256),
            rvalid=outstanding > 0 and rng.random() < share,
            active=rng.random() < 0.9,
            stream_valid=rng.random() < share,
            stream_ready=rng.random() < 0.5,
            rows_taken=rng.random() < share,
            inserted=rng.random() < 0.1,
            write_beat=rng.random() < 0.1,
        )
        record.append(clock)
        outstanding += (clock.arlen + 1) * clock.address - clock.rvalid
        if clock.address:
            burst = None
    for _ in range(rng.randrange(1, 20)):
        events = dict.fromkeys(
            ("active", "stream_valid", "stream_ready", "rows_taken", "inserted", "write_beat"), True
        )
        record.append(Clock(**events, arvalid=True, rvalid=outstanding > 0))
        outstanding -= outstanding > 0
    while outstanding:
        record.append(Clock(rvalid=True))
        outstanding -= 1
    return record


def recount(record, bus_bytes):
    """The counters of the one job in `record`, by their definitions."""
    (begin,) = (index for index, clock in enumerate(record) if clock.begin)
    (end,) = (index for index, clock in enumerate(record) if clock.end)
    job = record[begin + 1 : end + 1]
    active = [clock for clock in job if clock.active]
    first_address = next((n for n, clock in enumerate(job) if clock.address), None)
    first_data = next((n for n, clock in enumerate(job) if clock.rvalid), None)
    outstanding = [0]
    for clock in job:
        accepted = clock.arlen + 1 if clock.address else 0
        outstanding.append(outstanding[-1] + accepted - clock.rvalid)
    if first_address is None:
        latency = 0
    else:
        latency = (len(job) - 1 if first_data is None else first_data) - first_address
    return {
        "cycles": end - begin,
        "data_beats": sum(clock.rvalid for clock in job),
        "stream_beats": sum(clock.stream_valid and clock.stream_ready for clock in active),
        "refused_cycles": sum(clock.stream_valid and not clock.stream_ready for clock in active),
        "wait_cycles": sum(not clock.stream_valid for clock in active),
        "address_wait_cycles": sum(clock.arvalid and not clock.arready for clock in job),
        "first_data_latency_cycles": latency,
        "max_outstanding_bytes": max(outstanding) * bus_bytes,
        "rows": sum(clock.rows_taken for clock in job),
        "insertions": sum(clock.inserted for clock in job),
        "bytes_written": sum(clock.write_beat for clock in job) * bus_bytes,
    }


def read(ctx, dut):
    return {name: ctx.get(dut.counters[index]) for index, name in enumerate(NAMES)}


async def replay(ctx, dut, record):
    """Drive `record`; the counts seen in every clock."""
    outstanding = 0
    seen = []
    for clock in record:
        for name in ("begin", "end", "active", "stream_valid", "stream_ready"):
            ctx.set(getattr(dut, name), getattr(clock, name))
        for name in ("rows_taken", "inserted", "write_beat", "address"):
            ctx.set(getattr(dut, name), getattr(clock, name))
        ctx.set(dut.beat, clock.rvalid)
        ctx.set(dut.address_wait, clock.arvalid and not clock.arready)
        ctx.set(dut.outstanding_beats, outstanding)
        outstanding += (clock.arlen + 1) * clock.address - clock.rvalid
        seen.append(read(ctx, dut))
        await ctx.tick()
    return seen


@pytest.mark.parametrize("bus_bits", (64, 512))
def test_counters_equal_a_recount_from_the_pins(bus_bits):
    config = HeadConfig(bus_bits=bus_bits, outstanding_bytes=32 * bus_bits // 8, max_burst=16)
    dut = Counters(config)
    rng = random.Random(bus_bits)

    async def bench(ctx):
        for clocks in (1, 2, 3, 40, 400, 1500, 1):
            record = traffic(rng, clocks, config.outstanding_beats)
            seen = await replay(ctx, dut, record)
            expected = recount(record, config.bus_bytes)
            assert read(ctx, dut) == expected
            # Final from the second edge after that of the end on, and held.
            for counts in seen[clocks + 1 + SETTLE_CLOCKS :]:
                assert counts == expected

    simulate(dut, bench)


def test_data_refused_and_wait_share_out_the_active_clocks():
    dut = Counters(HeadConfig())
    rng = random.Random(5)

    async def bench(ctx):
        record = traffic(rng, 800, 256)
        await replay(ctx, dut, record)
        counts = read(ctx, dut)
        shares = [counts[name] for name in ("stream_beats", "refused_cycles", "wait_cycles")]
        assert sum(shares) == sum(clock.active for clock in record[1:801])
        assert all(shares)

    simulate(dut, bench)


def test_a_job_without_traffic_counts_its_cycles_alone():
    dut = Counters(HeadConfig())

    async def bench(ctx):
        await replay(ctx, dut, traffic(random.Random(1), 100, 256))
        await replay(ctx, dut, [Clock(begin=True), *[Clock()] * 6, Clock(end=True), *[Clock()] * 9])
        assert read(ctx, dut) == dict.fromkeys(NAMES, 0) | {"cycles": 7}

    simulate(dut, bench)


def test_latency_is_that_of_the_first_burst_alone():
    dut = Counters(HeadConfig())
    address = Clock(arvalid=True, arready=True)
    record = [Clock(begin=True), Clock(arvalid=True), address, address, *[Clock()] * 8]
    record += [Clock(rvalid=True), *[Clock()] * 5, address, Clock(rvalid=True), Clock(rvalid=True)]
    record += [Clock(end=True), Clock(), Clock()]

    async def bench(ctx):
        await replay(ctx, dut, record)
        assert read(ctx, dut)["first_data_latency_cycles"] == 10

    simulate(dut, bench)


@pytest.mark.parametrize("share", (1.0, 0.5))
@pytest.mark.parametrize("split_bits", (2, 3, 16))
def test_an_event_counter_is_exact_in_every_clock_across_its_split(share, split_bits):
    dut = EventCounter(width=6, split_bits=split_bits)
    rng = random.Random(split_bits)

    async def bench(ctx):
        expected = 0
        for _ in range(600):
            event, clear = rng.random() < share, rng.random() < 0.004
            ctx.set(dut.event, event)
            ctx.set(dut.clear, clear)
            await ctx.tick()
            expected = 0 if clear else (expected + event) % 64
            assert ctx.get(dut.count) == expected

    simulate(dut, bench)


def test_a_long_count_carries_into_the_upper_part():
    dut = EventCounter(width=48)

    async def bench(ctx):
        ctx.set(dut.event, 1)
        await ctx.tick().repeat(2**16 - 3)
        for count in range(2**16 - 3, 2**16 + 3):
            assert ctx.get(dut.count) == count
            await ctx.tick()

    simulate(dut, bench, deadline=2**17)


def test_every_counter_has_a_name_of_its_own_and_a_definition():
    assert len(set(NAMES)) == len(NAMES)
    assert all(doc.endswith(".") and len(doc) > 40 for _, doc in COUNTERS)
