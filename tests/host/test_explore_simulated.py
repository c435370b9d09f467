"""Points of a sweep on the simulated hardware, workers that die and sweeps that are stopped."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from host.explore.head import SweptHead
from host.explore.measure import SimulationTask
from host.explore.plan import Plan
from host.explore.space import Space
from host.explore.sweep import explore
from host.explore.workers import Workers
from sim.cache import cache_directory

from .command_line import HIDDEN
from .dask_cluster import dask_cluster

ROOT = Path(__file__).parents[2]
# The hardware that other tests simulate as well, so that its simulator is there.
DEFAULT = ("--max-dim", 1024, "--max-rows", 65536)
CYCLES_WITHIN = 15


def no_progress(stage: str, done: int, total: int) -> None:
    """Nobody watches."""


def stored_simulators(folder: Path, monkeypatch) -> None:
    """Use a cache of one's own that has the simulators of the usual one."""
    folder.mkdir()
    for entry in cache_directory().iterdir():
        if entry.name.startswith(("device-", "memory-", "verilog-", "runtime-")):
            (folder / entry.name).symlink_to(entry)
    monkeypatch.setenv("UNEMBED_CACHE", str(folder))


def test_simulated_points_are_those_of_simulate_and_near_their_estimates(
    run, files, monkeypatch, tmp_path
):
    image = files / "default.safetensors"
    assert run("pack", files / "matrix.npz", "-o", image)[0] == 0
    np.save(files / "one.npy", HIDDEN[:1])
    simulate = ("simulate", image, "--hidden", files / "one.npy", "--json")
    expected = json.loads(run(*simulate)[1])["counters"]["cycles"][0]

    stored_simulators(tmp_path / "cache", monkeypatch)
    sweep = ("explore", files / "matrix.npz", *DEFAULT, "--clock-mhz", "100,250")
    sweep = (*sweep, "--hidden", files / "one.npy", "--simulate", "all", "--workers", 1)
    code, out, err = run(*sweep, "-o", files / "out")
    assert code == 0, err
    with open(files / "out" / "results.csv", newline="") as file:
        first, second = csv.DictReader(file)
    for row in (first, second):
        assert int(row["cycles_simulated"]) == expected
        assert abs(int(row["cycles_estimated"]) - expected) <= CYCLES_WITHIN
        assert row["results_compared"] == "64" and row["results_unlike_golden_model"] == "0"
        parts = ("start", "data", "waiting", "refused", "tail")
        assert sum(float(row[f"{part}_cycles_simulated"]) for part in parts) == expected
    assert float(second["tokens_per_s_simulated"]) == pytest.approx(250e6 / expected)
    assert "2 simulated\n" in out
    # What was measured is reused, whatever else the next sweep holds.
    code, out, _ = run(*sweep[:-2], "--clock-mhz", "250,100,200", "--simulate", "front")
    assert code == 0 and "results from before" in out


def test_a_result_unlike_the_golden_model_fails_its_point(run, files, monkeypatch, tmp_path):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path / "cache"))
    from host.explore import sweep
    from host.explore.measure import Simulated

    wrong = Simulated(100, 1, 2, 3, 4, 90, 5, 6, 7, compared=64, mismatches=3)

    def results(self, tasks, quick=False):
        for number, task in enumerate(tasks):
            yield number, wrong if isinstance(task, SimulationTask) else task.compute()

    monkeypatch.setattr(sweep.Workers, "results", results)
    code, _, err = run("explore", "45x40", "--bus-bits", 64, "--simulate", "all")
    assert code == 1
    assert "point 1: simulation: 3 of 64 places are unlike the golden model's" in err


def test_points_that_come_to_the_front_by_simulation_are_simulated(run, monkeypatch, tmp_path):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path / "cache"))
    from host.explore import sweep
    from host.explore.measure import Simulated

    rounds = []

    def results(self, tasks, quick=False):
        simulated = [task for task in tasks if isinstance(task, SimulationTask)]
        rounds.extend([len(simulated)] * bool(simulated))
        for number, task in enumerate(tasks):
            if task not in simulated:
                yield number, task.compute()
                continue
            # Slower than any that is estimated, so that others take its place.
            cycles = 10**7 + task.point.config.tile_rows
            yield number, Simulated(cycles, 1, 2, 3, 4, 90, 5, 6, 7, compared=64, mismatches=0)

    monkeypatch.setattr(sweep.Workers, "results", results)
    code, out, err = run(
        "explore", "512x96", "--bus-bits", 64, "--tile-rows", "8,16,64", "-k", 4, "--json"
    )
    assert code == 0, err
    points = {point["point"]: point for point in json.loads(out)["points"]}
    front = [points[number] for number in json.loads(out)["front"]]
    assert front and all(point["cycles_simulated"] for point in front)
    assert len(rounds) > 1


SPACE = Space(
    SweptHead.named("512x96"), {"bus_bits": (64,), "lanes": (4, 8), "tile_rows": (8, 16, 64)}
)


@pytest.mark.long
def test_a_sweep_whose_worker_is_killed_midway_has_the_same_results(tmp_path, monkeypatch):
    plan = Plan(replace(SPACE, values=SPACE.values | {"tile_rows": (8, 16)}), "all")
    results = []
    for name in ("undisturbed", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setenv("UNEMBED_CACHE", str(folder / "cache"))
        with dask_cluster(folder) as cluster:

            def progress(stage, done, total, cluster=cluster, name=name):
                if stage == "simulating" and done == 1 and name == "killed":
                    cluster.workers[0].kill()

            with Workers(cluster.address) as workers:
                results.append(explore(plan, workers, progress))
            codes = [worker.poll() for worker in cluster.workers]
        assert codes == [-signal.SIGKILL if name == "killed" else None, None]
    assert results[0].outcomes == results[1].outcomes
    assert len(results[1].outcomes) == 4
    for outcome in results[1].outcomes:
        assert outcome.simulated.compared > 0 and outcome.simulated.mismatches == 0


@pytest.mark.long
def test_an_interrupted_sweep_loses_no_finished_point(tmp_path, interruptible):
    cache = tmp_path / "cache"
    command = [sys.executable, "-m", "host.cli", "explore", "512x96", "--bus-bits", "64"]
    command += ["--tile-rows", "2..1024", "--simulate", "none", "--workers", "1"]
    environment = os.environ | {"UNEMBED_CACHE": str(cache)}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )

    def finished():
        return len(list(cache.glob("area-*")))

    while finished() < 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err.decode()
    assert err.decode().endswith("unembed: error: interrupted\n")
    before = finished()
    assert 2 <= before < 10
    assert not list(cache.glob(".*"))
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    assert f"; {before} results from before\n" in again.stdout.decode()


def test_a_result_depends_on_head_point_and_states():
    first, second = SPACE.points().points[:2]
    task = SimulationTask(SPACE.head, first)
    assert task.entry == SimulationTask(SweptHead.named("512 x 96"), first).entry
    others = [
        replace(task, states=(b"0000",)),
        replace(task, point=second),
        replace(task, point=replace(first, clock_hz=first.clock_hz + 1)),
        replace(task, head=SweptHead.named("512x97")),
    ]
    assert len({task.entry, *(other.entry for other in others)}) == 5
