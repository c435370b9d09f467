"""`unembed suggest`: the best configuration for a board, its reasons and its errors."""

import json
import shlex
from fractions import Fraction

import pytest

from host.boards.board import board
from host.command_line import build_parser
from host.errors import UserError
from host.explore.board_memory import board_device, board_memory
from host.explore.head import SweptHead
from host.explore.measure import Simulated, SimulationTask
from host.explore.suggest import RESOURCES, suggest
from sim.build import no_progress
from sim.memory import DEVICES

from .command_line import assert_one_line, without_progress

SMALL = ("suggest", "2000x96", "-k", "8", "--no-simulate")
ECPIX5 = (*SMALL, "--board", "ecpix5")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path / "cache"))


def report(run, *arguments):
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_the_best_configuration_fits_and_has_reasons(run):
    found = report(run, *ECPIX5)
    config, used, available = found["config"], found["used"], found["available"]
    assert config["bus_bits"] in board("ecpix5").memory.port_bits
    assert config["k"] == 8 and config["max_dim"] == 96 and config["max_rows"] == 2000
    assert all(used[name] <= available[name] for name in ("lut", "dsp", "ram", "ports"))
    assert found["estimate"]["bound_by"] == "dram"
    more, speed = found["tokens_per_s_with_twice"], found["estimate"]["tokens_per_s"]
    assert set(more) == set(RESOURCES)
    assert more["memories"] > 1.5 * speed
    assert more["dsp"] == speed


def test_equally_fast_configurations_yield_to_the_smallest(run):
    # The memory gives half of what the bus carries, so half the multipliers do.
    assert report(run, *ECPIX5)["config"]["fold"] == 2


def test_more_states_and_narrower_weights_are_chosen_where_they_may(run):
    one = report(run, *ECPIX5)
    many = report(run, *ECPIX5, "--batch", "1..4", "--weights", "int4,int8")
    assert (many["config"]["batch"], many["config"]["weight_bits"]) == (4, 4)
    assert many["estimate"]["tokens_per_s"] > 4 * one["estimate"]["tokens_per_s"]


def test_pairs_that_the_fpga_cannot_multiply_are_not_suggested():
    values = {"weight_bits": (4,), "hidden_bits": (16,), "dsp_pairs": (True,), "width": (16,)}
    with pytest.raises(UserError, match="dsp_pairs must be off .* on ecp5"):
        suggest(board("ecpix5"), SweptHead.named("99x64"), values, Fraction(10**8), no_progress)


def test_people_get_a_table_and_the_command(run):
    code, out, err = run(*ECPIX5, "--clock-mhz", "60")
    assert code == 0, err
    assert out.startswith("LambdaConcept ECPIX-5 85F: ")
    assert "60 MHz" in out and "bound by dram" in out and "would help: more states" in out
    for title in RESOURCES.values():
        assert f"\n{title} " in out
    command = out.splitlines()[-1]
    parsed = build_parser().parse_args(shlex.split(command)[1:])
    assert parsed.board == "ecpix5" and parsed.hardware_k == 8
    assert parsed.clock_mhz == 60


def test_a_simulation_verifies_it(run, monkeypatch):
    def simulated(mismatches):
        figures = Simulated(1000, 1, 900, 0, 0, 99, 5, 6, 7, compared=8, mismatches=mismatches)
        monkeypatch.setattr(SimulationTask, "compute", lambda task: figures)
        monkeypatch.setattr(SimulationTask, "entry", f"simulated-{mismatches}")

    arguments = [argument for argument in ECPIX5 if argument != "--no-simulate"]
    simulated(0)
    code, out, _ = run(*arguments)
    assert code == 0
    assert "8 results compared with the golden model's, 0 mismatches" in out
    simulated(3)
    code, _, err = run(*arguments)
    assert code == 1
    assert "3 results are unlike the golden model's" in err


def test_the_memory_of_a_board_has_its_rate():
    for name in ("kv260", "ecpix5", "ulx3s"):
        memory = board(name).memory
        assert board_device(board(name)).peak_bytes_per_s == pytest.approx(
            memory.peak_bytes_per_s, rel=0.01
        )
    assert board_device(board("kv260")) == DEVICES["ddr4-2400-x64"]
    slow, usual = board_device(board("ecpix5")), DEVICES["ddr3-1600-x16"]
    # Refresh takes the same time as in the device that it is like.
    for name in ("trefi", "trfc"):
        time, expected = (
            Fraction(getattr(device, name), device.clock_hz) for device in (slow, usual)
        )
        assert float(time) == pytest.approx(float(expected), rel=0.05)
    assert board_memory(board("kv260"), 2).dram.count == 2


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (("suggest", "5x5"), ("--board",)),
        (("suggest", "5x5", "--board", "generic"), ("--board", "generic")),
        (("suggest", "9000000x4096", "--board", "ulx3s"), ("--board ulx3s", "too little memory")),
        (("suggest", "5x5", "--board", "ulx3s", "-k", "0"), ("-k: must be in 1..256", "found 0")),
    ],
)
def test_what_cannot_be_suggested_is_told_in_a_line(run, arguments, parts):
    code, _, err = run(*arguments)
    assert code in (1, 2)
    assert_one_line(without_progress(err), *parts)


def test_an_image_must_fit_the_ports_of_the_board(run, files):
    code, _, err = run("suggest", files / "head.safetensors", "--board", "ecpix5")
    assert code == 1
    assert_one_line(without_progress(err), "the memory ports have 128 bits, not 64")
    code, _, err = run("suggest", files / "head.safetensors", "--board", "ecpix5", "--weights", "4")
    assert code == 2
    assert_one_line(without_progress(err), "--weights: are those of", "give the model instead")
