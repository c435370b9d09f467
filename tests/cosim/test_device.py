"""The in-process simulator as a device."""

import numpy as np
import pytest

from sim.device import SimDevice, measure_speed
from sim.errors import BusError
from sim.memory import Faults, MemoryModel, Stall, Stalls
from tests.cosim import copier


@pytest.fixture
def device():
    with copier.make_device() as device:
        yield device


def test_registers_are_read_and_written(device):
    device.write_register(copier.BEATS, 0x12345678)
    device.write_register(copier.BURST, 0xFFFFFFFF)
    assert device.read_register(copier.BEATS) == 0x12345678
    assert device.read_register(copier.BURST) == 0xFFFFFFFF


def test_byte_strobes_write_part_of_a_register(device):
    device.write_register(copier.BEATS, 0x11223344)
    device.write_register(copier.BEATS, 0xAABBCCDD, strobe=0b0101)
    assert device.read_register(copier.BEATS) == 0x11BB33DD


def test_register_errors_name_the_register(device):
    with pytest.raises(BusError, match="the read of register 0x100 was answered with SLVERR"):
        device.read_register(copier.UNMAPPED)
    with pytest.raises(BusError, match="the write of register 0x100 was answered with SLVERR"):
        device.write_register(copier.UNMAPPED, 1)
    device.write_register(copier.BEATS, 5)
    assert device.read_register(copier.BEATS) == 5


def test_a_register_access_without_answer_ends():
    silent = (
        copier.verilog(64)
        .replace(
            "assign s_axi_control_bvalid = write_response_valid;",
            "assign s_axi_control_bvalid = 0;",
        )
        .replace("s_axi_control_rvalid <= 1;", "s_axi_control_rvalid <= 0;")
    )
    with SimDevice(copier.config(64), verilog=silent) as device:
        with pytest.raises(BusError, match="the read of register 0x014 was not answered"):
            device.read_register(copier.BEATS)
        device.reset()
        with pytest.raises(BusError, match="the write of register 0x014 was not answered"):
            device.write_register(copier.BEATS, 1)


def test_register_accesses_take_cycles(device):
    before = device.cycles
    device.read_register(copier.BEATS)
    assert 2 <= device.cycles - before <= 4


def test_run_simulates_the_cycles_asked_for(device):
    before = device.cycles
    device.run(12345)
    assert device.cycles - before == 12345


def test_a_wait_ends_in_the_cycle_of_the_interrupt(device):
    copier.start(device, 100)
    device.wait_interrupt(10_000)
    before = device.cycles
    assert device.interrupt
    device.wait_interrupt(10_000)
    assert device.cycles == before


def test_a_wait_without_interrupt_ends_and_shows_the_status_registers(device):
    before = device.cycles
    with pytest.raises(TimeoutError) as caught:
        device.wait_interrupt(777)
    assert "no interrupt within 777 cycles (control 0x0, status 0x" in str(caught.value)
    assert device.cycles - before >= 777


def test_a_reset_stops_a_job_and_the_next_one_works(device):
    device.port.set_faults(Faults(dead=("r",)))
    copier.start(device, 1000)
    device.run(100)
    assert device.read_register(copier.CONTROL) == 1
    device.port.set_faults(Faults())
    device.reset()
    assert device.read_register(copier.CONTROL) == 0
    copier.copy(device)


