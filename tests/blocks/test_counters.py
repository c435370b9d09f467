"""The counters against a recount from a record of every clock."""

import random
from dataclasses import dataclass, field

import pytest

from hw.config import HeadConfig
from hw.counters import (
    CHANNEL_COUNTERS,
    INSERTION_CLOCKS,
    JOB_COUNTERS,
    AmountCounter,
    Counters,
    EventCounter,
    counter_names,
    write_beat_bits,
    write_ports,
)

from .streams import simulate


def settle_clocks(config):
    """Clocks between that of `end` and the first with final counts."""
    return 1 + (config.channels > 1)


@dataclass
class Port:
    """What the pins of a channel show in one clock."""

    arvalid: bool = False
    arready: bool = False
    arlen: int = 0
    rvalid: bool = False
    active: bool = False
    stream_valid: bool = False
    stream_ready: bool = False

    @property
    def address(self):
        return self.arvalid and self.arready


@dataclass
class Clock:
    """What the pins show in one clock."""

    ports: list[Port]
    begin: bool = False
    end: bool = False
    taken: list[bool] = field(default_factory=list)
    inserted: list[int] = field(default_factory=list)
    written: list[bool] = field(default_factory=list)
    hand_over: bool = False
    bank: int = 0
    drain_bank: int = 0


def quiet(config, **values):
    """A clock in which nothing happens but `values`."""
    return Clock([Port() for _ in range(config.channels)], **values)


class Traffic:
    """Traffic that a reader could cause; at most `limit` beats are outstanding."""

    def __init__(self, rng, limit):
        self.rng = rng
        self.limit = limit
        self.outstanding = 0
        self.burst = None
        self.share = rng.choice((0.1, 0.5, 0.95))

    def clock(self):
        rng = self.rng
        if self.burst is None and rng.random() < 0.3:
            self.burst = rng.randrange(0, min(16, self.limit))
        offer = self.burst is not None and self.outstanding + self.burst < self.limit
        port = Port(
            arvalid=offer,
            arready=rng.random() < self.share,
            arlen=self.burst if offer else rng.randrange(256),
            rvalid=self.outstanding > 0 and rng.random() < self.share,
            active=rng.random() < 0.9,
            stream_valid=rng.random() < self.share,
            stream_ready=rng.random() < 0.5,
        )
        self.outstanding += (port.arlen + 1) * port.address - port.rvalid
        if port.address:
            self.burst = None
        return port

    def drain(self):
        """Beats that are still to come, one in every clock."""
        self.burst = None
        port = Port(rvalid=self.outstanding > 0)
        self.outstanding -= port.rvalid
        return port


def events(config, rng, share):
    """Random events of the rankers and writers in one clock."""
    rankers = config.channels * config.rankers
    most = config.ranker_vectors(0)
    return {
        "taken": [rng.random() < share for _ in range(rankers)],
        "inserted": [rng.randint(0, most) * (rng.random() < 0.2) for _ in range(rankers)],
        "written": [rng.random() < 0.1 for _ in range(write_ports(config))],
    }


def job_record(config, rng, clocks):
    """Clocks of one job, then clocks between jobs: there the pins move too, without being counted.

    No request is accepted at the last edge of a job, since a job does not end before its data came.
    """
    limit = config.outstanding_beats
    traffic = [Traffic(rng, limit) for _ in range(config.channels)]
    share = rng.random()
    record = [quiet(config, begin=True)]
    for index in range(clocks):
        last = index == clocks - 1
        ports = [each.drain() if last else each.clock() for each in traffic]
        clock = Clock(ports, end=last, **events(config, rng, share))
        record.append(clock)
    for _ in range(rng.randrange(1, 20)):
        loud = {"taken": True, "inserted": config.ranker_vectors(0), "written": True}
        rankers = config.channels * config.rankers
        sizes = {"taken": rankers, "inserted": rankers, "written": write_ports(config)}
        ports = []
        for each in traffic:
            port = each.drain()
            port.arvalid = port.active = port.stream_valid = True
            ports.append(port)
        record.append(Clock(ports, **{name: [loud[name]] * sizes[name] for name in loud}))
    while any(each.outstanding for each in traffic):
        record.append(Clock([each.drain() for each in traffic]))
    record += [quiet(config)] * 3
    return record


