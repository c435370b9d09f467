"""cocotb tests of the harness itself, with the copying DMA; run by test_harness.py."""

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, Timer

from sim.cosim import CocotbDevice
from sim.errors import BusError
from tests.cosim import copier


@cocotb.test()
async def the_host_side_runs_unchanged(dut):
    async with CocotbDevice(dut) as device:
        await device.call(copier.copy, device)
        assert device.port.violations() == []
        assert device.port.statistics().read_beats == 200


@cocotb.test()
async def a_second_device_starts_afresh(dut):
    async with CocotbDevice(dut) as device:
        assert not device.read_memory(copier.TARGET_ADDRESS, 64).any()
        await device.call(copier.copy, device)
        assert device.port.statistics().read_beats == 200


@cocotb.test()
async def registers_behave_as_in_process(dut):
    async with CocotbDevice(dut) as device:
        await device.write(copier.BEATS, 0x11223344)
        await device.write(copier.BEATS, 0xAABBCCDD, strobe=0b0101)
        assert await device.read(copier.BEATS) == 0x11BB33DD
        for access in (device.read(copier.UNMAPPED), device.write(copier.UNMAPPED, 0)):
            try:
                await access
            except BusError as error:
                assert "register 0x100 was answered with SLVERR" in str(error)
            else:
                raise AssertionError("no error")


@cocotb.test()
async def a_wait_has_a_deadline(dut):
    async with CocotbDevice(dut) as device:
        try:
            await device.call(device.wait_interrupt, 500)
        except TimeoutError as error:
            assert "no interrupt within 500 cycles (control 0x0" in str(error)
        else:
            raise AssertionError("no timeout")
        assert device.cycles >= 500


@cocotb.test()
async def the_first_beat_comes_after_the_latency(dut):
    async with CocotbDevice(dut) as device:
        job = cocotb.start_soon(device.call(copier.copy, device))
        cycle, asked, first, beats = 0, None, None, 0
        last = []
        while not job.done():
            await RisingEdge(dut.ap_clk)
            cycle += 1
            if (
                asked is None
                and dut.m_axi_gmem0_arvalid.value == 1 == dut.m_axi_gmem0_arready.value
            ):
                asked = cycle
            if first is None and dut.m_axi_gmem0_rvalid.value == 1:
                first = cycle
            if dut.stream_valid.value == 1 == dut.stream_ready.value:
                if dut.m_axi_gmem0_rlast.value == 1:
                    last.append(beats)
                beats += 1
        assert first - asked == device.bench.memory.latency_cycles
        assert beats == 200
        assert last == [*range(15, 192, 16), 199]


@cocotb.test()
async def writes_keep_the_order_of_the_model(dut):
    async with CocotbDevice(dut) as device:
        job = cocotb.start_soon(device.call(copier.copy, device))
        addresses, beats, ahead = 0, 0, set()
        while not job.done():
            await RisingEdge(dut.ap_clk)
            address = dut.m_axi_gmem0_awvalid.value == 1 == dut.m_axi_gmem0_awready.value
            data = dut.m_axi_gmem0_wvalid.value == 1 == dut.m_axi_gmem0_wready.value
            if address:
                ahead.add("data" if beats >= 16 * (addresses + 1) else "address")
            if data and beats >= 16 * addresses:
                ahead.add("data")
            addresses += address
            beats += data
        assert (addresses, beats) == (4, 64)
        expected = {"address_first": {"address"}, "data_first": {"data"}}
        order = device.bench.memory.write_order
        assert ahead == expected.get(order, {"address", "data"}), ahead


@cocotb.test()
async def every_channel_is_watched(dut):
    async with CocotbDevice(dut) as device:
        channels = device.config.channels
        names = ("arvalid", "arready", "rvalid", "rready", "wvalid", "wready")
        job = cocotb.start_soon(device.call(copier.copy, device))
        beats = [0] * channels
        while not job.done():
            await RisingEdge(dut.ap_clk)
            watched = int(dut.watched.value)
            assert watched & 1 == int(dut.irq.value)
            for number in range(channels):
                bits = watched >> 3 + 8 * number & 0xFF
                pins = [int(getattr(dut, f"m_axi_gmem{number}_{name}").value) for name in names]
                assert bits == sum(
                    pin << bit for bit, pin in enumerate([*pins, pins[2], pins[3]])
                ), number
                beats[number] += bits & 0b1100 == 0b1100
        assert beats == [200] * channels
        assert [port.statistics().read_beats for port in device.ports] == beats


@cocotb.test()
async def cycles_agree_with_the_process(dut):
    async with CocotbDevice(dut) as device:
        await device.call(copier.start, device, 500)
        cycles = 0
        while dut.irq.value == 0:
            await RisingEdge(dut.ap_clk)
            cycles += 1
        expected = device.bench.parameters["cycles"]
        assert abs(cycles - expected) <= 1, (cycles, expected)


@cocotb.test()
async def pins_alone(dut):
    """Without the DRAM model all pins belong to the testbench."""
    for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
        getattr(dut, f"s_axi_control_{name}").value = 0
    dut.m_axi_gmem0_arready.value = 1
    dut.m_axi_gmem0_rvalid.value = 0
    Clock(dut.ap_clk, 4, unit="ns").start()
    dut.ap_rst_n.value = 0
    await ClockCycles(dut.ap_clk, 5)
    dut.ap_rst_n.value = 1
    for name, value in (("awaddr", copier.BEATS), ("wdata", 16), ("wstrb", 15)):
        getattr(dut, f"s_axi_control_{name}").value = value
    dut.s_axi_control_bready.value = 1
    for offset, value in ((copier.BEATS, 16), (copier.CONTROL, 1)):
        dut.s_axi_control_awaddr.value = offset
        dut.s_axi_control_wdata.value = value
        dut.s_axi_control_awvalid.value = dut.s_axi_control_wvalid.value = 1
        await RisingEdge(dut.ap_clk)
        dut.s_axi_control_awvalid.value = dut.s_axi_control_wvalid.value = 0
        await ClockCycles(dut.ap_clk, 2)
    for _ in range(10):
        if dut.m_axi_gmem0_arvalid.value == 1:
            break
        await RisingEdge(dut.ap_clk)
    assert dut.m_axi_gmem0_arlen.value == 15


@cocotb.test()
async def fails(dut):
    await Timer(1, unit="ns")
    raise AssertionError("on purpose")


@cocotb.test()
async def dies(dut):
    async with CocotbDevice(dut) as device:
        dut.memory_port.value = 8  # no port
        await ClockCycles(dut.ap_clk, 5)
        device.close()
