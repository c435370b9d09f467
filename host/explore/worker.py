"""What a worker process of this machine is told: how it takes signals, and how it is stopped."""

import asyncio
import signal
import time
from contextlib import suppress

END_SECONDS = 10
"""How long a task that is given up has to remove what it was writing."""


def dask_setup(worker) -> None:
    """Called by Dask as a worker starts (its `preload`)."""
    # Ctrl-C in a terminal comes to all processes; the one that started the workers ends them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


async def end_tasks(dask_worker) -> None:
    """On a worker: end the programs that its tasks run, and so the tasks."""
    import psutil

    deadline = time.monotonic() + END_SECONDS
    while dask_worker.active_threads and time.monotonic() < deadline:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                child.terminate()
        await asyncio.sleep(0.05)
