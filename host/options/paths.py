"""Names of files and devices as options have them."""

import argparse
from pathlib import Path


def name(text: str) -> str:
    """A name that is there: an empty one is mostly a variable that is not set.

    Raises
    ------
    argparse.ArgumentTypeError
        It is empty.
    """
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def path(text: str) -> Path:
    """The path of a file or folder; an empty one would be the current folder.

    Raises
    ------
    argparse.ArgumentTypeError
        It is empty.
    """
    return Path(name(text))
