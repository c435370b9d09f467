"""Values of a sweep as options give them, and the points that they make."""

import argparse
import shlex
from fractions import Fraction

import numpy as np
import pytest

from host.command_line import build_parser
from host.errors import UsageError
from host.explore.head import SweptHead
from host.explore.point import label
from host.explore.space import Space
from host.explore.values import clocks_mhz, integers, memories, parameter_values, weight_widths
from host.image import save_image
from host.options.hardware import PARAMETERS, hardware_config
from hw.config import HeadConfig

HEAD = SweptHead.named("512x96")
BY_FIELD = {parameter.field: parameter_values(parameter) for parameter in PARAMETERS}


@pytest.mark.parametrize(
    "read, text, values",
    [
        (integers, "16,32,64", (16, 32, 64)),
        (integers, "16..128", (16, 32, 64, 128)),
        (integers, "3,1..4,2", (3, 1, 2, 4)),
        (weight_widths, "int4,8", (4, 8)),
        (memories, "ideal,ddr4-2400-x64", ("ideal", "ddr4-2400-x64")),
        (clocks_mhz, "250,1000/3", (Fraction(250), Fraction(1000, 3))),
        (BY_FIELD["group"], "row,32", (0, 32)),
        (BY_FIELD["job_queue"], "no,yes", (False, True)),
        (BY_FIELD["bus_bits"], "64..512", (64, 128, 256, 512)),
    ],
)
def test_lists_and_ranges_of_powers_of_two_are_values(read, text, values):
    assert read(text) == values


@pytest.mark.parametrize(
    "read, text, message",
    [
        (integers, "16..100", "from one power of two up to another"),
        (integers, "64..16", "from one power of two up to another"),
        (integers, "16,,32", "got nothing"),
        (integers, "many", "must be integers between commas"),
        (memories, "sram", "must be of ideal, .*, got sram"),
        (clocks_mhz, "-5", "must be a number from 0.001"),
        (BY_FIELD["group"], "48", "must be of 32, 64, 128, row, got 48"),
        (BY_FIELD["job_queue"], "true", "must be of no, yes"),
        (BY_FIELD["bus_bits"], "1024", "must be of 64, 128, 256, 512, got 1024"),
    ],
)
def test_what_is_no_value_is_told(read, text, message):
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        read(text)


def test_all_combinations_are_points():
    space = Space(HEAD, {"bus_bits": (64, 128), "tile_rows": (16, 32), "batch": (1, 2, 4)})
    found = space.points()
    assert len(found.points) == space.combinations == 12
    assert not found.invalid and not found.repeated
    configs = [point.config for point in found.points]
    assert len(set(configs)) == 12
    assert all(config.max_dim == 96 and config.max_rows == 512 for config in configs)
    assert [settings["batch"] for settings in found.settings] == [1, 2, 4] * 4


def test_lanes_choose_the_fold():
    space = Space(HEAD, {"lanes": (4, 8, 16), "bus_bits": (64, 128), "weight_bits": (4, 8)})
    found = space.points()
    for point, settings in zip(found.points, found.settings, strict=True):
        assert point.config.lanes == settings["lanes"]
    assert len(found.points) == 3 * 4 - sum(found.invalid.values())
    assert found.invalid == {
        "16 lanes cannot be had with 64 bits of int8 a beat, which take 8, 4, 2, 1": 1
    }


def test_lanes_that_no_fold_gives_are_told_as_lanes():
    found = Space(HEAD, {"lanes": (0, 1, 3), "bus_bits": (128,)}).points()
    assert list(found.invalid) == [
        f"{lanes} lanes cannot be had with 128 bits of int8 a beat, which take 16, 8, 4, 2"
        for lanes in (0, 1, 3)
    ]


def test_invalid_combinations_are_counted_by_reason():
    space = Space(HEAD, {"tile_rows": (1, 64), "width": (4, 48), "bus_bits": (64,)})
    assert space.points().invalid == {
        "width must be a power of two in 1..8, got 48": 2,
        "tile_rows must be a multiple of units (2) in 2..32768, got 1": 1,
    }


