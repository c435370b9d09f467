"""cocotb tests of known faults of such systems and their right answers; run by test_cases.py."""

from dataclasses import replace

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from hw.register_map import OFFSETS, Control, Error, Flag
from hw.status import Status
from sim.cosim import CocotbDevice, bench
from sim.errors import BusError
from sim.memory.model import Faults, Stalls
from tests.cosim.heads import RandomHead, head_of_scores, random_head
from tests.cosim.jobs import (
    HIDDEN_ADDRESS,
    RESULT_ADDRESS,
    Job,
    check,
    finish,
    load,
    prepare_results,
    run,
    start,
    trailer_words,
    untouched,
)
from tests.cosim.monitor import Monitor

CONFIG = bench().config


def small_job(rows=21, dim=50, k=5, seed=0) -> Job:
    """A job with all vectors and all functions that are built."""
    rng = np.random.default_rng(seed)
    head = random_head(CONFIG, rows, dim, rng, vectors=CONFIG.batch)
    allowed = rng.random((CONFIG.batch, rows)) < 0.8 if CONFIG.mask else None
    return Job(head, k, allowed=allowed, logits=CONFIG.all_logits)


async def succeed(device, seed=99):
    """The next job is right."""
    job = small_job(seed=seed)
    check(device, job, await run(device, job))
    for port in device.ports:
        assert port.violations() == []


def traffic(device):
    """What has passed the ports."""
    return [replace(port.statistics(), cycles=0) for port in device.ports]


async def refused(device, job, status):
    """The job ends with `status`, an interrupt, and nothing on the bus."""
    before = traffic(device)
    prepare_results(device, job)
    monitor = Monitor(device, job)
    await start(device, job)
    assert await device.interrupted(1000)
    await monitor.counters()
    for channel in monitor.channels:
        assert (channel.beats, channel.stream, channel.written) == (0, None, 0)
    assert await device.read(OFFSETS["STATUS"]) == status
    assert await device.read(OFFSETS["ERRORS"]) == 1 << status
    assert traffic(device) == before
    assert untouched(device, job)
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
            CONFIG, rng.integers(-100, 100, (65536, 1)), np.ones((65536, 1), int), np.array([[3]])
        )
        head.weights[65535] = 127
        job = Job(head, 3)
        result = await run(device, job, 4_000_000)
        check(device, job, result)
        assert result.records[0] == (381, 65535)
        assert result.counters["rows"] == 65536


@cocotb.test()
async def sizes_of_zero_or_past_the_hardware_are_refused_without_traffic(dut):
    async with CocotbDevice(dut) as device:
        job = small_job()
        await load(device, job)
        for name, limit, status in (
            ("ROWS", CONFIG.max_rows, Status.ROWS),
            ("DIM", CONFIG.max_dim, Status.DIM),
            ("K", CONFIG.k, Status.K),
            ("VECTORS", CONFIG.batch, Status.VECTORS),
        ):
            for value in (0, limit + 1, 1 << 31):
                await refused(device, job.changed(**{name: value}), status)


