"""Each beat goes to where it belongs, and header beats tell each section what is its own."""

import random

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, connect

from hw.config import HeadConfig, ceil_div
from hw.header import HeaderFork, scale_word_bits, term_names, words_per_beat
from hw.layout import ImageLayout
from hw.parameters import parameter_beats
from hw.plan import TilePlan, hidden_beats, state_beats
from hw.unpack import Unpacker
from tests.blocks.streams import STALLS, EarlyMonitor, sender, simulate, stalls


class Unpacking(wiring.Component):
    """A plan, the unpacker of one channel and a fork behind it."""

    def __init__(self, config: HeadConfig, channel: int):
        self.config = config
        self.channel = channel
        self.plan = TilePlan(config)
        self.unpacker = Unpacker(config, channel)
        self.fork = HeaderFork(config)
        super().__init__({"vectors": In(range(config.batch + 1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.plan = self.plan
        m.submodules.unpacker = self.unpacker
        m.submodules.fork = self.fork
        connect(m, self.unpacker.header, self.fork.i)
        m.d.comb += [
            self.plan.vectors.eq(self.vectors),
            self.unpacker.vectors.eq(self.vectors),
            self.unpacker.plan.eq(self.plan.plan[self.channel]),
            self.unpacker.plan_ready.eq(self.plan.ready),
        ]
        return m

    @property
    def sections(self) -> dict:
        """Every stream that beats may leave by."""
        config = self.config
        sections = {"body": self.unpacker.body, "scales": self.fork.scales}
        if self.channel == 0:
            sections["hidden"] = self.unpacker.hidden
            if config.has_parameters:
                sections["parameters"] = self.unpacker.parameters
        for name in term_names(config):
            for ranker in range(config.rankers):
                sections[f"{name}{ranker}"] = getattr(self.fork, f"{name}{ranker}")
        return sections


def bits(beat: int, low: int, width: int) -> int:
    return beat >> low & (1 << width) - 1


def run(config, channel, rows, dim, vectors, give="none", take="none"):
    """Unpack random beats of a job's number; by section the payloads, and the beats."""
    dut = Unpacking(config, channel)
    layout = ImageLayout(config, rows, dim)
    rng = random.Random(f"{rows} {dim} {vectors}")
    count = layout.channel_beats(channel)
    count += hidden_beats(config, dim, vectors) if channel == 0 else 0
    beats = [rng.getrandbits(config.bus_bits) for _ in range(count)]
    monitors = {
        name: EarlyMonitor(stream, stalls(take, number), name)
        for number, (name, stream) in enumerate(dut.sections.items())
    }

    async def bench(ctx):
        ctx.set(dut.plan.rows, rows)
        ctx.set(dut.plan.dim, dim)
        ctx.set(dut.vectors, vectors)
        ctx.set(dut.plan.start, 1)
        await ctx.tick()
        ctx.set(dut.plan.start, 0)
        await ctx.tick().repeat(3)
        while not ctx.get(dut.plan.hidden_ready):
            await ctx.tick()
        ctx.set(dut.unpacker.start, 1)
        await ctx.tick()
        ctx.set(dut.unpacker.start, 0)
        await sender(dut.unpacker.i, beats, stalls(give, 1))(ctx)
        while not ctx.get(dut.unpacker.done):
            await ctx.tick()
        assert not ctx.get(dut.unpacker.excess)
        await sender(dut.unpacker.i, [1])(ctx)
        assert ctx.get(dut.unpacker.excess)

    simulate(dut, bench, background=[monitor.run for monitor in monitors.values()])
    return {name: monitor.words for name, monitor in monitors.items()}, beats


def fields(config, name, beats):
    """What the beats of a header section hold, value by value or scale word by scale word."""
    found = []
    for beat in beats:
        first = getattr(beat, "first", 0)
        if name != "scales":
            found += [bits(beat.data, 16 * at, 16) for at in range(first, beat.last + 1)]
        elif words_per_beat(config) == 0:
            found.append(beat.data)
        else:
            width = scale_word_bits(config)
            words = range(first, getattr(beat, "words", 0) + 1)
            found += [bits(beat.data, width * at, width) for at in words]
    return found


CONFIGS = {
    "base": HeadConfig(bus_bits=64, width=4, tile_rows=4, max_dim=96, max_rows=64),
    "bias_in_part_of_a_beat": HeadConfig(
        bus_bits=128, width=16, tile_rows=3, max_dim=96, max_rows=64, bias=True
    ),
    "terms_and_scales_in_one_beat": HeadConfig(
        bus_bits=512, width=32, tile_rows=4, max_dim=96, max_rows=64, bias=True, bound=True
    ),
    "bound_over_several_beats": HeadConfig(
        bus_bits=64, width=8, tile_rows=11, max_dim=96, max_rows=64, bias=True, bound=True, batch=4,
        rankers=2,
    ),
    "scales_of_8_bits": HeadConfig(
        bus_bits=64, width=8, tile_rows=5, max_dim=96, max_rows=64, scale_bits=8, bound=True
    ),
    "scale_word_wider_than_bus": HeadConfig(
        bus_bits=64, weight_bits=4, width=1, tile_rows=32, max_dim=96, max_rows=64, bias=True
    ),
    "folded": HeadConfig(
        bus_bits=128, width=4, fold=4, tile_rows=12, max_dim=96, max_rows=64, bias=True, bound=True
    ),
    "channels": HeadConfig(
        bus_bits=64, width=8, tile_rows=3, max_dim=96, max_rows=64, bound=True, channels=4, batch=2
    ),
    "parameters_of_a_batch": HeadConfig(
        bus_bits=64, width=4, tile_rows=4, max_dim=96, max_rows=64, logsumexp=True, batch=3
    ),
}  # fmt: skip


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_section_gets_its_beats_and_its_part_of_them(name, stall):
    config = CONFIGS[name]
    for channel in range(min(2, config.channels)):
        rows, dim, vectors = 30, 70, config.batch
        got, beats = run(config, channel, rows, dim, vectors, stall, stall)
        layout = ImageLayout(config, rows, dim)
        if channel == 0:
            states, parameters = [], []
            for _ in range(vectors):
                states += [beats.pop(0) for _ in range(state_beats(config, dim))]
                parameters += [beats.pop(0) for _ in range(parameter_beats(config))]
            assert got["hidden"] == states
            assert got.get("parameters", []) == parameters

        expected = {section: [] for section in got if section not in ("hidden", "parameters")}
        for index in range(channel, layout.tiles, config.channels):
            tile = layout.tile(index)
            header = beats[tile.offset_beats :][: tile.header_beats]
            expected["body"] += beats[tile.offset_beats :][tile.header_beats :][: tile.body_beats]
            word = sum(beat << config.bus_bits * at for at, beat in enumerate(header))
            values = tile.blocks * config.units
            for term, term_name in enumerate(term_names(config)):
                at = 16 * term * values
                part = [bits(word, at + 16 * index, 16) for index in range(values)]
                for ranker in range(config.rankers):
                    expected[f"{term_name}{ranker}"] += part
            at = 16 * config.terms * values
            size = min(scale_word_bits(config), config.bus_bits)
            count = ceil_div(values * layout.groups * config.scale_bits, size)
            expected["scales"] += [bits(word, at + size * index, size) for index in range(count)]
        assert got["body"] == expected.pop("body")
        for section, content in expected.items():
            assert fields(config, section, got[section]) == content, section


def test_a_beat_comes_when_all_sections_can_take_one_and_goes_to_those_that_have_a_part():
    config = HeadConfig(bus_bits=128, width=16, max_dim=96, bias=True, bound=True)
    dut = HeaderFork(config)
    part = {"part": 1, "first": 0, "last": 1}

    async def bench(ctx):
        ctx.set(dut.i.payload, {"scales": 1, "bias": part, "bound": part | {"part": 0}})
        ctx.set(dut.scales.ready_next, 1)
        ctx.set(dut.bound0.ready_next, 1)
        assert not ctx.get(dut.i.ready_next)
        ctx.set(dut.bias0.ready_next, 1)
        assert ctx.get(dut.i.ready_next)
        ctx.set(dut.i.valid, 1)
        given = [ctx.get(output.valid) for output in (dut.scales, dut.bias0, dut.bound0)]
        assert given == [1, 1, 0]

    simulate(dut, bench)