def test_the_same_hardware_is_one_point():
    values = {"bus_bits": (64,), "width": (8, 4), "group": (32, 64), "hidden_bits": (16,)}
    assert len(Space(HEAD, values).points().points) == 4
    found = Space(HEAD, {"clock_mhz": (Fraction(250), Fraction(300), 250)}).points()
    assert len(found.points) == 2 and found.repeated == 1


def test_the_read_buffer_is_that_of_memory_and_clock():
    space = Space(HEAD, {"memory": ("ideal", "ddr4-2400-x64"), "clock_mhz": (50, 300)})
    found = {
        (settings["memory"], settings["clock_mhz"]): point.config.outstanding_bytes
        for point, settings in zip(space.points().points, space.points().settings, strict=True)
    }
    assert found["ddr4-2400-x64", 50] < found["ddr4-2400-x64", 300] < found["ideal", 300]


@pytest.mark.parametrize(
    "values, message",
    [
        ({"lanes": (8,), "fold": (2,)}, "--lanes: follow from --fold"),
        ({"max_dim": (64, 128)}, "--max-dim: must be at least 96"),
        ({"max_rows": (100,)}, "--max-rows: must be at least 512"),
        ({"k": tuple(range(1, 400)), "batch": tuple(range(1, 400))}, "159,201 combinations"),
    ],
)
def test_values_that_contradict_each_other_are_told(values, message):
    with pytest.raises(UsageError, match=message):
        Space(HEAD, values)


def test_an_image_decides_its_format(tmp_path):
    config = HeadConfig(bus_bits=64, max_dim=96, max_rows=100)
    rng = np.random.default_rng(1)
    path = tmp_path / "head.safetensors"
    scales = rng.integers(0, 9, (100, config.groups(96)))
    save_image(path, config, rng.integers(-9, 9, (100, 96)), scales)
    head = SweptHead.named(str(path))
    (point,) = Space(head, {"k": (4,)}).points().points
    assert point.config.image_fields() == config.image_fields()
    with pytest.raises(UsageError, match="--bus-bits: bus_bits is 128, but .* with bus_bits 64"):
        Space(head, {"bus_bits": (64, 128)})


@pytest.mark.parametrize("text", ["0x5", "5x0", "5x70000", "3000000000x64"])
def test_a_size_out_of_range_is_told(text):
    with pytest.raises(UsageError, match="HEAD: must be at most"):
        SweptHead.named(text)


def test_the_command_of_a_point_makes_its_hardware():
    values = {
        "bus_bits": (64, 256),
        "weight_bits": (4, 8),
        "group": (0, 32),
        "batch": (1, 3),
        "mask": (False, True),
        "job_queue": (True,),
        "memory": ("ddr3-1600-x16",),
        "lanes": (8,),
        "k": (5,),
    }
    points = Space(HEAD, values).points().points
    assert len(points) >= 16
    for point in points:
        command = shlex.split(point.generate_command("out"))
        arguments = build_parser().parse_args(command[1:])
        assert hardware_config(arguments) == point.config
        assert "--scale-bits" not in command  # the default


def test_a_point_has_words():
    settings = {"lanes": 8, "weight_bits": 4, "group": 0, "mask": True, "clock_mhz": Fraction(250)}
    assert label(settings) == "8 lanes, int4, group row, mask yes, 250 MHz"


def test_pairs_that_the_family_cannot_multiply_are_no_points():
    values = {"bus_bits": (64,), "weight_bits": (4,), "dsp_pairs": (True,), "fold": (1,)}
    values |= {"width": (8,), "hidden_bits": (8, 16)}
    assert len(Space(HEAD, values).points().points) == 2
    found = Space(HEAD, values, family="ecp5").points()
    assert [point.config.hidden_bits for point in found.points] == [8]
    (reason,) = found.invalid
    assert "on ecp5: two products take a multiplier with a port of 25 bits" in reason


def test_estimating_says_how_far_it_is():
    told = []
    values = {"bus_bits": (64,), "tile_rows": (8, 9, 16), "k": (4, 8)}
    Space(HEAD, values).points(lambda *progress: told.append(progress))
    assert told == [("estimating", done, 6) for done in range(6)]
