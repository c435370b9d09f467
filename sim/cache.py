"""A cache of build products, safe for any number of processes at once."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SIZES = ".sizes.json"
"""In an entry: its files with their sizes."""
POLL_S = 0.2


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
def _locked(path: Path, while_waiting: Callable[[], None]) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                while_waiting()
                time.sleep(POLL_S)
        yield


def _sizes(folder: Path) -> dict[str, int]:
    """Sizes of the files of a folder; those that Python compiles come and go."""
    return {
        str(path.relative_to(folder)): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _seal(folder: Path) -> None:
    """Note the sizes of a folder's files, and see that all of it is on the disk."""
    (folder / SIZES).write_text(json.dumps(_sizes(folder)))
    for path in (*folder.rglob("*"), folder):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_whole(entry: Path) -> bool:
    """Whether an entry is there, with all of the files that it was made with."""
    try:
        sizes = json.loads((entry / SIZES).read_text())
        return all((entry / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def cached(
    name: str, build: Callable[[Path], None], while_waiting: Callable[[], None] = lambda: None
) -> Path:
    """The cache entry `name`, built if it is not there.

    Parameters
    ----------
    name : str
        Name of the folder; it holds the digest of everything the product depends on.
    build : callable
        Fills the folder it is given. That folder is renamed once it is complete, so an entry
        is never seen in parts, and nothing remains of a build that failed. Of several processes
        that need the same entry one builds and the others wait for it. An entry whose files are
        missing or cut short is built again.
    while_waiting : callable, optional
        Called several times a second while another process builds the entry; may raise.

    Returns
    -------
    Path
        The folder of the entry, absolute.
    """
    root = cache_directory()
    entry = root / name
    if _is_whole(entry):
        return entry
    with _locked(root / "locks" / name, while_waiting):
        if _is_whole(entry):
            return entry
        # Damaged, or left by a process that was killed: this one holds the lock.
        for remnant in (entry, *root.glob(f".{name}-*")):
            shutil.rmtree(remnant, ignore_errors=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=root))
        try:
            build(staging)
            _seal(staging)
            staging.rename(entry)
        except OSError as error:
            shutil.rmtree(staging, ignore_errors=True)
            if error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, str(root)) from error
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    return entry
