"""The log-sum-exp units and their merging, bit for bit against the golden model."""

import random

import numpy as np
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig
from hw.exp2 import Exp2, power_table
from hw.logsumexp import WINDOW, LogSumExp
from hw.logsumexp_merge import RESULT_LAYOUT, LogSumExpMerger
from sim import golden_logsumexp
from tests.blocks.streams import STALLS, send, simulate, stalls, wait, wait_until

CONFIG = HeadConfig(bus_bits=64, max_dim=576, max_rows=49152, logsumexp=True)
UNIT = (2**31, 6)
"""Multiplier and shift with which a score of 32 has the base-2 logarithm 1."""


class Summed(wiring.Component):
    """Units that share the rows of vectors, and the merger behind them."""

    def __init__(self, config=CONFIG, vectors=1, units=1):
        self.merger = LogSumExpMerger(config, units)
        self.units = [LogSumExp(config, vectors) for _ in range(units)]
        row = self.units[0].i.payload.shape()
        super().__init__(
            {
                "start": In(1),
                "i": In(stream.Signature(row)).array(units),
                "multiplier": In(data.ArrayLayout(32, vectors)),
                "shift": In(data.ArrayLayout(7, vectors)),
                "idle": Out(1),
                "slot": In(range(vectors)),
                "merge": In(1),
                "done": Out(1),
                "result": Out(RESULT_LAYOUT),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.merger = merger = self.merger
        idle = []
        for index, unit in enumerate(self.units):
            m.submodules[f"unit{index}"] = unit
            wiring.connect(m, wiring.flipped(self.i[index]), unit.i)
            m.d.comb += [
                unit.start.eq(self.start),
                unit.multiplier.eq(self.multiplier),
                unit.shift.eq(self.shift),
                unit.read_slot.eq(self.slot),
                merger.top[index].eq(unit.top),
                unit.read_exponent.eq(merger.read_exponent[index]),
                merger.read_sum[index].eq(unit.read_sum),
            ]
            idle.append(unit.idle)
        all_idle = idle[0]
        for other in idle[1:]:
            all_idle &= other
        m.d.comb += [
            self.idle.eq(all_idle),
            merger.start.eq(self.merge),
            self.done.eq(merger.done),
            self.result.eq(merger.result),
        ]
        return m


async def pulse(ctx, signal):
    ctx.set(signal, 1)
    await ctx.tick()
    ctx.set(signal, 0)


async def run_job(ctx, dut, rows, arguments, go=None):
    """Results (exponent, sum) of every slot; `rows` are lists of (score, slot) per unit."""
    for slot, (multiplier, shift) in enumerate(arguments):
        ctx.set(dut.multiplier[slot], multiplier)
        ctx.set(dut.shift[slot], shift)
    await pulse(ctx, dut.start)
    for unit, part in zip(dut.i, rows, strict=True):
        await send(ctx, unit, [{"score": score, "slot": slot} for score, slot in part], go)
    await wait_until(ctx, dut.idle)
    results = []
    for slot in range(len(arguments)):
        ctx.set(dut.slot, slot)
        await pulse(ctx, dut.merge)
        await wait_until(ctx, dut.done, deadline=WINDOW + 40)
        results.append((ctx.get(dut.result.exponent), ctx.get(dut.result.sum)))
    return results


def expected(rows, arguments):
    return [
        golden_logsumexp.accumulate(
            np.array([score for part in rows for score, at in part if at == slot], np.int64),
            *argument,
        )
        for slot, argument in enumerate(arguments)
    ]


def check(rows, arguments=(UNIT,), stall="none", config=CONFIG):
    """Runs one job whose rows are spread over `len(rows)` units."""
    dut = Summed(config, len(arguments), len(rows))
    results = []

    async def bench(ctx):
        results.extend(await run_job(ctx, dut, rows, arguments, stalls(stall)))

    simulate(dut, bench)
    assert results == expected(rows, arguments)
    return results


def clustered_scores(rng, count, bits):
    """Scores around a few levels, so that exponents meet, climb and fall."""
    levels = [rng.randrange(-(1 << bits), 1 << bits) for _ in range(4)]
    return [rng.choice(levels) + rng.randrange(-64, 64) for _ in range(count)]


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("vectors", [1, 3])
def test_sums_equal_the_golden_model(vectors, stall):
    rng = random.Random(f"{vectors} {stall}")
    arguments = [(rng.randrange(2**31, 2**32), 4 + slot) for slot in range(vectors)]
    rows = [(score, rng.randrange(vectors)) for score in clustered_scores(rng, 300, 10)]
    check([rows], arguments, stall)


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("step", [0, 1, -1, WINDOW, -WINDOW])
def test_rows_meet_in_an_accumulator_at_every_distance(distance, step):
    # Rows `distance` apart share an accumulator; others use accumulators of their own.
    rows = [(32 * (place * 7 + step * turn), 0) for turn in range(5) for place in range(distance)]
    check([rows])


@pytest.mark.parametrize("order", ["ascending", "descending", "zigzag"])
def test_exponents_climb_past_the_window_and_fall_below_it(order):
    exponents = list(range(-150, 150, 7))
    if order == "descending":
        exponents.reverse()
    elif order == "zigzag":
        exponents = [exponent * (-1) ** place for place, exponent in enumerate(exponents)]
    check([[(32 * exponent + place, 0) for place, exponent in enumerate(exponents)]])


def test_what_took_over_an_accumulator_outside_the_window_does_not_count_in_it():
    top = 100
    exponents = [top - 63, top - 64, top - 127, top - 128, top, top - 63 - 128, top - 1]
    ((exponent, total),) = check([[(32 * exponent, 0) for exponent in exponents]])
    assert (exponent, total) == (top, 2**20 + 2**19)


@pytest.mark.parametrize("units", [1, 2, 3, 4])
def test_neither_the_order_of_rows_nor_their_spread_over_units_counts(units):
    rng = random.Random(7)
    rows = [(score, 0) for score in clustered_scores(rng, 120, 11)]
    results = set()
    for _ in range(2):
        rng.shuffle(rows)
        cuts = sorted(rng.randrange(len(rows) + 1) for _ in range(units - 1))
        bounds = list(zip([0, *cuts], [*cuts, len(rows)], strict=True))
        results.update(check([rows[low:high] for low, high in bounds]))
    assert results == set(expected([rows], [UNIT]))


def test_without_rows_exponent_and_sum_are_zero():
    assert check([[], []]) == [(0, 0)]
    rows = [(-(2**20), 1)]
    assert check([rows, []], [UNIT, UNIT])[0] == (0, 0)


@pytest.mark.parametrize("shift", [0, 1, 23, 24, 25, 63, 64, 90, 127])
def test_scores_of_the_whole_range_are_shifted_and_clamped(shift):
    rng = random.Random(shift)
    high = 1 << CONFIG.score_bits - 1
    scores = [-high, high - 1, 0, -1, 1]
    scores += [rng.choice((-1, 1)) * (1 << rng.randrange(CONFIG.score_bits - 1)) for _ in range(20)]
    for part in (scores, [score for score in scores if score < 0]):
        check([[(score, 0) for score in part]], [(2**32 - 1, shift)])


@pytest.mark.parametrize("multiplier", [0, 1, 2**17 - 1, 2**17, 2**31, 2**32 - 1])
def test_multipliers_of_all_32_bits_are_unsigned(multiplier):
    rng = random.Random(multiplier)
    rows = [(rng.randrange(-(2**34), 2**34), 0) for _ in range(30)]
    check([rows], [(multiplier, 24)])


@pytest.mark.parametrize("max_dim", [32, 65536])
def test_narrow_and_wide_scores_are_summed_alike(max_dim):
    config = HeadConfig(
        bus_bits=64, max_dim=max_dim, max_rows=70000, logsumexp=True, bias=max_dim > 32,
        weight_bits=4 if max_dim == 32 else 8, scale_bits=8 if max_dim == 32 else 16,
    )  # fmt: skip
    rng = random.Random(max_dim)
    bits = config.score_bits - 2
    rows = [(score, 0) for score in clustered_scores(rng, 60, bits)]
    check([rows], [(3 * 2**30, max(0, bits - 6))], config=config)


def test_jobs_begin_with_nothing_even_if_rows_are_under_way():
    dut = Summed(vectors=2)
    first = [[(32 * place, place % 2) for place in range(40)]]
    second = [[(32 * 3, 0), (32 * 2, 0)]]
    results = []

    async def bench(ctx):
        await run_job(ctx, dut, first, [UNIT, UNIT])
        # A job that ends with its rows in the pipeline.
        await send(ctx, dut.i[0], [{"score": 3200, "slot": place % 2} for place in range(9)])
        results.extend(await run_job(ctx, dut, second, [UNIT, UNIT]))

    simulate(dut, bench)
    assert results == expected(second, [UNIT, UNIT])


def test_the_lowest_exponents_find_cleared_accumulators_too():
    # The tag of the lowest 64 exponents is that of a cleared accumulator.
    dut = Summed()
    rows = [[(32 * place, 0) for place in range(40)]]
    lowest = [[(-(2**40) + place, 0) for place in range(9)]]
    results = []

    async def bench(ctx):
        await run_job(ctx, dut, rows, [UNIT])
        results.extend(await run_job(ctx, dut, lowest, [(2**32 - 1, 0)]))

    simulate(dut, bench)
    assert results == expected(lowest, [(2**32 - 1, 0)])
    assert results[0][0] == -4096


def test_the_last_row_can_be_read_as_soon_as_the_unit_is_idle():
    dut = LogSumExp(CONFIG, 1)

    async def bench(ctx):
        ctx.set(dut.multiplier[0], UNIT[0])
        ctx.set(dut.shift[0], UNIT[1])
        ctx.set(dut.read_exponent, 3)
        await wait_until(ctx, dut.i.ready)
        for rows in (1, 2):
            await send(ctx, dut.i, [{"score": 32 * 3, "slot": 0}])
            await wait_until(ctx, dut.idle)
            await wait(ctx, LogSumExp.READ_LATENCY)
            assert ctx.get(dut.read_sum) == rows * 2**20
            assert ctx.get(dut.top.valid) and ctx.get(dut.top.exponent) == 3

    simulate(dut, bench)


def test_rows_wait_while_the_accumulators_are_cleared_and_then_take_a_clock_each():
    vectors = 3
    dut = LogSumExp(CONFIG, vectors)

    async def bench(ctx):
        assert await wait_until(ctx, dut.i.ready) == WINDOW * vectors
        await pulse(ctx, dut.start)
        assert not ctx.get(dut.i.ready) and not ctx.get(dut.idle)
        ctx.set(dut.i.valid, 1)
        assert await wait_until(ctx, dut.i.ready) == WINDOW * vectors
        for _ in range(50):
            assert ctx.get(dut.i.ready)
            await ctx.tick()
            assert not ctx.get(dut.idle)
        ctx.set(dut.i.valid, 0)
        await wait_until(ctx, dut.idle, deadline=30)

    simulate(dut, bench)


def test_a_merger_waits_for_ports_that_are_further_away():
    class Distant(wiring.Component):
        def __init__(self):
            super().__init__({"start": In(1), "done": Out(1), "result": Out(RESULT_LAYOUT)})
            self.merger = LogSumExpMerger(CONFIG, 2, latency=3)

        def elaborate(self, platform):
            m = Module()
            m.submodules.merger = merger = self.merger
            m.d.comb += [
                merger.start.eq(self.start),
                self.done.eq(merger.done),
                self.result.eq(merger.result),
            ]
            # Port n has a single accumulator, 2^(20 + n) at exponent 40 - n.
            for port in range(2):
                value = (merger.read_exponent[port] == 40 - port) << 20 + port
                top = 1 << 13 | 40 - port
                for clock in range(3):
                    later, later_top = Signal(40, name=f"v{port}{clock}"), Signal(14)
                    m.d.sync += [later.eq(value), later_top.eq(top)]
                    value, top = later, later_top
                m.d.comb += [
                    merger.read_sum[port].eq(value),
                    merger.top[port].as_value().eq(top),
                ]
            return m

    dut = Distant()

    async def bench(ctx):
        assert ctx.get(dut.done)
        for _ in range(2):
            await pulse(ctx, dut.start)
            assert not ctx.get(dut.done)
            await wait_until(ctx, dut.done, deadline=90)
            assert ctx.get(dut.result.exponent) == 40
            assert ctx.get(dut.result.sum) == 2**21

    simulate(dut, bench)


@pytest.mark.parametrize("clocks", [1, 5, 7, 40, 69, 71, 73, 100])
def test_a_merge_ended_or_given_up_leaves_nothing_behind(clocks):
    # Slot 1 comes to 2^21 - 2^-43 before it is rounded: the slightest addition shows.
    vectors = 2
    rows = [[(32 * place, 0) for place in range(WINDOW)] * 8]
    rows[0] += [(32 * place, 1) for place in range(WINDOW)]
    dut = Summed(vectors=vectors)
    results = []

    async def bench(ctx):
        await run_job(ctx, dut, rows, [UNIT] * vectors)
        ctx.set(dut.slot, 0)
        await pulse(ctx, dut.merge)
        await wait(ctx, clocks)
        ctx.set(dut.slot, 1)
        await pulse(ctx, dut.merge)
        await wait_until(ctx, dut.done, deadline=WINDOW + 20)
        results.append((ctx.get(dut.result.exponent), ctx.get(dut.result.sum)))

    simulate(dut, bench)
    assert results == [(WINDOW - 1, 2**21 - 1)] == expected(rows, [UNIT] * vectors)[1:]


def test_mantissas_come_from_the_table_and_lie_within_1e_6():
    assert power_table() == golden_logsumexp.POWERS.tolist()
    dut = Exp2()
    rng = random.Random(3)
    fractions = [0, 1, 4095, 4096, 2**19, 2**20 - 4096, 2**20 - 1]
    fractions += [rng.randrange(2**20) for _ in range(200)]
    got = []

    async def bench(ctx):
        for place in range(len(fractions) + Exp2.LATENCY):
            ctx.set(dut.fraction, fractions[min(place, len(fractions) - 1)])
            if place >= Exp2.LATENCY:
                got.append(ctx.get(dut.mantissa))
            await ctx.tick()

    simulate(dut, bench)
    exact = 2 ** (20 + np.array(fractions) / 2**20)
    assert np.abs(np.array(got) / exact - 1).max() < 2e-6
    table = golden_logsumexp.POWERS
    for fraction, mantissa in zip(fractions, got, strict=True):
        index, place = divmod(fraction, 4096)
        assert mantissa == table[index] + (table[index + 1] - table[index]) * place // 4096


def test_impossible_counts_are_refused():
    with pytest.raises(ValueError, match="vectors must be at least 1, got 0"):
        LogSumExp(CONFIG, 0)
    with pytest.raises(ValueError, match="ports must be at least 1, got 0"):
        LogSumExpMerger(CONFIG, 0)
