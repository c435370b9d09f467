"""Tasks of a sweep on worker processes: kept, repeated when a worker dies, failing one by one."""

import os
import signal
import threading
import time

import pytest

from host.errors import UsageError, UserError
from host.explore.store import version
from host.explore.workers import Failure, Workers

from .dask_cluster import dask_cluster
from .explore_tasks import Answer, Square, WaitingSquare


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def log(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    return folder


def test_a_result_is_computed_once(log):
    task = Square(7, log)
    assert task.kept() is None
    assert task.run(version()) == task.run(version()) == task.kept() == Answer(49)
    assert len(list(log.iterdir())) == 1
    assert Square(8, log).kept() is None


def test_nothing_is_kept_of_a_task_that_fails(log):
    for _ in range(2):
        with pytest.raises(UserError, match="number: must be at least 0"):
            Square(-1, log).run(version())
    assert Square(-1, log).kept() is None
    assert len(list(log.iterdir())) == 2


def test_another_version_of_the_program_computes_nothing(log):
    with pytest.raises(UserError, match="another version of unembed"):
        Square(7, log).run("0123")
    assert not list(log.iterdir())


def test_workers_of_this_machine_are_started_and_ended(log):
    tasks = [Square(number, log) for number in (3, -1, 4)]
    with Workers(processes=1) as workers:
        found = dict(workers.results(tasks))
        assert not list(workers.results([]))
    assert found[0] == Answer(9) and found[2] == Answer(16)
    assert found[1] == Failure("number: must be at least 0 (found -1)")
    (pid,) = {path.name.split("-")[-2] for path in log.iterdir()}
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_task_whose_worker_is_killed_is_done_by_another(tmp_path, log):
    with dask_cluster(tmp_path) as cluster:

        def kill():
            while not (log / "pid").exists() or not (log / "pid").read_text():
                time.sleep(0.01)
            os.kill(int((log / "pid").read_text()), signal.SIGKILL)
            (log / "go").touch()

        killer = threading.Thread(target=kill)
        killer.start()
        tasks = [WaitingSquare(5, log), *(Square(number, log) for number in range(4))]
        with Workers(cluster.address) as workers:
            found = dict(workers.results(tasks))
        killer.join()
        codes = [worker.poll() for worker in cluster.workers]
    assert sorted(codes, key=str) == sorted([-signal.SIGKILL, None], key=str)
    assert found == {0: Answer(25)} | {n + 1: Answer(n**2) for n in range(4)}


def test_a_scheduler_that_is_not_there_is_told(monkeypatch, log):
    monkeypatch.setattr("host.explore.workers.CONNECT_SECONDS", 0.2)
    with Workers("tcp://127.0.0.1:1") as workers, pytest.raises(UsageError, match="--scheduler"):
        list(workers.results([Square(1, log)]))
