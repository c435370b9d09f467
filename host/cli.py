"""The command `unembed`: signals, warnings and exit codes around `host.command_line`."""

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from host.messages import say

STOPS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
"""Signals that end a command, with what it then says. Its exit code is that of shells, 128 more."""


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt for the signals of `STOPS`, so that half-written files are removed.

    Yields the signals that came.
    """
    received = []

    def stop(number, frame):
        received.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread may set handlers
        return
    # What is ignored, as Ctrl-C is by a shell's background jobs, stays so.
    before = {
        number: signal.signal(number, stop)
        for number in STOPS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    say("warning", message)


def main(argv: list[str] | None = None) -> int:
    """Run a command line, `sys.argv` by default; the exit code, see `host.command_line`."""
    for name in ("stdout", "stderr"):
        # Closed by whoever started the command: nobody wants it, and nothing else may get it.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    with warnings.catch_warnings(), _stoppable() as received:
        warnings.showwarning = _show_warning
        # Amaranth's hint to its users would come by the dozen for a design that is given up.
        warnings.filterwarnings("ignore", r"(?s).*created but never used")
        try:
            # Imported here, since Ctrl-C may come before NumPy and Amaranth are loaded.
            import host.command_line as command_line

            try:
                return command_line.run(argv)
            except Exception as error:
                # What a signal has stopped, may end with an error of its own.
                code = None if received else command_line.report(error)
                if code is None:
                    raise
        except BaseException as error:
            if not received and not isinstance(error, KeyboardInterrupt):
                raise
            number = received[-1] if received else signal.SIGINT
            say("error", STOPS[number])
            code = 128 + number
        # A design that was given up goes while the filter above holds.
        gc.collect()
        return code


if __name__ == "__main__":
    sys.exit(main())
