"""The cocotb harness: it runs testbenches, and their failures fail."""

import pytest

from sim import cosim
from sim.memory import MemoryModel, Stall, Stalls
from tests.cosim import copier

MODULE = "tests.cosim.bench_harness"


def run(tmp_path, *tests, bus_bits=512, channels=1, **options):
    cosim.run(
        MODULE,
        copier.config(bus_bits, channels),
        tmp_path,
        tests=tests,
        verilog=copier.verilog(bus_bits, channels),
        **options,
    )


def test_devices_in_a_testbench(tmp_path):
    run(
        tmp_path,
        "the_host_side_runs_unchanged",
        "a_second_device_starts_afresh",
        "registers_behave_as_in_process",
        "a_wait_has_a_deadline",
    )


@pytest.mark.parametrize("channels", [1, 2, 8])
def test_channels_in_a_testbench(tmp_path, channels):
    run(
        tmp_path,
        "every_channel_is_watched",
        bus_bits=64,
        channels=channels,
        memory=MemoryModel(stalls=Stalls.everywhere(0.3, 3, 1)),
    )


@pytest.mark.parametrize("latency", [1, 33])
def test_the_latency_seen_on_the_pins(tmp_path, latency):
    run(
        tmp_path,
        "the_first_beat_comes_after_the_latency",
        memory=MemoryModel(latency_cycles=latency),
    )


@pytest.mark.parametrize("order", ["any", "address_first", "data_first"])
def test_the_order_of_write_address_and_data_on_the_pins(tmp_path, order):
    # Stalls long enough for either to overtake the other.
    stalls = Stalls(aw=Stall(0.2, 40, 1), w=Stall(0.05, 60, 2))
    run(
        tmp_path,
        "writes_keep_the_order_of_the_model",
        memory=MemoryModel(write_order=order, stalls=stalls),
    )


def test_both_simulations_take_the_same_cycles(tmp_path):
    model = MemoryModel(stalls=Stalls.everywhere(0.2, 7, 5))
    with copier.make_device(model) as device:
        copier.start(device, 500)
        before = device.cycles
        device.wait_interrupt(10_000)
        cycles = device.cycles - before
    run(tmp_path, "cycles_agree_with_the_process", memory=model, parameters={"cycles": cycles})


def test_a_testbench_can_have_all_pins(tmp_path):
    run(tmp_path, "pins_alone", connect_memory=False, bus_bits=64)


def test_a_failing_cocotb_test_fails(tmp_path):
    with pytest.raises(AssertionError, match="(?s)fails: .*on purpose"):
        run(tmp_path, "fails", "a_wait_has_a_deadline")


def test_a_name_that_matches_no_cocotb_test_fails(tmp_path):
    with pytest.raises(AssertionError, match="no cocotb test was run|cocotb failed"):
        run(tmp_path, "no_such_test")


def test_a_simulator_that_dies_fails(tmp_path):
    with pytest.raises(AssertionError, match="without results|cocotb failed"):
        run(tmp_path, "dies")
