"""The ranker against a sort of its rows, the golden log-sum-exp and all scores."""

import pytest

from hw.config import HeadConfig
from hw.ranker import Ranker

from .ranker_bench import Bench, Job
from .streams import STALLS

SHAPE = {
    "bus_bits": 64,
    "weight_bits": 4,
    "scale_bits": 8,
    "hidden_bits": 8,
    "width": 4,
    "max_dim": 32,
    "max_rows": 1000,
    "k": 5,
    "tile_rows": 12,
}
EVERYTHING = dict.fromkeys(("bias", "bound", "mask", "all_logits", "logsumexp", "job_queue"), True)
OPTIONS = {
    "base": {},
    "bias": {"bias": True},
    "bound": {"bound": True},
    "mask": {"mask": True},
    "all_logits": {"all_logits": True},
    "logsumexp": {"logsumexp": True},
    "job_queue": {"job_queue": True},
    "everything": EVERYTHING,
}


def make(channel=0, ranker=0, **options) -> Ranker:
    return Ranker(HeadConfig(**SHAPE | options), channel, ranker)


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("options", OPTIONS)
def test_every_vector_gets_its_best_rows_whatever_is_built(options, batch, stall):
    dut = make(batch=batch, rankers=1, **OPTIONS[options])
    jobs = [Job(dut, 30, seed=1), Job(dut, 13, 1, 2, seed=2), Job(dut, 17, k=1, seed=3)]
    Bench(dut, jobs, stall).run()


@pytest.mark.parametrize("ranker", range(4))
@pytest.mark.parametrize("options", ["base", "everything"])
def test_jobs_of_any_number_of_vectors(options, ranker):
    dut = make(0, ranker, batch=6, rankers=4, **OPTIONS[options])
    Bench(dut, [Job(dut, 15, vectors, seed=vectors) for vectors in (6, 1, 4, 2, 5, 3)]).run()


@pytest.mark.parametrize("channel", [0, 1, 3])
@pytest.mark.parametrize("fold", [1, 4])
def test_ids_are_those_of_the_channel_s_tiles(fold, channel):
    dut = make(channel, channels=4, batch=2, rankers=1, bias=True, fold=fold)
    Bench(dut, [Job(dut, rows, seed=rows) for rows in (50, 0, 12, 1)]).run()


@pytest.mark.parametrize("batch", [1, 4])
def test_ties_pick_the_lowest_id_in_every_slot(batch):
    dut = make(batch=batch, rankers=1, bias=True, bound=True)
    Bench(dut, [Job(dut, 60, scores="ties", seed=seed) for seed in range(4)], "random").run()


@pytest.mark.parametrize("allowed", [0, 0.05, 1])
@pytest.mark.parametrize("rows", [1, 4, 40])
def test_masked_rows_take_no_part_however_many_they_are(rows, allowed):
    dut = make(batch=2, rankers=1, mask=True, all_logits=True, k=64)
    jobs = [Job(dut, rows, k=k, allowed=allowed, seed=k) for k in (64, 3)]
    Bench(dut, jobs).run()


@pytest.mark.parametrize("stall", STALLS)
def test_a_bank_gives_up_its_results_while_the_other_takes_rows(stall):
    dut = make(batch=2, rankers=1, k=20, job_queue=True)
    jobs = [
        Job(dut, rows, k=k, scores=scores, seed=k)
        for rows, k, scores in (
            (40, 20, "ascending"),
            (60, 2, "random"),
            (60, 19, "ascending"),
            (20, 1, "ties"),
            (20, 20, "ties"),
        )
    ]
    bench = Bench(dut, jobs, stall)
    bench.run()
    assert bench.overlaps


@pytest.mark.parametrize("drop_after", [1, 20, 60, 150])
@pytest.mark.parametrize("options", ["base", "everything"])
def test_a_job_after_one_that_was_dropped_is_right(options, drop_after):
    dut = make(batch=2, rankers=1, k=12, **OPTIONS[options])
    jobs = [
        Job(dut, 40, scores="ascending", seed=1),
        Job(dut, 100, scores="ascending", seed=2, drop_after=drop_after),
        Job(dut, 20, seed=3),
    ]
    Bench(dut, jobs, "random").run()


@pytest.mark.parametrize("drop_drain_after", [0, 1, 5])
@pytest.mark.parametrize("options", ["base", "everything"])
def test_results_that_are_dropped_leave_the_other_job_alone(options, drop_drain_after):
    dut = make(batch=2, rankers=1, k=12, **OPTIONS[options])
    jobs = [
        Job(dut, 30, seed=1, drop_drain_after=drop_drain_after),
        Job(dut, 30, scores="ascending", seed=2),
        Job(dut, 20, seed=3),
    ]
    Bench(dut, jobs).run()


def test_logits_are_written_for_jobs_that_ask_for_them():
    dut = make(batch=2, rankers=1, bias=True, bound=True, mask=True, all_logits=True)
    jobs = [Job(dut, 30, seed=seed, logits=seed % 2 == 1) for seed in range(4)]
    Bench(dut, jobs, "random").run()


@pytest.mark.parametrize("options", ["base", "everything"])
def test_rows_that_are_not_kept_take_a_clock_for_each_vector(options):
    dut = make(batch=4, rankers=1, **OPTIONS[options])
    bench = Bench(dut, [Job(dut, 80, scores="descending", allowed=1)])
    bench.run()
    clocks = bench.taken_clocks[-240:]
    assert clocks[-1] - clocks[0] == 239


@pytest.mark.parametrize("batch", [2, 5])
def test_rows_that_are_kept_hold_up_no_other_vector(batch):
    dut = make(batch=batch, rankers=1)
    interval = dut.config.insert_interval + 1
    bench = Bench(dut, [Job(dut, 60, scores="ascending")])
    bench.run()
    clocks = bench.taken_clocks[-50 * batch :: batch]
    assert clocks[-1] - clocks[0] == 49 * interval
