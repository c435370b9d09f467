"""Files that commands write: complete or not at all, and never in place of anything but a file."""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from host.errors import UserError


def check_output(path: Path) -> None:
    """Raise UserError unless a file can be written at `path`.

    That is a new name in a folder that exists, or a regular file, which is replaced; of a symbolic
    link what it leads to. Anything else, such as a device or a pipe, would be lost to whoever uses
    it if a file took its name.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise UserError(path, f"cannot be written: {error.strerror}") from None
    if mode is not None and stat.S_ISDIR(mode):
        raise UserError(path, "is a folder", expected="a file name")
    if mode is not None and not stat.S_ISREG(mode):
        raise UserError(path, "is no regular file", expected="a file name")
    folder = _target(path).parent
    if not folder.is_dir():
        raise UserError(path, "cannot be written: its folder does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(path, "cannot be written: its folder is write-protected")


def check_folder(folder: Path, names: Iterable[str]) -> None:
    """Raise UserError unless files with `names` can be written to a folder, missing or not."""
    existing = folder
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir():
        raise UserError(existing, "is a file", expected="a folder")
    if existing != folder:
        if not os.access(existing, os.W_OK | os.X_OK):
            raise UserError(folder, f"cannot be made: {existing} is write-protected")
        return
    for name in names:
        check_output(folder / name)


class Output:
    """A file under a temporary name until `commit`; leaving a with statement earlier removes it.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    partial : Path
        The temporary name to write to, in the folder of the file.

    Raises
    ------
    UserError
        As of `check_output`.
    """

    def __init__(self, path: Path):
        check_output(path)
        self.path = path
        target = _target(path)
        self.partial = target.with_name(f".{target.name}.{os.getpid()}.partial")

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *_):
        self.partial.unlink(missing_ok=True)

    def commit(self) -> None:
        """Give the file its name; raises UserError if that has become impossible meanwhile."""
        check_output(self.path)
        try:
            os.replace(self.partial, _target(self.path))
        except OSError as error:
            raise UserError(self.path, f"cannot be written: {error.strerror}") from None


def write_files(folder: Path, contents: Mapping[str, str | bytes]) -> None:
    """Write files to a folder, which is made; each has its name when it is complete.

    Raises
    ------
    UserError
        The folder or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            data = content if isinstance(content, bytes) else content.encode()
            with Output(folder / name) as output:
                output.partial.write_bytes(data)
                output.commit()
    except OSError as error:
        raise UserError(folder, f"cannot be written: {error.strerror}") from None


def _target(path: Path) -> Path:
    """Where the file lies: a symbolic link stays one."""
    return Path(os.path.realpath(path))