def recount_channel(ports, bus_bytes):
    """The counters of a channel from its ports in the clocks of a job."""
    active = [port for port in ports if port.active]
    first_address = next((n for n, port in enumerate(ports) if port.address), None)
    first_data = next((n for n, port in enumerate(ports) if port.rvalid), None)
    outstanding = [0]
    for port in ports:
        accepted = port.arlen + 1 if port.address else 0
        outstanding.append(outstanding[-1] + accepted - port.rvalid)
    if first_address is None:
        latency = 0
    else:
        latency = (len(ports) - 1 if first_data is None else first_data) - first_address
    return {
        "data_beats": sum(port.rvalid for port in ports),
        "stream_beats": sum(port.stream_valid and port.stream_ready for port in active),
        "refused_cycles": sum(port.stream_valid and not port.stream_ready for port in active),
        "wait_cycles": sum(not port.stream_valid for port in active),
        "address_wait_cycles": sum(port.arvalid and not port.arready for port in ports),
        "first_data_latency_cycles": latency,
        "max_outstanding_bytes": max(outstanding) * bus_bytes,
    }


def recount(config, record):
    """The counters of the one job in `record`, by their definitions."""
    (begin,) = (index for index, clock in enumerate(record) if clock.begin)
    (end,) = (index for index, clock in enumerate(record) if clock.end)
    job = record[begin + 1 : end + 1]
    counts = {
        "cycles": end - begin,
        "rows": sum(sum(clock.taken) for clock in job),
        "insertions": sum(sum(clock.inserted) for clock in job),
        "bytes_written": sum(sum(clock.written) for clock in job) * config.bus_bytes,
    }
    for channel in range(config.channels):
        ports = [clock.ports[channel] for clock in job]
        for name, count in recount_channel(ports, config.bus_bytes).items():
            counts[f"{name}{channel}"] = count
    return counts


def read(ctx, dut):
    return {
        name: ctx.get(dut.counters[index]) for index, name in enumerate(counter_names(dut.config))
    }


def bits(flags):
    return sum(bool(flag) << index for index, flag in enumerate(flags))


async def replay(ctx, dut, record):
    """Drive `record`; the counts seen in every clock."""
    config = dut.config
    outstanding = [0] * config.channels
    seen = []
    for clock in record:
        ports = clock.ports
        ctx.set(dut.begin, clock.begin)
        ctx.set(dut.end, clock.end)
        if config.job_queue:
            ctx.set(dut.hand_over, clock.hand_over)
            ctx.set(dut.bank, clock.bank)
            ctx.set(dut.drain_bank, clock.drain_bank)
        for name in ("active", "stream_valid", "stream_ready", "address"):
            ctx.set(getattr(dut, name), bits(getattr(port, name) for port in ports))
        ctx.set(dut.beat, bits(port.rvalid for port in ports))
        ctx.set(dut.address_wait, bits(port.arvalid and not port.arready for port in ports))
        for channel, port in enumerate(ports):
            ctx.set(dut.outstanding_beats[channel], outstanding[channel])
            outstanding[channel] += (port.arlen + 1) * port.address - port.rvalid
        ctx.set(dut.rows_taken, bits(clock.taken))
        ctx.set(dut.write_beat, bits(clock.written))
        for ranker in range(config.channels * config.rankers):
            ctx.set(dut.inserted[ranker], clock.inserted[ranker] if clock.inserted else 0)
        seen.append(read(ctx, dut))
        await ctx.tick()
    return seen


def small(bus_bits=64, **options):
    return HeadConfig(
        bus_bits=bus_bits, outstanding_bytes=32 * bus_bits // 8, max_burst=16, **options
    )


