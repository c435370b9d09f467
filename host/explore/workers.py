"""Runs tasks on all cores of this machine or on a Dask cluster."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from host.errors import UsageError, UserError
from host.explore import worker
from host.explore.store import Task, version

CONNECT_SECONDS = 15
"""For the workers of a scheduler that the user names."""
START_SECONDS = 300
"""For those started here."""
FEW = 8
"""Quick tasks for which no processes are started."""


@dataclass(frozen=True)
class Failure:
    """A task that has no result."""

    reason: str
    """In one line."""


def run_task(task: Task, wanted: str) -> object:
    """On a worker: see `Task.run`. A failure comes back as a text, since not every exception can be
    sent.
    """
    try:
        return task.run(wanted)
    except Exception as error:
        return Failure(_reason(error))


class Workers:
    """Processes that run tasks; they are started when the first task comes.

    Used in a with statement, at the end of which they are ended, whatever they do.

    Parameters
    ----------
    scheduler : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``, which stays. Its workers need the
        same version of this package. Default: processes of this machine.
    processes : int, optional
        How many of these. Default: one for each core.
    """

    def __init__(self, scheduler: str | None = None, processes: int | None = None):
        self.scheduler = scheduler
        self.processes = processes or len(os.sched_getaffinity(0))
        self._stack = ExitStack()
        self._client = None
        self._futures = []

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind, *exception) -> None:
        with self._stack:
            if kind is not None and self._client is not None:
                self._client.cancel(self._futures)
                # A cluster's workers may have tasks of others, and are not ended.
                if self.scheduler is None:
                    self._client.run(worker.end_tasks)

    def results(self, tasks: Sequence[Task], quick: bool = False) -> Iterator[tuple[int, object]]:
        """The number of each task and its result or `Failure`, as they come.

        Parameters
        ----------
        tasks : sequence of Task
        quick : bool
            They take less time than it does to start processes: a few are run in this one.

        Raises
        ------
        UserError
            There are no workers.
        """
        if not tasks:
            return
        if quick and self._client is None and len(tasks) <= FEW:
            for number, task in enumerate(tasks):
                yield number, run_task(task, version())
            return
        from distributed import as_completed

        client = self._connect()
        # Pure tasks with equal arguments would be one.
        futures = client.map(run_task, tasks, wanted=version(), pure=False, retries=0)
        self._futures = futures
        numbers = {future.key: number for number, future in enumerate(futures)}
        for future in as_completed(futures, loop=client.loop):
            error = future.exception() if future.status != "finished" else None
            result = future.result() if error is None else Failure(_reason(error))
            yield numbers[future.key], result
            future.release()

    def _connect(self):
        if self._client is not None:
            return self._client
        try:
            import dask
            from distributed import Client, LocalCluster
        except ImportError:
            raise UserError(
                "explore", "needs the package distributed: pip install 'unembed[explore]'"
            ) from None
        address, seconds = self.scheduler, CONNECT_SECONDS
        if address is None:
            seconds = START_SECONDS
            folder = self._stack.enter_context(TemporaryDirectory(prefix="unembed-"))
            # Workers of this machine come, however busy it is.
            settings = {
                "temporary-directory": folder,
                "distributed.comm.timeouts.connect": f"{START_SECONDS} s",
            }
            self._stack.enter_context(dask.config.set(settings))
            # Tasks start programs of their own, so what a worker may hold is not bounded here.
            address = self._stack.enter_context(
                LocalCluster(
                    n_workers=self.processes,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address=None,
                    preload=[worker.__name__],
                    silence_logs=logging.CRITICAL,
                )
            )
        try:
            client = Client(address, timeout=seconds, set_as_default=False)
            self._stack.enter_context(client)
            client.wait_for_workers(1, timeout=seconds)
        except (OSError, ValueError, TimeoutError) as error:
            if self.scheduler is None:
                raise
            raise UsageError(
                "--scheduler", f"no workers are reached at {self.scheduler}: {error}"
            ) from None
        self._client = client
        return client


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, UserError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
