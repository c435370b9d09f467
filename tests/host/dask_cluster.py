"""A Dask scheduler and worker processes, started as a user would on machines of his own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 60


@dataclass
class Cluster:
    """The address of the scheduler, and the workers' processes."""

    address: str
    workers: list[subprocess.Popen]


def _start(stack: ExitStack, program: str, folder: Path, *arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", f"distributed.cli.dask_{program}"]
    command += ["--scheduler-file", str(folder / "scheduler.json"), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "DASK_TEMPORARY_DIRECTORY": str(folder)}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


@contextmanager
def dask_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Processes that end with the with statement."""
    with ExitStack() as stack:
        _start(stack, "scheduler", folder, "--port", "0", "--no-dashboard", "--host", "127.0.0.1")
        processes = [
            _start(stack, "worker", folder, "--no-nanny", "--nthreads", "1", "--no-dashboard")
            for _ in range(workers)
        ]
        file, deadline = folder / "scheduler.json", time.monotonic() + START_SECONDS
        while not file.exists():
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.05)
        yield Cluster(json.loads(file.read_text())["address"], processes)