CONFIGS = {
    "64 bits": small(),
    "512 bits": small(512),
    "batch": small(batch=5, rankers=1),
    "rankers": small(batch=7, rankers=4),
    "channels": small(batch=3, rankers=2, channels=4, all_logits=True),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_counters_equal_a_recount_from_the_pins(config):
    dut = Counters(config)
    rng = random.Random(1)

    async def bench(ctx):
        for clocks in (1, 2, 3, 40, 400, 1200, 1):
            record = job_record(config, rng, clocks)
            seen = await replay(ctx, dut, record)
            expected = recount(config, record)
            assert read(ctx, dut) == expected
            # Final from a few edges after that of the end on, and held.
            for counts in seen[clocks + 1 + settle_clocks(config) :]:
                assert counts == expected

    simulate(dut, bench)


@dataclass
class Span:
    """When a job of several under way does what; indices of clocks."""

    begin: int
    first_row: int
    hand_over: int
    last_insertion: int
    end: int
    has_logits: bool

    def inserts(self, index):
        return self.first_row < index <= self.last_insertion

    def writes(self, index):
        return self.has_logits and self.begin < index <= self.end or self.hand_over < index


def queued_spans(config, rng, jobs):
    """Spans of jobs of which each streams while the one before finishes.

    The last insertions come after the hand-over, the first ones of the next job later than
    `INSERTION_CLOCKS` after its begin. A job that has all scores written begins when the one before
    has ended.
    """
    spans = []
    handed_over = end = 0
    for _ in range(jobs):
        has_logits = config.all_logits and rng.random() < 0.3
        begin = (end if has_logits else handed_over) + rng.choice((1, 1, 4))
        first_row = begin + INSERTION_CLOCKS + rng.choice((0, 1, 10))
        handed_over = max(end, first_row) + rng.randint(40, 80)
        last_insertion = handed_over + rng.randint(0, 7)
        end = handed_over + rng.randint(12, 50)
        spans.append(Span(begin, first_row, handed_over, last_insertion, end, has_logits))
    return spans


def queued_record(config, rng, spans):
    """The clocks of such jobs."""
    traffic = [Traffic(rng, config.outstanding_beats) for _ in range(config.channels)]
    record = []
    for index in range(spans[-1].end + 5):
        handed_over = sum(index > span.hand_over for span in spans)
        clock = quiet(config, bank=handed_over % 2, drain_bank=(handed_over + 1) % 2)
        clock.begin = any(index == span.begin for span in spans)
        clock.hand_over = any(index == span.hand_over for span in spans)
        clock.end = any(index == span.end for span in spans)
        happens = events(config, rng, 0.5)
        for span in spans:
            if span.begin < index < span.hand_over - config.outstanding_beats:
                clock.ports = [each.clock() for each in traffic]
            elif span.begin < index <= span.hand_over:
                clock.ports = [each.drain() for each in traffic]
            if index == span.first_row:
                clock.taken = [True] * len(happens["taken"])
            elif span.first_row < index < span.hand_over:
                clock.taken = happens["taken"]
            if span.inserts(index):
                clock.inserted = happens["inserted"]
        if any(span.writes(index) and index <= span.end for span in spans):
            clock.written = happens["written"]
        record.append(clock)
    return record


@pytest.mark.parametrize(
    "config",
    [
        small(job_queue=True),
        small(job_queue=True, batch=3, rankers=2, channels=2, all_logits=True),
    ],
    ids=["base", "full"],
)
@pytest.mark.parametrize("seed", range(3))
def test_each_of_two_jobs_under_way_has_counts_of_its_own(config, seed):
    dut = Counters(config)
    rng = random.Random(seed)
    spans = queued_spans(config, rng, 12)
    record = queued_record(config, rng, spans)

    def counts_of(span):
        reading = record[span.begin + 1 : span.hand_over + 1]
        inserting = record[span.first_row + 1 : span.last_insertion + 1]
        first_write = span.begin if span.has_logits else span.hand_over
        writing = record[first_write + 1 : span.end + 1]
        counts = {
            "cycles": span.end - span.begin,
            "rows": sum(sum(clock.taken) for clock in reading),
            "insertions": sum(sum(clock.inserted) for clock in inserting),
            "bytes_written": sum(sum(clock.written) for clock in writing) * config.bus_bytes,
        }
        for channel in range(config.channels):
            ports = [clock.ports[channel] for clock in reading]
            for name, count in recount_channel(ports, config.bus_bytes).items():
                counts[f"{name}{channel}"] = count
        return counts

    async def bench(ctx):
        seen = await replay(ctx, dut, record)
        seen.append(read(ctx, dut))
        for span, following in zip(spans, [*spans[1:], None], strict=True):
            final = span.end + 1 + settle_clocks(config)
            # Held until the next job is handed over.
            last = following.hand_over if following else len(record)
            assert final < last
            for counts in seen[final : last + 1]:
                assert counts == counts_of(span)

    simulate(dut, bench)


def test_data_refused_and_wait_share_out_the_active_clocks():
    config = HeadConfig()
    dut = Counters(config)
    rng = random.Random(5)

    async def bench(ctx):
        record = job_record(config, rng, 800)
        await replay(ctx, dut, record)
        counts = read(ctx, dut)
        shares = [counts[name] for name in ("stream_beats0", "refused_cycles0", "wait_cycles0")]
        assert sum(shares) == sum(clock.ports[0].active for clock in record[1:801])
        assert all(shares)

    simulate(dut, bench)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_job_without_traffic_counts_its_cycles_alone(config):
    dut = Counters(config)

    async def bench(ctx):
        await replay(ctx, dut, job_record(config, random.Random(1), 100))
        empty = quiet(config)
        record = [quiet(config, begin=True), *[empty] * 6, quiet(config, end=True), *[empty] * 9]
        await replay(ctx, dut, record)
        assert read(ctx, dut) == dict.fromkeys(counter_names(config), 0) | {"cycles": 7}

    simulate(dut, bench)


def test_latency_is_that_of_the_first_burst_alone():
    config = HeadConfig()
    dut = Counters(config)

    def port(**pins):
        return Clock([Port(**pins)])

    address = port(arvalid=True, arready=True)
    data = port(rvalid=True)
    record = [quiet(config, begin=True), port(arvalid=True), address, address]
    record += [port()] * 8 + [data] + [port()] * 5 + [address, data, data]
    record += [quiet(config, end=True), port(), port()]

    async def bench(ctx):
        await replay(ctx, dut, record)
        assert read(ctx, dut)["first_data_latency_cycles0"] == 10

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


def test_an_amount_counter_adds_up_amounts_and_wraps():
    dut = AmountCounter(width=7, amount_bits=4)
    rng = random.Random(2)

    async def bench(ctx):
        expected = 0
        for _ in range(600):
            amount, clear = rng.randrange(16), rng.random() < 0.01
            ctx.set(dut.amount, amount)
            ctx.set(dut.clear, clear)
            await ctx.tick()
            expected = 0 if clear else (expected + amount) % 128
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
    names = counter_names(HeadConfig(channels=8))
    assert len(set(names)) == len(names) == 4 + 7 * 8
    assert names[:6] == ("cycles", "rows", "insertions", "bytes_written", "data_beats0") + (
        "stream_beats0",
    )
    docs = [doc for _, doc in (*JOB_COUNTERS, *CHANNEL_COUNTERS)]
    assert all(doc.endswith(".") and len(doc) > 40 for doc in docs)


def test_a_job_that_writes_more_beats_than_32_bits_count_has_a_wider_counter():
    assert write_beat_bits(HeadConfig()) == 32
    large = HeadConfig(bus_bits=64, batch=16, max_rows=2**31 - 1, all_logits=True)
    assert write_beat_bits(large) == 36
