"""The full head of SmolLM2 with every row inserted into the top-k, at the speed of the bus."""

from dataclasses import dataclass

import numpy as np
import pytest

from host.checks.verify import golden_results, mismatches
from host.driver import Head
from host.image import Image, save_image
from host.results import Results
from hw.config import HeadConfig
from sim.device import SimDevice

ROWS, DIM, K = 49152, 576, 64
SHAPE = {"bus_bits": 512, "k": K}
CONFIGS = {
    "int8": HeadConfig(**SHAPE),
    "int4": HeadConfig(**SHAPE, weight_bits=4),
    "int8_fold_2": HeadConfig(**SHAPE, fold=2),
}
REGISTER_CYCLES = 300
"""The driver's register accesses around a job take less."""


def ascending_image(path, config: HeadConfig) -> Image:
    """A head whose first column alone gives row v the score v - V/2 (times the hidden value)."""
    rng = np.random.default_rng(1)
    half = 1 << config.weight_bits - 1
    weights = rng.integers(-half, half, (ROWS, DIM), np.int8)
    scales = rng.integers(0, 1 << config.scale_bits, (ROWS, config.groups(DIM)), np.int32)
    scores = np.arange(ROWS) - ROWS // 2
    weights[:, 0] = np.sign(scores)
    scales[:, 0] = abs(scores)
    return save_image(path, config, weights, scales)


@dataclass
class Run:
    config: HeadConfig
    image: Image
    hidden: np.ndarray
    results: Results
    cycles: int
    """Of the simulator's clock, from before the first register access to after the last."""

    def counter(self, name: str) -> int:
        return int(self.results.counters[name][0])


@pytest.fixture(scope="module", params=CONFIGS)
def run(request, tmp_path_factory):
    config = CONFIGS[request.param]
    image = ascending_image(tmp_path_factory.mktemp("image") / "head.safetensors", config)
    hidden = np.zeros((1, DIM))
    hidden[0, 0] = 1
    with SimDevice(config) as device:
        head = Head(device, image)
        before = device.cycles
        results = head.run(hidden, K)
        cycles = device.cycles - before
    return Run(config, image, hidden, results, cycles)


def test_every_row_is_inserted_and_the_results_are_right(run):
    assert run.counter("rows") == run.counter("insertions") == ROWS
    assert run.results.ids[0].tolist() == list(range(ROWS - 1, ROWS - 1 - K, -1))
    golden = golden_results(run.image, run.hidden, K, run.config.hidden_bits)
    assert not len(mismatches(run.results, *golden))


def test_insertions_never_hold_up_the_memory(run):
    # A folded farm takes a beat every other clock, so there the stream waits for it.
    if run.config.fold == 1:
        assert run.counter("refused_cycles") == 0
    else:
        assert run.counter("refused_cycles") <= run.image.layout.body_beats


def test_the_job_takes_as_long_as_its_beats(run):
    layout = run.image.layout
    busiest = max(layout.beats, run.config.fold * layout.body_beats)
    assert run.counter("cycles") <= run.cycles <= run.counter("cycles") + REGISTER_CYCLES
    assert run.cycles <= 1.002 * busiest + 500
