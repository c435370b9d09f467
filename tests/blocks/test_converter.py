import random

import pytest

from hw.converter import WidthConverter

from .streams import STALLS, StreamMonitor, receiver, sender, simulate, stalls


def split(word, bits, count):
    return [word >> bits * index & (1 << bits) - 1 for index in range(count)]


def run(converter, words, count, give="none", take="none"):
    entered, left = StreamMonitor(converter.i, "i"), StreamMonitor(converter.o, "o")
    simulate(
        converter,
        sender(converter.i, words, stalls(give, 1)),
        receiver(converter.o, count, stalls(take, 2)),
        background=[entered.run, left.run],
    )
    return entered, left


def narrowing_case(in_bits, out_bits, beats=40):
    rng = random.Random(in_bits)
    ratio = in_bits // out_bits
    words, expected = [], []
    for index in range(beats):
        valid = ratio if index % 3 else rng.randint(1, ratio)
        word = rng.getrandbits(in_bits)
        words.append({"data": word, "words": valid - 1})
        expected += split(word, out_bits, valid)
    return words, expected


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("in_bits, out_bits", [(16, 8), (64, 8), (128, 16)])
def test_narrowing_gives_the_valid_words_least_significant_first(in_bits, out_bits, give, take):
    words, expected = narrowing_case(in_bits, out_bits)
    _, left = run(WidthConverter(in_bits, out_bits), words, len(expected), give, take)
    assert left.words == expected


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("in_bits, out_bits", [(16, 8), (64, 8)])
def test_ready_told_a_clock_ahead_changes_nothing(in_bits, out_bits, give, take):
    words, expected = narrowing_case(in_bits, out_bits)

    def cycles(tells_ready):
        converter = WidthConverter(in_bits, out_bits, tells_ready=tells_ready)
        entered, left = StreamMonitor(converter.i, "i"), StreamMonitor(converter.o, "o")
        go = stalls(take, 2)

        async def receive(ctx):
            ready_next = False
            while len(left.words) < len(expected):
                ctx.set(converter.o.ready, ready_next)
                ready_next = next(go)
                if tells_ready:
                    ctx.set(converter.ready_next, ready_next)
                await ctx.tick()

        sends = sender(converter.i, words, stalls(give, 1))
        simulate(converter, sends, receive, background=[entered.run, left.run])
        assert left.words == expected
        return entered.cycles, left.cycles

    assert cycles(True) == cycles(False)


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
def test_narrowing_begins_at_the_first_valid_word_without_a_lost_clock(give, take):
    rng = random.Random(give + take)
    words, expected = [], []
    for index in range(40):
        first = rng.randint(0, 7) if index % 3 else 0
        last = rng.randint(first, 7) if index % 2 else 7
        word = rng.getrandbits(64)
        words.append({"data": word, "first": first, "words": last})
        expected += split(word, 8, 8)[first : last + 1]
    _, left = run(WidthConverter(64, 8, with_first=True), words, len(expected), give, take)
    assert left.words == expected
    if give == take == "none":
        assert left.bubbles == 0


def test_narrowing_drops_padding_without_a_lost_clock():
    words, expected = narrowing_case(64, 8)
    _, left = run(WidthConverter(64, 8), words, len(expected))
    assert left.bubbles == 0


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
@pytest.mark.parametrize("in_bits, out_bits", [(8, 16), (8, 64), (16, 128)])
def test_widening_puts_the_first_word_least_significant(in_bits, out_bits, give, take):
    expected = [random.Random(out_bits).getrandbits(out_bits) for _ in range(30)]
    ratio = out_bits // in_bits
    words = [part for word in expected for part in split(word, in_bits, ratio)]
    _, left = run(WidthConverter(in_bits, out_bits), words, len(expected), give, take)
    assert left.words == expected


def test_widening_takes_a_word_per_clock():
    entered, left = run(WidthConverter(8, 32), range(80), 20)
    assert entered.bubbles == 0
    assert left.cycles == [cycle + 1 for cycle in entered.cycles[3::4]]


@pytest.mark.parametrize("take", STALLS)
def test_equal_widths_pass_through(take):
    _, left = run(WidthConverter(8, 8), range(50), 50, take=take)
    assert left.words == list(range(50))


@pytest.mark.parametrize("widths", [(64, 24), (8, 24), (9, 6)])
def test_a_ratio_that_is_no_power_of_two_is_refused(widths):
    with pytest.raises(ValueError, match="power of two, got"):
        WidthConverter(*widths)


@pytest.mark.parametrize("widths, with_first", [((8, 16), False), ((8, 8), False), ((16, 8), True)])
def test_ready_is_only_told_ahead_where_it_is_used(widths, with_first):
    with pytest.raises(ValueError, match="tells_ready is for narrowing"):
        WidthConverter(*widths, with_first=with_first, tells_ready=True)


@pytest.mark.parametrize("widths", [(8, 16), (8, 8)])
def test_words_begin_inside_a_beat_only_where_beats_are_cut(widths):
    with pytest.raises(ValueError, match="with_first is for narrowing"):
        WidthConverter(*widths, with_first=True)


def test_a_width_below_one_is_refused():
    with pytest.raises(ValueError, match="out_bits must be at least 1, got 0"):
        WidthConverter(8, 0)