def test_a_mapped_buffer_is_read_by_the_accelerator_without_a_copy(device):
    data = copier.random_bytes(1 << 20)
    device.map_memory(copier.SOURCE_ADDRESS, data)
    assert device.memory.owned_pages <= 2
    copier.start(device, data.size // 64)
    device.wait_interrupt(100_000)
    assert device.read_register(copier.SUM) == copier.checksum(data)
    np.testing.assert_array_equal(device.read_memory(copier.TARGET_ADDRESS, 4096), data[-4096:])


def test_devices_in_one_process_are_independent():
    with (
        copier.make_device(MemoryModel(latency_cycles=20)) as wide,
        copier.make_device(MemoryModel(latency_cycles=70)) as slow,
        copier.make_device(bus_bits=64) as narrow,
    ):
        data = {
            device: copier.random_bytes(6400, seed)
            for seed, device in enumerate((wide, slow, narrow))
        }
        for device, content in data.items():
            device.write_memory(copier.SOURCE_ADDRESS, content)
            copier.start(device, content.size // device.config.bus_bytes)
        for device in (narrow, slow, wide):
            device.run(30)
        for device, content in data.items():
            device.wait_interrupt(10_000)
            assert device.read_register(copier.SUM) == copier.checksum(content)
        assert slow.cycles - wide.cycles == 50


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("channels", [2, 4, 8])
def test_channels_share_one_memory(channels, read_only):
    with copier.make_device(bus_bits=64, channels=channels, read_only=read_only) as device:
        copier.copy(device, read_only=read_only)
        assert len(device.ports) == channels
        for number, port in enumerate(device.ports):
            statistics = port.statistics()
            assert statistics.read_beats == 200
            assert statistics.write_beats == (0 if read_only and number else 64)
            assert port.violations() == []
        # What one channel wrote another one reads.
        if not read_only:
            copier.start(device, 64, source=copier.TARGET_ADDRESS + copier.STEP, target=1 << 30)
            device.wait_interrupt(10_000)
            written = device.read_memory(copier.TARGET_ADDRESS + copier.STEP, 64 * 8)
            np.testing.assert_array_equal(device.read_memory(1 << 30, 64 * 8), written)


def test_faults_and_violations_belong_to_a_port():
    with copier.make_device(bus_bits=64, channels=4) as device:
        device.ports[2].set_faults(Faults(read_beats=(5, 6)))
        copier.copy(device)
        errors = [
            device.read_register(n * copier.SPACING + copier.ERROR_BEATS)
            for n in range(device.config.channels)
        ]
        assert errors == [0, 0, 2, 0]
        device.ports[3].set_stalls(Stalls(ar=Stall(0.7, 4, 1)))
        copier.start(device, 200, sins=("withdraw",))
        device.wait_interrupt(20_000)
        violations = [bool(port.violations()) for port in device.ports]
        assert violations == [False, False, False, True]


def test_a_dead_port_stops_its_channel_alone():
    with copier.make_device(bus_bits=64, channels=2) as device:
        device.ports[1].set_faults(Faults(dead=("r",)))
        with pytest.raises(TimeoutError):
            copier.copy(device, limit=3000)
        assert [port.statistics().read_beats for port in device.ports] == [200, 0]
        device.ports[1].set_faults(Faults())
        device.wait_interrupt(3000)


def test_every_port_stalls_at_times_of_its_own():
    model = MemoryModel(stalls=Stalls.everywhere(0.3, 5, seed=3))

    def cycles(channels):
        """Cycles until the first and until the last channel has read everything."""
        with copier.make_device(model, bus_bits=64, channels=channels) as device:
            copier.start(device, 300)
            ends = {}
            while len(ends) < channels:
                device.run(1)
                for number, port in enumerate(device.ports):
                    if port.statistics().read_beats == 300:
                        ends.setdefault(number, device.cycles)
        return [ends[number] for number in range(channels)]

    several = cycles(4)
    assert len(set(several)) == 4
    assert cycles(1) == several[:1]


def test_the_same_run_takes_the_same_cycles():
    def cycles():
        with copier.make_device() as device:
            copier.copy(device)
            return device.cycles

    assert cycles() == cycles()


def test_constant_memory_keeps_the_accelerator_busy_without_the_model():
    with copier.make_device(constant_memory=True) as device:
        copier.start(device, 1000)
        before = device.cycles
        device.wait_interrupt(2000)
        # Every cycle brings a beat, after a few for the first address and the writes.
        assert 1000 <= device.cycles - before < 1000 + 100
        assert device.port.statistics().cycles == 0


def test_speed_is_measured_over_the_cycles_asked_for(device):
    before = device.cycles
    assert measure_speed(device, 1000) > 0
    assert device.cycles - before == 1000


def test_closing_twice_is_harmless():
    device = copier.make_device()
    device.close()
    device.close()
    for use in (
        lambda: device.read_memory(0, 1),
        lambda: device.read_register(copier.BEATS),
        lambda: device.run(1),
        lambda: device.port.statistics(),
    ):
        with pytest.raises(ValueError, match="closed"):
            use()