@cocotb.test()
async def unaligned_addresses_are_refused_without_traffic(dut):
    async with CocotbDevice(dut) as device:
        job = small_job()
        await load(device, job)
        for name in job.wide_arguments("ADDR"):
            for offset in (1, CONFIG.bus_bytes // 2):
                moved = job.changed(**{name: job.argument(name) + offset})
                await refused(device, moved, Status.ALIGNMENT)


@cocotb.test()
async def an_image_of_another_format_is_refused_without_traffic(dut):
    async with CocotbDevice(dut) as device:
        job = small_job()
        await load(device, job)
        for bit in (0, 17, 31):
            wrong = CONFIG.format_word ^ 1 << bit
            await refused(device, job.changed(IMAGE_FORMAT=wrong), Status.FORMAT)
        await refused(device, job.changed(IMAGE0_BYTES=0), Status.LENGTH)
        for name in job.wide_arguments("BYTES"):
            for size in (job.argument(name) + 1, 1 << 50):
                await refused(device, job.changed(**{name: size}), Status.LENGTH)


@cocotb.test()
async def an_image_of_the_wrong_length_ends_the_job_without_results(dut):
    async with CocotbDevice(dut) as device:
        job = small_job()
        beat = CONFIG.bus_bytes
        for name in job.wide_arguments("BYTES"):
            size = job.argument(name)
            # A channel without tiles has an image of no bytes.
            for wrong in {beat, size - beat, size + beat, 4 * size, 0} - {size, -beat}:
                if wrong == 0 and name == "IMAGE0_BYTES":
                    continue
                result = await run(device, job.changed(**{name: wrong}))
                assert result.status == result.trailer_status == Status.LENGTH, (name, wrong)
                assert untouched(device, job)
                await succeed(device)


@cocotb.test()
async def flags_that_are_not_built_are_refused_without_traffic(dut):
    async with CocotbDevice(dut) as device:
        job = small_job()
        await load(device, job)
        if CONFIG.mask or CONFIG.all_logits:
            built = Flag.MASK * CONFIG.mask | Flag.LOGITS * CONFIG.all_logits
            for bit in (0, 1, 2, 31):
                if not built >> bit & 1:
                    flags = job.argument("FLAGS") | 1 << bit
                    await refused(device, job.changed(FLAGS=flags), Status.FEATURE)
        else:
            try:
                await device.write(OFFSETS["FLAGS"], 0)
            except BusError as error:
                assert "SLVERR" in str(error)
            else:
                raise AssertionError("FLAGS was written")
            await succeed(device)


# Starting.


@cocotb.test()
async def a_polled_done_bit_is_low_until_this_job_ends(dut):
    async with CocotbDevice(dut) as device:
        for seed in range(3):
            job = small_job(seed=seed)
            await load(device, job)
            await start(device, job)
            polls, done = 0, False
            while not done:
                ended = dut.irq.value == 1
                done = bool(await device.read(OFFSETS["CONTROL"]) & Control.DONE)
                assert done or not ended
                polls += 1
            assert polls > 5
            check(device, job, await finish(device, job))
            assert not await device.read(OFFSETS["CONTROL"]) & Control.DONE


@cocotb.test()
async def a_start_while_start_is_set_is_ignored_and_reported(dut):
    async with CocotbDevice(dut) as device:
        jobs = [replace(small_job(rows=150), k=k) for k in (5, 3)]
        jobs = [job.changed(RESULT_ADDR=RESULT_ADDRESS + n * 65536) for n, job in enumerate(jobs)]
        for job in jobs:
            await load(device, job)
        first, second = jobs
        await start(device, first)
        # The slot is busy: this start waits, the next one is one too many.
        await device.write(OFFSETS["K"], 3)
        await device.write(OFFSETS["RESULT_ADDR_LO"], second.registers()["RESULT_ADDR_LO"])
        await device.write(OFFSETS["CONTROL"], Control.START)
        assert await device.read(OFFSETS["ERRORS"]) == 0
        await device.write(OFFSETS["CONTROL"], Control.START)
        assert await device.read(OFFSETS["ERRORS"]) == Error.START
        check(device, first, await finish(device, first))
        result = await finish(device, second)
        check(device, second, result)
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
        job = small_job()
        for number, port in enumerate(device.ports):
            beats = job.read_beats(number)
            for beat in sorted({0, 3, beats // 2, beats - 1} & set(range(beats))):
                for response in (2, 3):
                    port.set_faults(Faults(read_beats=(beat,), read_response=response))
                    result = await run(device, job)
                    assert result.status == result.trailer_status == Status.READ
                    assert untouched(device, job)
                    assert await device.read(OFFSETS["ERRORS"]) == Error.READ
                    await device.write(OFFSETS["ERRORS"], Error.READ)
                    port.set_faults(Faults())
                    await succeed(device)


@cocotb.test()
async def write_errors_end_the_job_with_a_status_and_the_next_is_right(dut):
    async with CocotbDevice(dut) as device:
        job = small_job()
        before = traffic(device)
        check(device, job, await run(device, job))
        trailer = -(-trailer_words(CONFIG) * 8 // (CONFIG.max_burst * CONFIG.bus_bytes))
        for port, old, new in zip(device.ports, before, traffic(device), strict=True):
            bursts = new.write_responses - old.write_responses
            assert bool(bursts) == (port is device.port or CONFIG.all_logits)
            for burst in range(bursts):
                port.set_faults(Faults(write_responses=(burst,)))
                result = await run(device, job)
                assert result.status == Status.WRITE
                if port is not device.port or burst < bursts - trailer:
                    assert result.trailer_status == Status.WRITE
                port.set_faults(Faults())
                await device.write(OFFSETS["ERRORS"], Error.WRITE)
                await succeed(device)


@cocotb.test()
async def addresses_outside_the_memory_end_in_an_error(dut):
    async with CocotbDevice(dut) as device:
        job = small_job()
        for name in job.wide_arguments("ADDR"):
            if name == "RESULT_ADDR":
                continue
            await load(device, job)
            outside = job.changed(**{name: 1 << 62})
            await start(device, outside)
            result = await finish(device, outside)
            expected = Status.WRITE if name.startswith("LOGITS") else Status.READ
            assert result.status == result.trailer_status == expected, name
            await succeed(device)


@cocotb.test()
async def a_memory_that_never_answers_is_seen_by_the_deadline_and_reset_recovers(dut):
    async with CocotbDevice(dut) as device:
        job = small_job()
        ways = [(port, channel) for port in device.ports for channel in ("r", "ar")]
        writers = device.ports if CONFIG.all_logits else [device.port]
        ways += [(port, channel) for port in writers for channel in ("b", "aw", "w")]
        for port, channel in ways:
            await load(device, job)
            port.set_faults(Faults(dead=(channel,)))
            await start(device, job)
            assert not await device.interrupted(5000)
            assert not await device.read(OFFSETS["CONTROL"]) & (Control.DONE | Control.IDLE)
            await device.write(OFFSETS["RESET"], 1)
            await ClockCycles(dut.ap_clk, 200)
            # Open transactions cannot be withdrawn, so the reset waits for the memory.
            assert await device.read(OFFSETS["RESET"]) == 1
            port.set_faults(Faults())
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


def read_beats(device) -> list[int]:
    """Beats that have been read, by channel."""
    return [port.statistics().read_beats for port in device.ports]


def rreadys(dut) -> list[int]:
    pins = (getattr(dut, f"m_axi_gmem{channel}_rready") for channel in range(CONFIG.channels))
    return [int(pin.value) for pin in pins]


@cocotb.test()
async def a_soft_reset_with_bursts_open_drains_them_first(dut):
    async with CocotbDevice(dut) as device:
        job = small_job(rows=200 * CONFIG.channels)
        for clocks in (1, 3, 8, 20, 60, 200, 700, 1500):
            await load(device, job)
            await start(device, job)
            await ClockCycles(dut.ap_clk, clocks)
            before = read_beats(device)
            await device.write(OFFSETS["RESET"], 1)
            while await device.read(OFFSETS["RESET"]):
                assert all(rreadys(dut))
            if clocks == 20:
                assert read_beats(device)[0] > before[0]
            await reset_ends(device)
            assert dut.irq.value == 0
            beats = read_beats(device)
            await ClockCycles(dut.ap_clk, 300)
            assert read_beats(device) == beats
            await device.write(OFFSETS["ERRORS"], 0xFFFF)
            await succeed(device)


@cocotb.test()
async def stalls_on_every_channel_change_nothing(dut):
    async with CocotbDevice(dut) as device:
        job = small_job(rows=50, dim=100, k=8)
        expected = None
        for stalls in (Stalls(), Stalls.everywhere(0.5, 1, 7), Stalls.everywhere(0.1, 80, 8)):
            for number, port in enumerate(device.ports):
                port.set_stalls(stalls.of_port(number))
            result = await run(device, job)
            check(device, job, result)
            expected = expected or result.vectors
            assert result.vectors == expected
            for port in device.ports:
                assert port.violations() == []


@cocotb.test()
async def every_byte_of_the_image_is_read_once_in_order(dut):
    async with CocotbDevice(dut) as device:
        job = small_job(rows=101, dim=333, k=8)
        monitor = Monitor(device, job)
        check(device, job, await run(device, job))
        await monitor.counters()
        for number, channel in enumerate(monitor.channels):
            image = job.argument(f"IMAGE{number}_ADDR")
            wanted = [range(image, image + job.head.layout.channel_bytes(number))]
            if number == 0:
                size = len(job.head.hidden_bytes())
                wanted.insert(0, range(HIDDEN_ADDRESS, HIDDEN_ADDRESS + size))
            wanted = [list(part[:: CONFIG.bus_bytes]) for part in (*wanted, channel.mask)]
            read = {False: [], True: []}
            for address, beats in channel.bursts:
                end = address + beats * CONFIG.bus_bytes
                assert address // 4096 == (end - 1) // 4096
                assert beats <= CONFIG.max_burst
                read[address in channel.mask] += range(address, end, CONFIG.bus_bytes)
            assert read[True] == wanted.pop()
            assert read[False] == sum(wanted, [])


@cocotb.test()
async def rready_is_never_low(dut):
    async with CocotbDevice(dut) as device:
        task = cocotb.start_soon(run(device, small_job(rows=100, k=8)))
        while not task.done():
            await RisingEdge(dut.ap_clk)
            assert all(rreadys(dut))


# Arithmetic.


@cocotb.test()
async def the_longest_row_of_extremes_is_exact(dut):
    async with CocotbDevice(dut) as device:
        weights, ones = np.full((2, 4096), -128), np.ones((2, 128), int)
        head = RandomHead(CONFIG, weights, ones, np.full((1, 4096), -128))
        result = await run(device, Job(head, 2))
        assert result.records == [(67_108_864, 0), (67_108_864, 1)]
        weights[1] = 127
        job = Job(RandomHead(CONFIG, weights, 65535 * ones, np.full((1, 4096), -32768)), 2)
        check(device, job, await run(device, job))


@cocotb.test()
async def opposite_weights_cancel(dut):
    async with CocotbDevice(dut) as device:
        head = RandomHead(CONFIG, np.array([[-1, 1]]), np.ones((1, 1), int), np.array([[1, 1]]))
        assert (await run(device, Job(head, 1))).records == [(0, 0)]


@cocotb.test()
async def a_head_is_not_transposed(dut):
    async with CocotbDevice(dut) as device:
        weights = np.zeros((4, 4), int)
        weights[2, 0], weights[0, 3] = 5, 7
        head = RandomHead(CONFIG, weights, np.ones((4, 1), int), np.array([[1, 0, 0, 0]]))
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
