"""The board as a command-line option, and the hardware parameters that it brings."""

import argparse

from host.boards.board import BOARDS, Board, board
from host.options.hardware import BUFFER_FIELDS


def add_board_option(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add --board; `default` is that of a command that is of use without one."""
    text = "board, see unembed boards; sets hardware parameters that no option or file sets"
    parser.add_argument(
        "--board",
        choices=BOARDS,
        default=default,
        help=text + (f" (default {default})" if default else ""),
    )


def chosen_board(arguments: argparse.Namespace) -> Board | None:
    """The board of the options, None if there is none."""
    return board(arguments.board) if arguments.board is not None else None


def board_defaults(arguments: argparse.Namespace, board: Board) -> None:
    """Let `host.options.hardware.given_parameters` begin with the parameters of a board.

    A parameter file and options override them. With a memory among the options the read buffer is
    that memory's, not the board's.
    """
    chosen = getattr(arguments, "memory", None) is not None
    arguments.board_parameters = {
        field: (value, f"--board {board.name}: {field}")
        for field, value in board.defaults.items()
        if not (chosen and field in BUFFER_FIELDS)
    }
