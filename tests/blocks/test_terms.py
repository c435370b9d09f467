"""Row terms: from header beats to values, and from values to scores and ranks."""

import random

import pytest

from hw.config import HeadConfig, ceil_div
from hw.terms import RowTerms, ScoredLayout, TermBuffer

from .streams import STALLS, StreamMonitor, receive, send, send_early, simulate, stalls, wait_until

SHAPE = {
    "bus_bits": 64,
    "weight_bits": 4,
    "scale_bits": 8,
    "hidden_bits": 8,
    "width": 4,
    "max_dim": 32,
    "max_rows": 1000,
    "k": 1,
}
LIMIT = 1 << 15
TERMS = [("bias",), ("bound",), ("bias", "bound")]


def make(*names, **options) -> HeadConfig:
    return HeadConfig(**SHAPE | dict.fromkeys(names, True) | options)


def any_value(rng) -> int:
    return rng.choice((-LIMIT, LIMIT - 1, rng.randrange(-LIMIT, LIMIT)))


def header_beats(config, term, values):
    """The beats of a tile's header with `values` of a term, as the unpacker marks them."""
    per_beat = config.bus_bits // 16
    first = term * len(values)
    # Neighbours in a beat belong to others.
    words = [0xABCD] * first + [value % (1 << 16) for value in values] + [0xABCD] * per_beat
    for beat in range(first // per_beat, ceil_div(first + len(values), per_beat)):
        here = words[beat * per_beat : (beat + 1) * per_beat]
        yield {
            "data": sum(word << 16 * place for place, word in enumerate(here)),
            "first": max(0, first - beat * per_beat),
            "last": min(per_beat, first + len(values) - beat * per_beat) - 1,
        }


def tiles_of(config, count, seed=0):
    """Values of `count` tiles, the last of which has fewer rows."""
    rng = random.Random(seed)
    sizes = [config.tile_rows] * (count - 1) + [config.units]
    return [[any_value(rng) for _ in range(size)] for size in sizes]


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("term, tile_rows", [(0, 8), (1, 8), (1, 6), (1, 2)])
def test_values_come_in_the_order_of_rows(term, tile_rows, give, take):
    config = make("bias", "bound", width=8, tile_rows=tile_rows)
    assert config.units == 2
    dut = TermBuffer(config, term)
    tiles = tiles_of(config, 9)
    beats = [beat for tile in tiles for beat in header_beats(config, term, tile)]
    values = [value for tile in tiles for value in tile]
    left = StreamMonitor(dut.o, "o")

    async def give_beats(ctx):
        await send_early(ctx, dut.i, beats, stalls(give, 1))

    async def take_values(ctx):
        assert await receive(ctx, dut.o, len(values), stalls(take, 2)) == values

    simulate(dut, give_beats, take_values, background=[left.run])
    if give == take == "none":
        assert left.bubbles == 0


@pytest.mark.parametrize("bus_bits, tile_rows", [(64, 64), (64, 4), (512, 64)])
@pytest.mark.parametrize("term", [0, 1])
def test_two_tiles_and_the_blocks_under_way_find_room(term, bus_bits, tile_rows):
    shape = {"bus_bits": bus_bits, "width": bus_bits // 16, "tile_rows": tile_rows}
    config = make("bias", "bound", **shape)
    dut = TermBuffer(config, term)
    under_way = config.body_fifo_beats + 32 + config.row_queue_blocks
    tiles = 2 + under_way // config.tile_blocks
    values = tiles_of(config, tiles + 1)[:-1]
    beats = [beat for tile in values for beat in header_beats(config, term, tile)]

    async def give(ctx):
        assert ctx.get(dut.i.ready_next)
        await ctx.tick()
        for beat in beats[:-1]:
            ctx.set(dut.i.payload, beat)
            ctx.set(dut.i.valid, 1)
            assert ctx.get(dut.i.ready_next)
            await ctx.tick()

    simulate(dut, give)


@pytest.mark.parametrize("after", [1, 2, 3, 7])
def test_start_drops_what_is_left(after):
    config = make("bias", "bound", width=8, tile_rows=6)
    dut = TermBuffer(config, 1)
    left_over, values = tiles_of(config, 2)[0], tiles_of(config, 2, 1)[0]

    async def two_jobs(ctx):
        await send_early(ctx, dut.i, header_beats(config, 1, left_over))
        await receive(ctx, dut.o, 2)
        await ctx.tick().repeat(after)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)
        assert not ctx.get(dut.o.valid)
        await send_early(ctx, dut.i, header_beats(config, 1, values))
        assert await receive(ctx, dut.o, len(values)) == values

    simulate(dut, two_jobs)


class Rows:
    """Rows for `RowTerms` with their values and multipliers, and what must come of them."""

    def __init__(self, dut: RowTerms, count: int, active: int, seed: int = 0):
        rng = random.Random(seed)
        config = dut.config
        sums = config.sum_bound
        self.multipliers = {
            name: [rng.choice((0, 2**32 - 1, rng.randrange(2**32))) for _ in range(dut.vectors)]
            for name in dut.names
        }
        self.values = {name: [any_value(rng) for _ in range(count)] for name in dut.names}
        self.given, self.expected = [], []
        for row in range(count):
            for slot in range(active):
                given = {"score": rng.choice((-sums, sums, rng.randint(-sums, sums))), "id": row}
                given["slot"] = slot
                if dut.vectors > 1:
                    given["last"] = slot == active - 1
                if config.mask:
                    given["allowed"] = rng.randrange(2)
                self.given.append(given)
                added = {
                    name: self.values[name][row] * self.multipliers[name][slot]
                    for name in dut.names
                }
                found = dict(given)
                found["score"] += added.get("bias", 0)
                found["rank"] = found["score"] + added.get("bound", 0)
                found["term"] = self.values.get("bound", [0] * count)[row]
                names = ScoredLayout(config, dut.vectors).members
                self.expected.append({name: int(found[name]) for name in names})


def simulate_rows(dut, rows, give="none", take="none", values="none"):
    """Send `rows` through and compare; the monitors of `i` and `o`."""
    entered, left = StreamMonitor(dut.i, "i"), StreamMonitor(dut.o, "o")

    async def give_rows(ctx):
        for name in dut.names:
            ctx.set(getattr(dut, f"{name}_multipliers"), rows.multipliers[name])
        await send(ctx, dut.i, rows.given, stalls(give, 1))

    async def take_rows(ctx):
        await receive(ctx, dut.o, len(rows.given), stalls(take, 2))
        assert ctx.get(dut.idle)

    def giver(number, name):
        async def give_values(ctx):
            await send(ctx, getattr(dut, name), rows.values[name], stalls(values, number))

        return give_values

    givers = [giver(number, name) for number, name in enumerate(dut.names)]
    simulate(dut, give_rows, take_rows, *givers, background=[entered.run, left.run])
    names = list(dut.o.payload.shape().members)
    assert [{name: int(word[name]) for name in names} for word in left.words] == rows.expected
    return entered, left


@pytest.mark.parametrize("values", STALLS)
@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("batch", [1, 3])
def test_stalls_change_no_score_and_no_rank(batch, give, take, values):
    dut = RowTerms(make("bias", "bound", batch=batch, rankers=1))
    simulate_rows(dut, Rows(dut, 40, batch), give, take, values)


@pytest.mark.parametrize("sink", [{}, {"logsumexp": True}, {"all_logits": True, "mask": True}])
@pytest.mark.parametrize("names", TERMS)
def test_a_bias_adds_to_the_score_and_a_bound_to_the_rank_alone(names, sink):
    dut = RowTerms(make(*names, **sink))
    layout = dut.o.payload.shape().members
    assert ("rank" in layout) == ("bound" in names)
    assert ("score" in layout) == ("bound" not in names or bool(sink))
    simulate_rows(dut, Rows(dut, 60, 1))


@pytest.mark.parametrize("active", [1, 2, 3])
@pytest.mark.parametrize("ranker", [0, 1])
def test_all_slots_of_a_row_share_its_values(active, ranker):
    dut = RowTerms(make("bias", batch=6, rankers=2), ranker)
    simulate_rows(dut, Rows(dut, 30, active))


@pytest.mark.parametrize("names", TERMS)
def test_a_row_a_clock_and_ten_clocks_for_the_way(names):
    dut = RowTerms(make(*names, batch=2, rankers=1))
    entered, left = simulate_rows(dut, Rows(dut, 40, 2))
    assert entered.bubbles == left.bubbles == 0
    assert left.cycles[0] - entered.cycles[0] <= 10


def test_values_are_dropped_where_no_vector_needs_them():
    dut = RowTerms(make("bias", "bound"))

    async def drop(ctx):
        ctx.set(dut.drop, 1)
        for name in dut.names:
            await send(ctx, getattr(dut, name), range(50))
        assert ctx.get(dut.idle)

    simulate(dut, drop, deadline=110)


def test_idle_tells_that_nothing_is_under_way():
    dut = RowTerms(make("bias"))
    seen = []

    async def one_row(ctx):
        assert ctx.get(dut.idle)
        ctx.set(dut.bias.valid, 1)
        await send(ctx, dut.i, [{"score": 1, "id": 0}])
        seen.append(ctx.get(dut.idle))
        await wait_until(ctx, dut.o.valid)
        seen.append(ctx.get(dut.idle))
        await receive(ctx, dut.o, 1)
        seen.append(ctx.get(dut.idle))

    simulate(dut, one_row)
    assert seen == [0, 0, 1]


def test_terms_that_are_not_built_are_refused():
    with pytest.raises(ValueError, match="term must be one of the 1 of a header, got 1"):
        TermBuffer(make("bias"), 1)
    with pytest.raises(ValueError, match="with bias or bound is needed, got none"):
        RowTerms(make())
