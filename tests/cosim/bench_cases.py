"""cocotb tests of known faults of such systems and their right answers; run by test_cases.py."""

from dataclasses import replace
from pathlib import Path

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from host.driver import Head, JobError, JobTimeout
from host.image import save_image
from host.verify import golden_results, mismatches
from hw.register_map import OFFSETS, Control, Error
from hw.status import Status
from sim.cosim import CocotbDevice, bench
from sim.errors import BusError
from sim.memory.model import Faults, Stalls
from tests.cosim.jobs import (
    HIDDEN_ADDRESS,
    IMAGE_ADDRESS,
    RESULT_ADDRESS,
    Job,
    RandomHead,
    check,
    finish,
    head_of_scores,
    load,
    random_head,
    run,
    start,
)
from tests.cosim.monitor import Monitor

CONFIG = bench().config


def small_head(rows=21, dim=50, seed=0):
    return random_head(CONFIG, rows, dim, np.random.default_rng(seed))


async def succeed(device, seed=99):
    """The next job is right."""
    job = Job(small_head(seed=seed), 5)
    check(job, await run(device, job))
    assert device.port.violations() == []


async def refused(device, job, status):
    """The job ends with `status`, an interrupt, and nothing on the bus."""
    device.write_memory(RESULT_ADDRESS, b"\xa5" * 256)
    before = replace(device.port.statistics(), cycles=0)
    monitor = Monitor(device)
    await start(device, job)
    assert await device.interrupted(1000)
    assert (await monitor.counters())["data_beats"] == 0
    assert monitor.stream is None
    assert monitor.written == 0
    assert await device.read(OFFSETS["STATUS"]) == status
    assert await device.read(OFFSETS["ERRORS"]) == 1 << status
    assert replace(device.port.statistics(), cycles=0) == before
    assert bytes(device.read_memory(RESULT_ADDRESS, 256)) == b"\xa5" * 256
    await device.write(OFFSETS["ERRORS"], 1 << status)
    await device.write(OFFSETS["ISR"], 1)
    await device.write(OFFSETS["CONTROL"], Control.CONTINUE)
    await succeed(device)


# Arguments.


@cocotb.test()
async def a_job_of_65536_rows_scans_them_all(dut):
    async with CocotbDevice(dut) as device:
        rng = np.random.default_rng(4)
        head = RandomHead(
            CONFIG, rng.integers(-100, 100, (65536, 1)), np.ones((65536, 1), int), np.array([3])
        )
        head.weights[65535] = 127
        job = Job(head, 3)
        result = await run(device, job, 4_000_000)
        check(job, result)
        assert result.records[0] == (381, 65535)
        assert result.counters["rows"] == 65536


@cocotb.test()
async def sizes_of_zero_or_past_the_hardware_are_refused_without_traffic(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(), 5)
        await load(device, job.head)
        for name, limit, status in (
            ("ROWS", CONFIG.max_rows, Status.ROWS),
            ("DIM", CONFIG.max_dim, Status.DIM),
            ("K", CONFIG.k, Status.K),
            ("VECTORS", 1, Status.VECTORS),
        ):
            for value in (0, limit + 1, 1 << 31):
                await refused(device, job.changed(**{name: value}), status)


