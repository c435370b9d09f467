"""Several clients of one writer; sizes in beats."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib.wiring import connect

from hw.config import HeadConfig
from hw.logits import LogitsWriter
from hw.write_arbiter import WriteArbiter
from hw.writer import Writer

from .axi_memory import WriteMemory
from .streams import (
    STALLS,
    StreamMonitor,
    receiver,
    send,
    sender,
    simulate,
    stalls,
    wait,
    wait_until,
)

CONFIG = HeadConfig(bus_bits=64, max_dim=64)


def plan(clients, count, longest, seed):
    """Per client its segments, (address, beats), with beats that tell client and number."""
    rng = random.Random(seed)
    plans = []
    for client in range(clients):
        lengths = [rng.choice([1, 1, 2, 3, rng.randint(1, longest)]) for _ in range(count)]
        addresses = [(client << 32) + 0x1000 * number for number in range(count)]
        plans.append(list(zip(addresses, lengths, strict=True)))
    return plans


def commands_of(segments):
    return [{"address": address, "beats": beats} for address, beats in segments]


def beats_of(segments):
    return [address + beat for address, beats in segments for beat in range(beats)]


class Idle:
    """Checks that `idle` is low while a segment is under way."""

    def __init__(self, arbiter):
        self.arbiter = arbiter

    async def run(self, ctx):
        arbiter = self.arbiter
        taken = passed = expected = 0
        pins = [arbiter.idle, arbiter.o.valid & arbiter.o.ready]
        pins += [arbiter.command.valid & arbiter.command.ready]
        for client in range(arbiter.clients):
            command = getattr(arbiter, f"command{client}")
            pins += [command.valid & command.ready, command.payload.beats]
        async for _, _, idle, beat, command, *clients in ctx.tick().sample(*pins):
            if arbiter.clients > 1:
                assert idle <= (taken == 0 and passed == expected)
            for accepted, count in zip(clients[::2], clients[1::2], strict=True):
                expected += accepted * count
                taken += accepted
            taken -= command
            passed += beat


def run(plans, give="none", take="none", deadline=20000):
    """Pass all segments through; the arbiter's monitors of commands and beats."""
    dut = WriteArbiter(CONFIG, len(plans))
    commands, beats = StreamMonitor(dut.command), StreamMonitor(dut.o)
    benches = [
        receiver(dut.command, sum(map(len, plans)), stalls(take, 1)),
        receiver(dut.o, sum(n for segments in plans for _, n in segments), stalls(take, 2)),
    ]
    for client, segments in enumerate(plans):
        command, words = getattr(dut, f"command{client}"), getattr(dut, f"i{client}")
        benches += [
            sender(command, commands_of(segments), stalls(give, 10 + client)),
            sender(words, beats_of(segments), stalls(give, 20 + client)),
        ]

    simulate(dut, *benches, background=[commands.run, beats.run, Idle(dut).run], deadline=deadline)
    return commands, beats


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("clients", [1, 2, 3, 5, 9])
def test_beats_follow_in_the_order_of_the_commands_and_each_client_in_its_own(clients, give, take):
    plans = plan(clients, 12, 20, clients)
    commands, beats = run(plans, give, take)
    passed = [(command.address, command.beats) for command in commands.words]
    for client, segments in enumerate(plans):
        assert [each for each in passed if each[0] >> 32 == client] == segments
    assert beats.words == beats_of(passed)


