"""A cache of build products, safe for any number of processes at once."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_directory() -> Path:
    """The cache folder: the environment's UNEMBED_CACHE, or ~/.cache/unembed."""
    configured = os.environ.get("UNEMBED_CACHE")
    return Path(configured).absolute() if configured else Path.home() / ".cache" / "unembed"


def digest(parts: Iterable[str | bytes]) -> str:
    """A key of 16 hexadecimal digits over a sequence of texts; where they divide counts."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cached(name: str, build: Callable[[Path], None]) -> Path:
    """The cache entry `name`, built if it is not there.

    Parameters
    ----------
    name : str
        Name of the folder; it holds the digest of everything the product depends on.
    build : callable
        Fills the folder it is given. That folder is renamed once it is complete, so an entry
        is never seen in parts, and nothing remains of a build that failed. Of several processes
        that need the same entry one builds and the others wait for it.

    Returns
    -------
    Path
        The folder of the entry, absolute.
    """
    root = cache_directory()
    entry = root / name
    if entry.is_dir():
        return entry
    with _locked(root / "locks" / name):
        if entry.is_dir():
            return entry
        staging = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
        try:
            build(staging)
            staging.rename(entry)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    return entry
