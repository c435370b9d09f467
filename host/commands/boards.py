"""`unembed boards`: the boards, their facts with sources, and the largest heads that fit."""

import argparse

from rich.table import Table

from host.boards.board import BOARDS, Board, board
from host.boards.fit import FormatFit, board_fit
from host.boards.heads import HEADS, ROWS
from host.console import print_json, print_table, stages

NAME = "boards"
HELP = "list the boards with clock, memory and the largest heads that fit"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "board", nargs="?", choices=BOARDS, metavar="NAME", help="all facts of one board"
    )
    parser.add_argument("--json", action="store_true", help="all of it as JSON")


def _fits(boards: list[Board]) -> dict[str, tuple[FormatFit, ...]]:
    fits = {}
    with stages() as progress:
        for index, one in enumerate(boards):
            progress("looking for the largest heads", index, len(boards))
            fits[one.name] = board_fit(one)
        progress("looking for the largest heads", len(boards), len(boards))
    return fits


def _fit_document(fit: FormatFit) -> dict[str, object]:
    return {
        "rows": fit.rows,
        "dim": fit.dim,
        "models": [head.model for head in fit.heads],
    }


def document(one: Board, fits: tuple[FormatFit, ...]) -> dict[str, object]:
    """A board as JSON has it."""
    facts = {}
    for fact in one.facts:
        table, key = fact.name.split(".")
        facts.setdefault(table, {})[key] = {"value": fact.value, "source": fact.source}
    return {
        "name": one.name,
        "title": one.title,
        **facts,
        "defaults": one.defaults,
        "largest_heads": {fit.head_format.name: _fit_document(fit) for fit in fits},
    }


def _size(count: int) -> str:
    """Bytes in binary units."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count:,} bytes"


def _list(boards: list[Board], fits: dict[str, tuple[FormatFit, ...]]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("board", "FPGA"):
        table.add_column(name)
    for name in ("clock", "memory", "ports", "peak"):
        table.add_column(name, justify="right")
    for name in ("int8", "int4"):
        table.add_column(f"largest d, {name}", justify="right")
    for one in boards:
        if one.fpga is None:
            table.add_row(one.name, one.title, *["-"] * 6)
            continue
        memory = one.memory
        table.add_row(
            one.name,
            one.fpga.part,
            f"{one.clock.mhz} MHz",
            _size(memory.bytes),
            f"{memory.ports} x {max(memory.port_bits)}",
            f"{memory.peak_bytes_per_s / 1e9:g} GB/s",
            *(f"{fit.dim:,}" for fit in fits[one.name]),
        )
    print_table(table)
    print(f"largest d: widest head of {ROWS:,} rows that fits, groups of 32")


def _show(one: Board, fits: tuple[FormatFit, ...]) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_column(overflow="fold")
    for fact in one.facts:
        value = fact.value
        if isinstance(value, list):
            value = " or ".join(map(str, value))
        shown = f"{value:,}" if isinstance(value, int) else value
        table.add_row(fact.name.replace("_", " ").replace(".", " "), shown, fact.source)
    for name, value in one.defaults.items():
        table.add_row(f"default {name.replace('_', ' ')}", f"{value:,}", "")
    print(f"{one.name}: {one.title}")
    print_table(table)
    if fits:
        _show_heads(one, fits)


def _show_heads(one: Board, fits: tuple[FormatFit, ...]) -> None:
    """The bytes of each known head where it fits, and the widest head of a usual vocabulary."""
    from host.boards.fit import board_config

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("head")
    for name in ("rows", "d", *(fit.head_format.name for fit in fits)):
        table.add_column(name, justify="right")
    for head in HEADS:
        cells = []
        for fit in fits:
            config = board_config(one, fit.head_format, head.rows, head.dim)
            size = f"{head.image_bytes(config):,}"
            cells.append(size if head in fit.heads else "-")
        table.add_row(head.model, f"{head.rows:,}", f"{head.dim:,}", *cells)
    table.add_row("largest d that fits", f"{ROWS:,}", "", *(f"{fit.dim:,}" for fit in fits))
    print()
    print_table(table)


def run(arguments: argparse.Namespace) -> int:
    names = BOARDS if arguments.board is None else (arguments.board,)
    boards = [board(name) for name in names]
    fits = _fits(boards)
    if arguments.json:
        documents = [document(one, fits[one.name]) for one in boards]
        print_json({"boards": documents} if arguments.board is None else documents[0])
    elif arguments.board is None:
        _list(boards, fits)
    else:
        _show(boards[0], fits[boards[0].name])
    return 0
