"""What fits on a board: configurations that cannot work, and the largest heads that can."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from host.boards.board import Board
from host.boards.heads import FORMATS, HEADS, ROWS, HeadFormat, KnownHead
from host.errors import UsageError, UserError
from host.jobs.buffers import place
from hw.config import HeadConfig
from hw.layout import ImageLayout
from hw.resources import Resources, buffers_of_dim, count


@dataclass(frozen=True)
class Misfit:
    """Why a configuration cannot work on a board."""

    what: str
    expected: str
    found: str


@dataclass(frozen=True)
class _Room:
    """The memory of a board as `host.jobs.buffers.place` sees a device."""

    name: str
    memory_bytes: int
    memory_base: int = 0


def port_misfit(board: Board, config: HeadConfig) -> Misfit | None:
    """Why the memory ports of a board are not those of a configuration."""
    memory = board.memory
    if config.bus_bits not in memory.port_bits:
        return Misfit(
            "has memory ports of another width (--bus-bits)",
            f"{' or '.join(map(str, memory.port_bits))} bits",
            f"{config.bus_bits}",
        )
    if config.channels > memory.ports:
        return Misfit(
            "has too few memory ports (--channels)",
            f"at most {memory.ports}",
            f"{config.channels}",
        )
    return None


def head_misfit(board: Board, config: HeadConfig, rows: int, dim: int) -> Misfit | None:
    """Why the image of a head and the buffers of its jobs do not fit the memory of a board."""
    room = _Room(board.name, board.memory.bytes - board.memory.reserved_bytes)
    try:
        place(config, ImageLayout(config, rows, dim), room, Path())
    except UserError:
        image = ImageLayout(config, rows, dim).bytes
        return Misfit(
            f"has too little memory for a head of {rows:,} x {dim:,} (--max-rows, --max-dim)",
            f"at most {room.memory_bytes:,} bytes with the buffers of jobs",
            f"{image:,} bytes of image",
        )
    return None


def logic_misfit(board: Board, resources: Resources) -> Misfit | None:
    """Why the multipliers or memories of a configuration do not fit the FPGA of a board."""
    fpga = board.fpga
    if resources.dsp > fpga.dsp:
        parts = ", ".join(f"{n} {kind}" for kind, n in resources.multipliers.items() if n)
        return Misfit(
            "has too few DSP blocks (fewer --bus-bits, --batch or --channels, more --fold)",
            f"at most {fpga.dsp}",
            f"{resources.dsp}: {parts}",
        )
    rams = resources.block_rams(fpga.family)
    if rams > fpga.ram:
        return Misfit(
            "has too few block RAMs (smaller --max-dim, --outstanding-bytes or --batch)",
            f"at most {fpga.ram}",
            f"{rams}",
        )
    return None


def check_fit(board: Board, config: HeadConfig) -> None:
    """Raise UsageError if a configuration cannot work on a board."""
    if board.fpga is None:
        return
    misfit = (
        port_misfit(board, config)
        or head_misfit(board, config, config.max_rows, config.max_dim)
        or logic_misfit(board, count(config))
    )
    if misfit is not None:
        where = f"--board {board.name}"
        raise UsageError(where, misfit.what, expected=misfit.expected, found=misfit.found)


def board_config(board: Board, head_format: HeadFormat, rows: int, dim: int) -> HeadConfig:
    """The hardware for a head of some format with the board's parameters."""
    sizes = {"max_rows": rows, "max_dim": dim}
    return HeadConfig(**(board.defaults | head_format.fields | sizes))


DIM_STEP = 32
"""Widths that are looked at, the columns of a group."""
MOST_DIM = 65536


@dataclass(frozen=True)
class FormatFit:
    """What a board with its own parameters can serve with weights of one format."""

    head_format: HeadFormat
    rows: int
    dim: int
    """Largest width of so many rows, a multiple of `DIM_STEP`; 0 if none fits."""
    heads: tuple[KnownHead, ...]
    """Of `HEADS`, those that fit."""


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest multiple of `DIM_STEP` up to `most` that fits, if all smaller ones do; or 0."""
    return DIM_STEP * bisect_left(
        range(1, most // DIM_STEP + 1), True, key=lambda step: not fits(DIM_STEP * step)
    )


def format_fit(board: Board, head_format: HeadFormat) -> FormatFit:
    """What a board can serve with weights of one format."""

    def in_memory(rows, dim):
        return head_misfit(board, board_config(board, head_format, rows, dim), rows, dim) is None

    def rams(dim):
        config = board_config(board, head_format, ROWS, dim)
        return config.channels * buffers_of_dim(config).block_rams(board.family)

    most = _largest(lambda dim: in_memory(ROWS, dim), MOST_DIM)
    # One count for all widths: with them only the buffers change that `rams` counts.
    reference = max(DIM_STEP, most)
    resources = count(board_config(board, head_format, ROWS, reference))
    others = resources.block_rams(board.family) - rams(reference)

    def in_logic(dim):
        return resources.dsp <= board.fpga.dsp and others + rams(dim) <= board.fpga.ram

    heads = tuple(head for head in HEADS if in_memory(head.rows, head.dim) and in_logic(head.dim))
    return FormatFit(head_format, ROWS, _largest(in_logic, most), heads)


def board_fit(board: Board) -> tuple[FormatFit, ...]:
    """What a board can serve, by weight format; nothing of no board."""
    if board.fpga is None:
        return ()
    return tuple(format_fit(board, head_format) for head_format in FORMATS)