def test_rankers_and_results_share_a_writer_at_nearly_a_beat_per_clock():
    settings = HeadConfig(bus_bits=64, max_dim=64, batch=2, rankers=2)
    top = Module()
    top.submodules.arbiter = arbiter = WriteArbiter(settings, 3)
    top.submodules.writer = writer = Writer(settings)
    rankers = [LogitsWriter(settings, ranker) for ranker in range(2)]
    for ranker, logits in enumerate(rankers):
        top.submodules += logits
        connect(top, logits.o_command, getattr(arbiter, f"command{ranker}"))
        connect(top, logits.o, getattr(arbiter, f"i{ranker}"))
    connect(top, arbiter.command, writer.command)
    connect(top, arbiter.o, writer.i)
    memory = WriteMemory(writer, 64)
    beats = []

    async def recount(ctx):
        cycle = 0
        async for _, _, beat in ctx.tick().sample(writer.beat):
            beats.extend([cycle] * beat)
            cycle += 1

    def scores(ranker, logits):
        async def scores(ctx):
            ctx.set(logits.address, 0x10000)
            ctx.set(logits.start, 1)
            await ctx.tick()
            ctx.set(logits.start, 0)
            await send(ctx, logits.i, range(ranker * 1000, ranker * 1000 + 500))
            ctx.set(logits.flush, 1)
            await wait_until(ctx, logits.done)

        return scores

    async def results(ctx):
        await wait(ctx, 300)
        await send(ctx, arbiter.command2, commands_of([(0x4000, 40)]))
        await send(ctx, arbiter.i2, range(5000, 5040))
        await wait_until(ctx, rankers[0].done & rankers[1].done & arbiter.idle & writer.idle)

    testbenches = [scores(ranker, logits) for ranker, logits in enumerate(rankers)]
    simulate(top, *testbenches, results, background=[memory.run, recount])
    expected = {0x4000 + 8 * n: 5000 + n for n in range(40)}
    for ranker in range(2):
        for word in range(500):
            chunk, place = divmod(word, 16)
            expected[0x10000 + ((2 * chunk + ranker) * 16 + place) * 8] = ranker * 1000 + word
    assert memory.words == expected
    assert len(beats) / (beats[-1] - beats[0] + 1) > 0.93


def test_clients_that_always_have_a_segment_take_turns():
    plans = [[(client << 32, 3)] * 10 for client in range(4)]
    commands, _ = run(plans)
    assert [each.address >> 32 for each in commands.words] == [0, 1, 2, 3] * 10


def test_a_client_that_comes_late_is_next():
    dut = WriteArbiter(CONFIG, 3)
    commands = StreamMonitor(dut.command)
    others = [[(client << 32, 16)] * 8 for client in (0, 1)]

    async def late(ctx):
        await wait(ctx, 50)
        before = len(commands.words)
        await send(ctx, dut.command2, commands_of([(2 << 32, 1)]))
        await send(ctx, dut.i2, [5])
        turn = [each.address >> 32 for each in commands.words].index(2)
        assert turn - before <= 2

    simulate(
        dut,
        late,
        receiver(dut.command, 17),
        receiver(dut.o, 2 * 8 * 16 + 1),
        *(sender(getattr(dut, f"command{n}"), commands_of(others[n])) for n in (0, 1)),
        *(sender(getattr(dut, f"i{n}"), beats_of(others[n])) for n in (0, 1)),
        background=[commands.run],
    )


@pytest.mark.parametrize("beats", [4, 5, 16])
def test_a_beat_goes_by_in_every_clock(beats):
    plans = [[(client << 32, beats)] * 12 for client in range(3)]
    _, passed = run(plans)
    assert passed.bubbles == 0


def test_a_client_whose_beats_are_late_gets_no_beats_of_another():
    dut = WriteArbiter(CONFIG, 2)
    output = StreamMonitor(dut.o)

    async def late(ctx):
        await send(ctx, dut.command0, commands_of([(0, 2)]))
        await send(ctx, dut.command1, commands_of([(1 << 32, 1)]))
        ctx.set(dut.i1.valid, 1)
        ctx.set(dut.i1.payload, 99)
        await wait(ctx, 30)
        assert not output.words
        await send(ctx, dut.i0, [7, 8])
        await wait(ctx, 5)
        assert output.words == [7, 8, 99]

    async def take(ctx):
        ctx.set(dut.command.ready, 1)
        ctx.set(dut.o.ready, 1)

    simulate(dut, late, take, background=[output.run])


@pytest.mark.parametrize(
    "clients, error, message",
    [
        (0, ValueError, r"clients must be in 1\.\.64, got 0"),
        (65, ValueError, r"clients must be in 1\.\.64, got 65"),
        (2.0, TypeError, r"clients must be an integer, got 2\.0"),
    ],
)
def test_a_number_of_clients_out_of_range_is_refused(clients, error, message):
    with pytest.raises(error, match=message):
        WriteArbiter(CONFIG, clients)
