"""`unembed estimate`: what it says of heads, memories and hardware, and its errors."""

import json
from dataclasses import replace

import numpy as np
import pytest

from host.cli import main
from host.image import save_image
from hw.config import HeadConfig
from sim.estimate import PaperConfig, estimate
from sim.memory import DEVICES, DramTiming, MemoryModel

SMOLLM2 = ("--vocab", "49152", "--dim", "576")
MANY = ("--vocab", "20000", "--dim", "64", "--batch", "16")
SMALL = HeadConfig(bus_bits=128, max_dim=256, max_rows=4096, k=16)


def report(capsys, *arguments: str) -> dict:
    assert main(["estimate", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_head_is_estimated_from_its_size_alone(capsys):
    found = report(capsys, *SMOLLM2)
    assert found["bound_by"] == "bus"
    assert found["cycles"] == 470_621
    assert found["tokens_per_s"] == pytest.approx(250e6 / 470_621)
    parts = ("start", "data", "waiting", "refused", "tail")
    assert sum(found[part] for part in parts) == found["cycles"]


def test_an_image_brings_its_size_and_format(tmp_path, capsys):
    rng = np.random.default_rng(1)
    path = tmp_path / "head.safetensors"
    scales = rng.integers(0, 255, (500, SMALL.groups(96)))
    save_image(path, SMALL, rng.integers(-128, 128, (500, 96)), scales)
    from_image = report(capsys, str(path), "-k", "8")
    from_size = report(capsys, "--vocab", "500", "--dim", "96", "-k", "8", "--bus-bits", "128")
    assert from_image["cycles"] == from_size["cycles"]


def test_heads_that_hardware_cannot_have_are_estimated(capsys):
    size = ("--vocab", "262144", "--dim", "5376")
    one = report(capsys, *size, "--batch", "64", "--channels", "32")
    four = report(capsys, *size, "--batch", "64", "--channels", "32", "--states", "256")
    assert one["jobs"] == 1 and four["jobs"] == 4
    assert four["cycles"] == 4 * one["cycles"]
    assert one["bytes_read"] > 262144 * 5376


@pytest.mark.parametrize(
    "bound, options",
    [
        ("compute", (*SMOLLM2, "--fold", "4")),
        ("latency", (*SMOLLM2, "--latency", "2000", "--outstanding-bytes", "16384")),
        ("dram", (*SMOLLM2, "--memory", "ddr3-1600-x16")),
        ("overhead", ("--vocab", "10", "--dim", "64")),
        ("top-k", (*MANY, "--rankers", "1")),
        ("write", (*MANY, "--rankers", "16", "--all-logits", "--bus-bits", "64")),
    ],
)
def test_what_binds_is_named(capsys, bound, options):
    found = report(capsys, *options)
    assert found["bound_by"] == bound, found["limits"]
    assert found["reason"] and found["remedy"]


def test_a_table_and_what_would_help_are_for_people(capsys):
    assert main(["estimate", *SMOLLM2, "--fold", "2"]) == 0
    shown = capsys.readouterr().out
    assert "bound by compute: 32 lanes take 2 clocks" in shown
    assert "would help: a smaller --fold" in shown
    for name in ("start", "data", "waiting", "refused", "tail", "cycles"):
        assert f"\n{name} " in shown


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_roofline_is_drawn(tmp_path, capsys, suffix):
    path = tmp_path / f"roofline.{suffix}"
    assert main(["estimate", *SMOLLM2, "--memory", "lpddr4-3200-x32", "--plot", str(path)]) == 0
    assert f"roofline in {path}" in capsys.readouterr().out
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    if suffix == "svg":
        first = path.read_bytes()
        main(["estimate", *SMOLLM2, "--memory", "lpddr4-3200-x32", "--plot", str(path)])
        assert path.read_bytes() == first


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "--vocab: is needed"),
        (("--vocab", "10"), "--dim: is needed"),
        (("--vocab", "0", "--dim", "5"), "--vocab: must be in 1..2147483647"),
        ((*SMOLLM2, "-k", "257"), "-k: must be in 1..256"),
        ((*SMOLLM2, "--states", "0"), "--states: must be in 1.."),
        ((*SMOLLM2, "--channels", "3"), "--channels: channels must be a power of two"),
        ((*SMOLLM2, "--batch", "5000"), "--batch: batch must be in 1..4096"),
        ((*SMOLLM2, "--memory", "sram"), "--memory: is unknown"),
        ((*SMOLLM2, "--plot", "x.gif"), "--plot: must end in .png or .svg"),
        (("head.safetensors", "--dim", "5"), "--dim: is of a head without an image"),
    ],
)
def test_wrong_usage_is_told_in_a_line(capsys, arguments, message):
    assert main(["estimate", *arguments]) == 2
    assert message in capsys.readouterr().err


# The function.


def test_jobs_that_the_hardware_cannot_run_are_refused():
    for wrong, name in (({"k": 17}, "k"), ({"k": 1, "mask": True}, "mask")):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            estimate(SMALL, 100, 64, **wrong)
    with pytest.raises(ValueError, match="^rows must be in 1..4096"):
        estimate(SMALL, 5000, 64, k=1)


def test_hardware_keeps_its_limits():
    with pytest.raises(ValueError, match="^channels must be one of"):
        HeadConfig(channels=16)
    assert PaperConfig(channels=16, batch=64).channels == 16


def test_more_states_than_the_batch_take_more_jobs():
    config = replace(SMALL, batch=4)
    whole = estimate(config, 1000, 128, k=8, vectors=4)
    rest = estimate(config, 1000, 128, k=8, vectors=1)
    found = estimate(config, 1000, 128, k=8, vectors=9)
    assert found.jobs == 3
    assert found.cycles == 2 * whole.cycles + rest.cycles
    assert found.bytes_read == 2 * whole.bytes_read + rest.bytes_read


def test_cycles_follow_from_memory_as_they_should():
    def cycles(memory, clock_hz=250e6, **changes):
        config = replace(SMALL, **changes)
        return estimate(config, 4000, 256, k=4, memory=memory, clock_hz=clock_hz).cycles

    ideal = [cycles(MemoryModel(latency_cycles=latency)) for latency in (1, 40, 400, 4000)]
    assert ideal == sorted(ideal)
    slow = MemoryModel(dram=DramTiming(DEVICES["ddr3-1600-x16"]))
    two = MemoryModel(dram=DramTiming(DEVICES["ddr3-1600-x16"], count=2))
    still = MemoryModel(dram=DramTiming(DEVICES["ddr3-1600-x16"], refresh=False))
    assert cycles(two) < cycles(still) < cycles(slow)
    assert cycles(slow, 125e6) < cycles(slow, 250e6)
    few = cycles(slow, outstanding_bytes=256, max_burst=8)
    assert few > cycles(slow)