@cocotb.test()
async def unaligned_addresses_are_refused_without_traffic(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(), 5)
        await load(device, job.head)
        for name, base in (
            ("IMAGE_ADDR", IMAGE_ADDRESS),
            ("HIDDEN_ADDR", HIDDEN_ADDRESS),
            ("RESULT_ADDR", RESULT_ADDRESS),
        ):
            for offset in (1, CONFIG.bus_bytes // 2):
                await refused(device, job.changed(**{name: base + offset}), Status.ALIGNMENT)


@cocotb.test()
async def an_image_of_another_format_is_refused_without_traffic(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(), 5)
        await load(device, job.head)
        for bit in (0, 17, 31):
            wrong = CONFIG.format_word ^ 1 << bit
            await refused(device, job.changed(IMAGE_FORMAT=wrong), Status.FORMAT)
        for size in (0, job.head.layout.bytes + 1, 1 << 50):
            await refused(device, job.changed(IMAGE_BYTES=size), Status.LENGTH)


@cocotb.test()
async def an_image_of_the_wrong_length_ends_the_job_without_results(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(), 5)
        size = job.head.layout.bytes
        for wrong in (CONFIG.bus_bytes, size - CONFIG.bus_bytes, size + CONFIG.bus_bytes, 4 * size):
            result = await run(device, job.changed(IMAGE_BYTES=wrong))
            assert result.status == result.trailer_status == Status.LENGTH
            assert bytes(device.read_memory(RESULT_ADDRESS, 16)) == b"\xa5" * 16
            await succeed(device)


# Starting.


@cocotb.test()
async def a_polled_done_bit_is_low_until_this_job_ends(dut):
    async with CocotbDevice(dut) as device:
        for seed in range(3):
            job = Job(small_head(seed=seed), 5)
            await load(device, job.head)
            await start(device, job)
            polls, done = 0, False
            while not done:
                ended = dut.irq.value == 1
                done = bool(await device.read(OFFSETS["CONTROL"]) & Control.DONE)
                assert done or not ended
                polls += 1
            assert polls > 5
            check(job, await finish(device, job))
            assert not await device.read(OFFSETS["CONTROL"]) & Control.DONE


@cocotb.test()
async def a_start_while_start_is_set_is_ignored_and_reported(dut):
    async with CocotbDevice(dut) as device:
        first, second = Job(small_head(seed=1), 5), Job(small_head(seed=1), 3)
        await load(device, first.head)
        await start(device, first)
        # The slot is busy: this start waits, the next one is one too many.
        await device.write(OFFSETS["K"], 3)
        await device.write(OFFSETS["CONTROL"], Control.START)
        assert await device.read(OFFSETS["ERRORS"]) == 0
        await device.write(OFFSETS["CONTROL"], Control.START)
        assert await device.read(OFFSETS["ERRORS"]) == Error.START
        check(first, await finish(device, first))
        result = await finish(device, second)
        check(second, result)
        assert result.trailer_job == 2
        assert await device.read(OFFSETS["JOBS"]) == 2
        await ClockCycles(dut.ap_clk, 2000)
        assert await device.read(OFFSETS["JOBS"]) == 2


@cocotb.test()
async def writes_to_constants_and_holes_are_answered_with_an_error(dut):
    async with CocotbDevice(dut) as device:
        for offset in (OFFSETS["MAGIC"], OFFSETS["STATUS"], 0x0FC, 0xFFC):
            try:
                await device.write(offset, 1)
            except BusError as error:
                assert "SLVERR" in str(error)
            else:
                raise AssertionError(f"0x{offset:03x} was written")
        await succeed(device)


# The bus.


@cocotb.test()
async def read_errors_end_the_job_without_results_and_the_next_is_right(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(), 5)
        beats = len(job.head.hidden_bytes()) // CONFIG.bus_bytes + job.head.layout.beats
        for beat in (0, 3, beats // 2, beats - 1):
            for response in (2, 3):
                device.port.set_faults(Faults(read_beats=(beat,), read_response=response))
                result = await run(device, job)
                assert result.status == result.trailer_status == Status.READ
                assert bytes(device.read_memory(RESULT_ADDRESS, 16)) == b"\xa5" * 16
                assert await device.read(OFFSETS["ERRORS"]) == Error.READ
                await device.write(OFFSETS["ERRORS"], Error.READ)
                device.port.set_faults(Faults())
                await succeed(device)


@cocotb.test()
async def write_errors_end_the_job_with_a_status_and_the_next_is_right(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(), 5)
        for number in (0, 1):
            device.port.set_faults(Faults(write_responses=(number,)))
            result = await run(device, job)
            assert result.status == Status.WRITE
            if number == 0:
                assert result.trailer_status == Status.WRITE
            device.port.set_faults(Faults())
            await device.write(OFFSETS["ERRORS"], Error.WRITE)
            await succeed(device)


@cocotb.test()
async def addresses_outside_the_memory_end_in_an_error(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(), 5)
        await load(device, job.head)
        outside = job.changed(IMAGE_ADDR=1 << 62)
        await start(device, outside)
        assert (await finish(device, outside)).status == Status.READ
        await succeed(device)


@cocotb.test()
async def a_memory_that_never_answers_is_seen_by_the_deadline_and_reset_recovers(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(), 5)
        for channel in ("r", "ar", "b", "aw", "w"):
            await load(device, job.head)
            device.port.set_faults(Faults(dead=(channel,)))
            await start(device, job)
            assert not await device.interrupted(5000)
            assert not await device.read(OFFSETS["CONTROL"]) & (Control.DONE | Control.IDLE)
            await device.write(OFFSETS["RESET"], 1)
            await ClockCycles(dut.ap_clk, 200)
            # Open transactions cannot be withdrawn, so the reset waits for the memory.
            assert await device.read(OFFSETS["RESET"]) == 1
            device.port.set_faults(Faults())
            await reset_ends(device)
            await device.write(OFFSETS["ERRORS"], 0xFFFF)
            await succeed(device)


async def reset_ends(device):
    for _ in range(1000):
        if not await device.read(OFFSETS["RESET"]):
            break
    else:
        raise AssertionError("the reset does not end")
    assert await device.read(OFFSETS["CONTROL"]) == Control.IDLE
    assert await device.read(OFFSETS["STATUS"]) == Status.RESET


@cocotb.test()
async def a_soft_reset_with_bursts_open_drains_them_first(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(rows=200), 5)
        for clocks in (1, 3, 8, 20, 60, 200, 700):
            await load(device, job.head)
            await start(device, job)
            await ClockCycles(dut.ap_clk, clocks)
            statistics = device.port.statistics()
            await device.write(OFFSETS["RESET"], 1)
            while await device.read(OFFSETS["RESET"]):
                assert dut.m_axi_gmem0_rready.value == 1
            if clocks == 20:
                assert device.port.statistics().read_beats > statistics.read_beats
            await reset_ends(device)
            assert dut.irq.value == 0
            beats = device.port.statistics().read_beats
            await ClockCycles(dut.ap_clk, 300)
            assert device.port.statistics().read_beats == beats
            await device.write(OFFSETS["ERRORS"], 0xFFFF)
            await succeed(device)


@cocotb.test()
async def stalls_on_every_channel_change_nothing(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(rows=50, dim=100), 8)
        expected = None
        for stalls in (Stalls(), Stalls.everywhere(0.5, 1, 7), Stalls.everywhere(0.1, 80, 8)):
            device.port.set_stalls(stalls)
            result = await run(device, job)
            check(job, result)
            expected = expected or result.records
            assert result.records == expected
            assert device.port.violations() == []


@cocotb.test()
async def every_byte_of_the_image_is_read_once_in_order(dut):
    async with CocotbDevice(dut) as device:
        job = Job(small_head(rows=101, dim=333), 8)
        monitor = Monitor(device)
        check(job, await run(device, job))
        await monitor.counters()
        hidden = len(job.head.hidden_bytes())
        place, read = HIDDEN_ADDRESS, 0
        for address, beats in monitor.bursts:
            if read == hidden:
                place, hidden = IMAGE_ADDRESS, -1
            assert address == place
            assert address // 4096 == (address + beats * CONFIG.bus_bytes - 1) // 4096
            assert beats <= CONFIG.max_burst
            place += beats * CONFIG.bus_bytes
            read += beats * CONFIG.bus_bytes
        assert place == IMAGE_ADDRESS + job.head.layout.bytes


@cocotb.test()
async def rready_is_never_low(dut):
    async with CocotbDevice(dut) as device:
        task = cocotb.start_soon(run(device, Job(small_head(rows=100), 8)))
        while not task.done():
            await RisingEdge(dut.ap_clk)
            assert dut.m_axi_gmem0_rready.value == 1


# Arithmetic.


@cocotb.test()
async def the_longest_row_of_extremes_is_exact(dut):
    async with CocotbDevice(dut) as device:
        shape = (2, 4096)
        head = RandomHead(CONFIG, np.full(shape, -128), np.ones((2, 128), int), np.full(4096, -128))
        result = await run(device, Job(head, 2))
        assert result.records == [(67_108_864, 0), (67_108_864, 1)]
        head = RandomHead(
            CONFIG, np.full(shape, -128), np.full((2, 128), 65535), np.full(4096, -32768)
        )
        head.weights[1] = 127
        job = Job(head, 2)
        check(job, await run(device, job))


@cocotb.test()
async def opposite_weights_cancel(dut):
    async with CocotbDevice(dut) as device:
        head = RandomHead(CONFIG, np.array([[-1, 1]]), np.ones((1, 1), int), np.array([1, 1]))
        assert (await run(device, Job(head, 1))).records == [(0, 0)]


@cocotb.test()
async def a_head_is_not_transposed(dut):
    async with CocotbDevice(dut) as device:
        weights = np.zeros((4, 4), int)
        weights[2, 0], weights[0, 3] = 5, 7
        head = RandomHead(CONFIG, weights, np.ones((4, 1), int), np.array([1, 0, 0, 0]))
        assert (await run(device, Job(head, 1))).records == [(5, 2)]


# The top-k.


async def best_of(device, scores, k, row_scales=None):
    """(score, id) of the k best."""
    return (await run(device, Job(head_of_scores(CONFIG, scores, row_scales), k))).records


@cocotb.test()
async def ties_pick_the_lowest_id(dut):
    async with CocotbDevice(dut) as device:
        assert await best_of(device, [7, 7, 7, 7], 2) == [(7, 0), (7, 1)]
        assert await best_of(device, [7] * 40, 8) == [(7, row) for row in range(8)]


@cocotb.test()
async def fewer_rows_than_k_give_no_filler(dut):
    async with CocotbDevice(dut) as device:
        assert len(await best_of(device, [1, 2, 3], 3)) == 3
        assert await best_of(device, [1, 3, 2], 8) == [(3, 1), (2, 2), (1, 0)]


@cocotb.test()
async def every_order_of_scores_is_sorted(dut):
    async with CocotbDevice(dut) as device:
        assert await best_of(device, [9, 8, 7, 1, 10], 3) == [(10, 4), (9, 0), (8, 1)]
        ascending = list(range(-60, 60))
        best = [(59 - n, 119 - n) for n in range(8)]
        assert await best_of(device, ascending, 8) == best
        assert await best_of(device, ascending[::-1], 8) == [(59 - n, n) for n in range(8)]
        assert await best_of(device, [0] * 77 + [1] + [0] * 9, 2) == [(1, 77), (0, 0)]


@cocotb.test()
async def padding_rows_never_win_and_the_last_tile_keeps_its_rows(dut):
    async with CocotbDevice(dut) as device:
        assert await best_of(device, [-3, -4, -5, -6, -7], 1) == [(-3, 0)]
        assert await best_of(device, [-9, -9, -9, -9, -1], 1) == [(-1, 4)]
        assert len(await best_of(device, [-1] * 5, 8)) == 5


@cocotb.test()
async def row_scales_take_part_in_the_ranking(dut):
    async with CocotbDevice(dut) as device:
        assert await best_of(device, [100, 90], 1, row_scales=[1, 2]) == [(180, 1)]


@cocotb.test()
async def the_winner_is_found_in_every_place_of_every_tile(dut):
    async with CocotbDevice(dut) as device:
        rows = 3 * CONFIG.tile_rows + 1
        for winner in range(rows):
            scores = [-1] * rows
            scores[winner] = 5
            assert await best_of(device, scores, 1) == [(5, winner)]
            scores[rows - 1 - winner] = 5
            assert await best_of(device, scores, 1) == [(5, min(winner, rows - 1 - winner))]


# The host driver, unchanged.


@cocotb.test()
async def the_host_driver_runs_within_a_testbench(dut):
    packed = small_head(rows=30)
    path = Path("head.safetensors")
    image = save_image(path, CONFIG, packed.weights, packed.scales, weight_scale=2.0**-20)
    hidden = np.random.default_rng(3).normal(size=(3, packed.layout.dim))
    async with CocotbDevice(dut) as device:
        head = await device.call(Head, device, image)
        results = await device.call(head.run, hidden, 8)
        assert not len(mismatches(results, *golden_results(image, hidden, 8, CONFIG.hidden_bits)))
        device.port.set_faults(Faults(read_beats=(5,)))
        try:
            await device.call(head.run, hidden, 8)
        except JobError as error:
            assert error.status == Status.READ
        else:
            raise AssertionError("no error")
        device.port.set_faults(Faults(dead=("r",)))
        try:
            await device.call(lambda: head.run(hidden, 8, deadline_cycles=3000))
        except JobTimeout as error:
            assert "call soft_reset() before the next job" in str(error)
        else:
            raise AssertionError("no timeout")
        device.port.set_faults(Faults())
        await device.call(head.soft_reset)
        results = await device.call(head.run, hidden, 8)
        assert not len(mismatches(results, *golden_results(image, hidden, 8, CONFIG.hidden_bits)))
