"""The command `unembed`."""

import argparse
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from host.commands import demo, generate, inspect, pack, simulate
from host.console import say
from host.device import DeviceError
from host.errors import UserError
from host.options import UsageError
from sim.errors import BusError, ToolError

COMMANDS = (pack, inspect, simulate, generate, demo)

OK, FAILED, USAGE = 0, 1, 2
INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C and SIGTERM, as shells have them."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM, raised so that files that are half written are removed as after Ctrl-C."""


@contextmanager
def _terminable() -> Iterator[None]:
    def terminate(number, frame):
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Parser(argparse.ArgumentParser):
    """A parser that tells an error in one line."""

    def error(self, message: str) -> NoReturn:
        say("error", f"{message} (see {self.prog} --help)")
        raise SystemExit(USAGE)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = _Parser(
        prog="unembed",
        description="An accelerator for language-model heads: pack weights, simulate, generate.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage.",
        allow_abbrev=False,  # a script's short form must not change its meaning with a new option
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=f"{command.HELP[0].upper()}{command.HELP[1:]}.",
            allow_abbrev=False,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run, parser=subparser)
    return parser


def _parse(argv: list[str] | None) -> argparse.Namespace:
    arguments, unknown = build_parser().parse_known_args(argv)
    if unknown:
        # argparse itself would name the help of `unembed`, which has no options of commands.
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    say("warning", str(message))


def _discard_output() -> None:
    """Keep Python from trying once more, as it ends, to write what is left for stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: list[str] | None = None) -> int:
    """Run a command line, `sys.argv` by default; the exit code: 0 ok, 1 failed, 2 usage."""
    try:
        arguments = _parse(argv)
    except SystemExit as stop:
        return stop.code or OK
    with warnings.catch_warnings(), _terminable():
        warnings.showwarning = _show_warning
        try:
            code = arguments.run(arguments)
            sys.stdout.flush()  # what cannot be written must fail here, not as Python ends
            return code
        except UsageError as error:
            say("error", error)
            return USAGE
        except (UserError, DeviceError, ToolError, BusError) as error:
            say("error", error)
            return FAILED
        except BrokenPipeError:
            # Whoever read the output has closed it; nothing is left to be told.
            _discard_output()
            return FAILED
        except OSError as error:
            say("error", f"{error.filename or 'output'}: {error.strerror or error}")
            if error.filename is None:
                _discard_output()
            return FAILED
        except _Terminated:
            say("error", "terminated")
            return TERMINATED
        except KeyboardInterrupt:
            say("error", "interrupted")
            return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
