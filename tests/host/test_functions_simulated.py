"""Batch, channels, terms, mask, all logits, log-sum-exp and queue on the simulated hardware."""

import json

import numpy as np
import pytest

from host.checks.verify import golden_results, mismatches
from host.checks.verify_sums import golden_sums
from host.driver import Head, JobError, JobTimeout
from host.image import save_image
from host.masks import pack_mask
from hw.config import HeadConfig
from hw.status import Status
from sim.device import SimDevice
from sim.memory import Faults, MemoryModel, Stalls

SMALL = {"bus_bits": 64, "width": 8, "tile_rows": 16, "max_dim": 64, "max_rows": 256, "k": 8}
QUEUED = HeadConfig(
    **SMALL,
    batch=3,
    rankers=2,
    channels=2,
    bias=True,
    bound=True,
    mask=True,
    all_logits=True,
    logsumexp=True,
    job_queue=True,
)
SINGLE = HeadConfig(**SMALL, batch=2, rankers=1, bias=True, mask=True, all_logits=True)
ROWS, DIM, K, STATES = 203, 40, 6, 5
RNG = np.random.default_rng(12)
HIDDEN = RNG.normal(size=(STATES, DIM))
ALLOWED = RNG.random((STATES, ROWS)) < 0.3
ALLOWED[1] = False
ALLOWED[4] = np.arange(ROWS) == ROWS - 1
TEMPERATURES = np.linspace(0.5, 1.5, STATES)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    weights = RNG.integers(-128, 128, (ROWS, DIM))
    scales = RNG.integers(1, 400, (ROWS, 2))
    terms = np.stack([RNG.integers(-(2**15), 2**15, ROWS), RNG.integers(0, 2**15, ROWS)], axis=1)
    return {
        config: save_image(
            folder / f"{config.terms}.safetensors",
            config,
            weights,
            scales,
            1e-4,
            terms=terms[:, : config.terms],
            bias_unit=3e-4,
            bound_unit=1e-5,
        )
        for config in (QUEUED, SINGLE)
    }


def assert_right(head, image, allowed=None, all_logits=True):
    """A run with everything the hardware has is bit for bit the golden models'."""
    config = head.config
    results = head.run(
        HIDDEN,
        K,
        mask=None if allowed is None else pack_mask(allowed),
        all_logits=all_logits,
        logsumexp=config.logsumexp,
        temperature=TEMPERATURES,
    )
    golden = golden_results(image, HIDDEN, K, config.hidden_bits, allowed=allowed)
    assert not len(mismatches(results, *golden))
    logits, sums = golden_sums(image, HIDDEN, config.hidden_bits, TEMPERATURES, allowed)
    if all_logits:
        assert np.array_equal(results.all_logits, logits)
    if config.logsumexp:
        assert np.array_equal(results.logsumexp, sums)
    return results


@pytest.mark.parametrize("config", [QUEUED, SINGLE], ids=["queued", "single"])
@pytest.mark.parametrize(
    "memory",
    [
        MemoryModel(),
        MemoryModel(base=1 << 40, size=1 << 20),
        MemoryModel(stalls=Stalls.everywhere(0.4, 8, seed=3), idle_garbage=True),
    ],
    ids=["plain", "above 32 bits", "stalls"],
)
def test_results_are_those_of_the_golden_models(images, config, memory):
    image = images[config]
    with SimDevice(config, memory) as device:
        head = Head(device, image)
        results = assert_right(head, image, ALLOWED)
        assert results.counts.tolist() == [K, 0, K, K, 1]
        assert results.counters["rows"].tolist() == (ROWS * results.vectors).tolist()
        # A job without a mask behind jobs with one, in the same buffers.
        assert_right(head, image)


def test_masks_and_logits_are_the_traffic_they_should_be(images):
    image = images[SINGLE]
    with SimDevice(SINGLE) as device:
        head = Head(device, image)
        with_mask = head.run(HIDDEN, K, mask=pack_mask(ALLOWED), all_logits=True)
        without = head.run(HIDDEN, K)
    for job, vectors in enumerate((2, 2, 1)):
        extra = with_mask.counters["data_beats"][job] - without.counters["data_beats"][job]
        assert extra == image.layout.mask_beats(0, vectors)
        written = with_mask.counters["bytes_written"][job] - without.counters["bytes_written"][job]
        assert written == 8 * ROWS * vectors


@pytest.mark.parametrize(
    ("faults", "status"),
    [(Faults(read_beats=(7,)), Status.READ), (Faults(write_responses=(0,)), Status.WRITE)],
)
def test_an_error_ends_its_own_job_and_the_next_run_is_right(images, faults, status):
    image = images[QUEUED]
    with SimDevice(QUEUED, MemoryModel(faults=faults)) as device:
        head = Head(device, image)
        with pytest.raises(JobError, match=rf"job 1, of states 0 to 2, .* {status.name}") as info:
            head.run(HIDDEN, K)
        assert info.value.states == range(3)
        # Without the logits, whose writing would be the other port's first.
        assert_right(head, image, ALLOWED, all_logits=False)


@pytest.mark.parametrize("response", [0, 3])
def test_an_error_of_the_logits_ends_the_job_and_the_next_run_is_right(images, response):
    image = images[SINGLE]
    faults = Faults(write_responses=(response,))
    with SimDevice(SINGLE, MemoryModel(faults=faults)) as device:
        head = Head(device, image)
        with pytest.raises(JobError, match="job 1, of states 0 to 1, .* WRITE"):
            head.run(HIDDEN, K, all_logits=True)
        assert_right(head, image, ALLOWED)


def test_a_soft_reset_drops_the_job_and_the_one_that_waits(images):
    image = images[QUEUED]
    with SimDevice(QUEUED, MemoryModel(latency_cycles=3000)) as device:
        head = Head(device, image)
        with pytest.raises(JobTimeout, match="job 1 did not end within 2000 clocks"):
            head.run(HIDDEN, K, deadline_cycles=2000)
        head.soft_reset()
        assert_right(head, image, ALLOWED)


def test_the_commands_pack_simulate_and_check_all_functions(run, tmp_path):
    weights = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
    np.savez(tmp_path / "model.npz", weight=weights, bias=RNG.normal(size=ROWS))
    np.save(tmp_path / "states.npy", HIDDEN)
    np.save(tmp_path / "mask.npy", pack_mask(ALLOWED))
    image = tmp_path / "head.safetensors"
    # The hardware of the other tests, whose simulator is there.
    packed = ["--bus-bits", 64, "--group", 32, "--width", 8, "--tile-rows", 16]
    packed += ["--channels", 2, "--bias", "--bound"]
    assert run("pack", tmp_path / "model.npz", "-o", image, *packed)[0] == 0
    built = ["--batch", 3, "--rankers", 2, "--job-queue", "--max-k", 8, "--max-dim", 64]
    built += ["--max-rows", 256, "--insert-interval", QUEUED.insert_interval]
    code, out, _ = run(
        "simulate",
        image,
        "--hidden",
        tmp_path / "states.npy",
        "--mask",
        tmp_path / "mask.npy",
        "--all-logits",
        "--logsumexp",
        "--check",
        "--json",
        "-k",
        K,
        *built,
    )
    assert code == 0
    report = json.loads(out)
    assert HeadConfig(**report["config"]) == QUEUED
    assert report["check"] == {
        "compared": STATES * K,
        "mismatches": 0,
        "all_logits": {"compared": STATES * ROWS, "mismatches": 0},
        "logsumexp": {"compared": STATES, "mismatches": 0},
    }
