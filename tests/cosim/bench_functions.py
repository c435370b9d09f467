"""cocotb tests of masks, row terms, batches and channels; run by test_cases.py.

All of these are built, as are the log-sum-exp and the writing of all scores.
"""

from dataclasses import replace

import cocotb
import numpy as np

from hw.register_map import OFFSETS, Error
from hw.status import Status
from sim.cosim import CocotbDevice, bench
from sim.memory.model import Faults
from tests.cosim.heads import BIAS, BOUND, RandomHead, head_of_scores, random_head
from tests.cosim.jobs import Job, check, run, untouched
from tests.cosim.monitor import Monitor

CONFIG = bench().config


async def answer(device, job: Job):
    """The results of a job, checked."""
    result = await run(device, job)
    check(device, job, result)
    for port in device.ports:
        assert port.violations() == []
    return result


async def watched(device, job: Job):
    """The same, and all counters are recounted."""
    monitor = Monitor(device, job)
    result = await answer(device, job)
    await monitor.check(job, result.counters)
    return result


def some_head(rows: int, dim: int = 20, seed: int = 0, vectors: int = CONFIG.batch) -> RandomHead:
    return random_head(CONFIG, rows, dim, np.random.default_rng(seed), vectors=vectors)


def uneven_sizes() -> list[int]:
    """Numbers of rows around all that a mask is cut into."""
    cuts = {32, CONFIG.tile_rows, CONFIG.channels * CONFIG.tile_rows, 2 * CONFIG.bus_bits}
    cuts.add(CONFIG.bus_bits // CONFIG.batch)
    sizes = {cut + more for cut in cuts for more in (-1, 0, 1)} | {1, 5}
    return sorted(size for size in sizes if 1 <= size <= CONFIG.max_rows)


# The mask.


@cocotb.test()
async def an_empty_mask_gives_no_records(dut):
    async with CocotbDevice(dut) as device:
        for rows in (1, 50):
            head = some_head(rows)
            allowed = np.zeros((CONFIG.batch, rows), bool)
            result = await watched(device, Job(head, 4, allowed=allowed))
            assert all(vector.records == [] for vector in result.vectors)
            assert all(vector.logsumexp == (0, 0) for vector in result.vectors)
            for full in range(CONFIG.batch):
                allowed = np.zeros((CONFIG.batch, rows), bool)
                allowed[full] = True
                result = await answer(device, Job(head, 4, allowed=allowed, logits=True))
                counts = [len(vector.records) for vector in result.vectors]
                assert counts == [min(4, rows) * (n == full) for n in range(CONFIG.batch)]


@cocotb.test()
async def a_full_mask_is_no_mask(dut):
    async with CocotbDevice(dut) as device:
        job = Job(some_head(70), CONFIG.k)
        plain = await answer(device, job)
        full = np.ones((CONFIG.batch, 70), bool)
        assert (await watched(device, replace(job, allowed=full))).vectors == plain.vectors


@cocotb.test()
async def masks_fit_vocabularies_of_any_size(dut):
    async with CocotbDevice(dut) as device:
        rng = np.random.default_rng(5)
        for rows in uneven_sizes():
            head = some_head(rows, dim=3, seed=rows)
            allowed = rng.random((CONFIG.batch, rows)) < 0.5
            await answer(device, Job(head, CONFIG.k, allowed=allowed))


@cocotb.test()
async def the_only_row_allowed_wins(dut):
    async with CocotbDevice(dut) as device:
        rows = 2 * CONFIG.channels * CONFIG.tile_rows + 1
        head = some_head(rows, dim=2)
        for row in range(rows):
            chosen = (row + 7 * np.arange(CONFIG.batch)) % rows
            allowed = np.arange(rows) == chosen[:, None]
            result = await answer(device, Job(head, 2, allowed=allowed))
            found = [[row for _, row in vector.records] for vector in result.vectors]
            assert found == chosen[:, None].tolist()


@cocotb.test()
async def an_image_cut_short_ends_a_job_whose_mask_is_not_used_up(dut):
    async with CocotbDevice(dut) as device:
        rows = min(CONFIG.max_rows, 500)
        job = Job(some_head(rows, dim=3), 4, allowed=np.ones((CONFIG.batch, rows), bool))
        for name in job.wide_arguments("BYTES"):
            result = await run(device, job.changed(**{name: CONFIG.bus_bytes}))
            assert result.status == result.trailer_status == Status.LENGTH, name
            await answer(device, job)


# Batches and channels.


@cocotb.test()
async def the_winner_is_found_in_every_place_of_every_tile_channel_and_vector(dut):
    async with CocotbDevice(dut) as device:
        rows = 2 * CONFIG.channels * CONFIG.tile_rows + 1
        vectors = np.arange(CONFIG.batch)
        for row in range(rows):
            winners = (row + 7 * vectors) % rows
            scores = np.full((CONFIG.batch, rows), -1)
            scores[vectors, winners] = 5
            # Every second time another row is as good.
            others = rows - 1 - winners if row % 2 else winners
            scores[vectors, others] = 5
            result = await answer(device, Job(head_of_scores(CONFIG, scores), 1))
            found = [vector.records for vector in result.vectors]
            assert found == [[(5, best)] for best in np.minimum(winners, others).tolist()]


@cocotb.test()
async def ties_pick_the_lowest_id_across_channels(dut):
    async with CocotbDevice(dut) as device:
        rows = 3 * CONFIG.channels * CONFIG.tile_rows
        scores = np.full((CONFIG.batch, rows), 7)
        k = min(CONFIG.k, rows)
        result = await answer(device, Job(head_of_scores(CONFIG, scores), k))
        for vector in result.vectors:
            assert vector.records == [(7, row) for row in range(k)]


@cocotb.test()
async def a_job_may_have_any_number_of_vectors(dut):
    async with CocotbDevice(dut) as device:
        head = some_head(30)
        rng = np.random.default_rng(1)
        for vectors in range(1, CONFIG.batch + 1):
            for masked in (False, True):
                allowed = rng.random((vectors, 30)) < 0.6 if masked else None
                job = Job(head, CONFIG.k, vectors=vectors, allowed=allowed, logits=True)
                await watched(device, job)


@cocotb.test()
async def channels_without_tiles_read_nothing(dut):
    async with CocotbDevice(dut) as device:
        for tiles in range(1, CONFIG.channels + 1):
            rows = tiles * CONFIG.tile_rows
            allowed = np.random.default_rng(tiles).random((CONFIG.batch, rows)) < 0.7
            for mask in (None, allowed):
                job = Job(some_head(rows), CONFIG.k, allowed=mask, logits=True)
                result = await watched(device, job)
                for channel in range(CONFIG.channels):
                    assert bool(result.counters[f"data_beats{channel}"]) == (channel < tiles)


# Row terms.


def with_terms(scores, bias, bound, multipliers=(1, 1)) -> RandomHead:
    """A head of one vector with terms."""
    head = head_of_scores(CONFIG, scores)
    parameters = np.zeros((1, 4), np.int64)
    parameters[0, [BIAS, BOUND]] = multipliers
    return replace(head, terms=np.array([bias, bound]).T, parameters=parameters)


@cocotb.test()
async def a_bias_is_part_of_the_score_and_a_bound_of_the_order_alone(dut):
    async with CocotbDevice(dut) as device:
        head = with_terms([10, 9], [0, 2], [0, 0])
        assert (await answer(device, Job(head, 1))).records == [(11, 1)]
        head = with_terms([10, 9], [0, 0], [0, 5])
        assert (await answer(device, Job(head, 2))).records == [(9, 1), (10, 0)]
        head = with_terms([10, 9, 1], [1, -1, 0], [-3, 0, 2], (2, 3))
        assert (await answer(device, Job(head, 3))).records == [(7, 1), (1, 2), (12, 0)]


@cocotb.test()
async def equal_ranks_of_different_bounds_pick_the_lowest_id(dut):
    async with CocotbDevice(dut) as device:
        for bound in ([0, 1, 2, 3], [3, 2, 1, 0]):
            scores = [5 - term for term in bound]
            head = with_terms(scores * 9, [0] * 36, bound * 9)
            records = (await answer(device, Job(head, 5))).records
            assert records == [(score, row) for row, score in enumerate((scores * 2)[:5])]


@cocotb.test()
async def the_largest_terms_are_exact(dut):
    async with CocotbDevice(dut) as device:
        extremes = [-32768, 32767, -1, 0, 1]
        bias = extremes * 5
        bound = [value for value in extremes for _ in range(5)]
        for multipliers in ((2**32 - 1, 2**32 - 1), (2**32 - 1, 1), (1, 2**32 - 1), (0, 0)):
            head = with_terms([1] * 25, bias, bound, multipliers)
            await answer(device, Job(head, CONFIG.k, logits=True))


# Errors.


@cocotb.test()
async def a_read_error_on_any_beat_ends_the_job_without_results(dut):
    async with CocotbDevice(dut) as device:
        rows = 2 * CONFIG.channels * CONFIG.tile_rows
        job = Job(
            some_head(rows, dim=2),
            3,
            allowed=np.random.default_rng(2).random((CONFIG.batch, rows)) < 0.5,
            logits=True,
        )
        await answer(device, job)
        for number, port in enumerate(device.ports):
            for beat in range(job.read_beats(number)):
                port.set_faults(Faults(read_beats=(beat,)))
                result = await run(device, job)
                assert result.status == result.trailer_status == Status.READ
                assert untouched(device, job)
            await device.write(OFFSETS["ERRORS"], Error.READ)
            await answer(device, job)
