"""Command lines: their parser, the run of a command, and its errors in one line each.

Exit codes: 0 done, 1 failed, 2 wrong usage; after a signal 128 and its number (`host.cli`).
"""

import argparse
import os
import sys
from typing import NoReturn

from host.commands import (
    boards,
    build,
    demo,
    estimate,
    explore,
    generate,
    inspect,
    memory,
    pack,
    simulate,
    suggest,
    synth,
)
from host.commands import run as run_command
from host.device import DeviceError
from host.errors import UsageError, UserError
from host.messages import say
from sim.errors import BusError, ToolError

COMMANDS = (
    pack,
    inspect,
    simulate,
    run_command,
    estimate,
    explore,
    suggest,
    memory,
    boards,
    generate,
    synth,
    build,
    demo,
)

OK, FAILED, USAGE = 0, 1, 2


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
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted, 143 terminated.",
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


def run(argv: list[str] | None) -> int:
    """Run a command line, that of the process if None; the exit code."""
    try:
        arguments = _parse(argv)
    except SystemExit as stop:
        return stop.code or OK
    code = arguments.run(arguments)
    sys.stdout.flush()  # what cannot be written must fail here, not as Python ends
    return code


def report(error: Exception) -> int | None:
    """Say what a command failed with; the exit code, or None for what is no user's error."""
    match error:
        case UsageError():
            say("error", error)
            return USAGE
        case UserError() | DeviceError() | ToolError() | BusError():
            say("error", error)
        case BrokenPipeError():
            # Whoever read the output has closed it; nothing is left to be told.
            _discard_output()
        case OSError():
            say("error", f"{error.filename or 'output'}: {error.strerror or error}")
            if error.filename is None:
                _discard_output()
        case _:
            return None
    return FAILED


def _discard_output() -> None:
    """Keep Python from trying once more, as it ends, to write what is left for stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
