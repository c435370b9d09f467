"""Messages of the command line; imports nothing, so that even an early end has its line."""

import sys


def say(kind: str, message: object) -> None:
    """One line on stderr."""
    print(f"unembed: {kind}: {' '.join(str(message).split())}", file=sys.stderr, flush=True)
