"""The command `unembed`."""

import argparse
import os
import sys
import warnings
from typing import NoReturn

from host.commands import demo, generate, inspect, pack, simulate
from host.console import say
from host.device import DeviceError
from host.errors import UserError
from host.options import UsageError
from sim.errors import BusError, ToolError

COMMANDS = (pack, inspect, simulate, generate, demo)

OK, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


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
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.NAME, help=command.HELP, description=f"{command.HELP}."
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def _show_warning(message, category, filename, lineno, file=None, line=None) -> None:
    say("warning", str(message))


def main(argv: list[str] | None = None) -> int:
    """Run a command line, `sys.argv` by default; the exit code: 0 ok, 1 failed, 2 usage."""
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code or OK
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            return arguments.run(arguments)
        except UsageError as error:
            say("error", error)
            return USAGE
        except (UserError, DeviceError, ToolError, BusError) as error:
            say("error", error)
            return FAILED
        except BrokenPipeError:
            # Whoever read the output has closed it; nothing is left to be told.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        except OSError as error:
            say("error", f"{error.filename or arguments.run.__module__}: {error.strerror or error}")
            return FAILED
        except KeyboardInterrupt:
            say("error", "interrupted")
            return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
