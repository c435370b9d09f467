"""The best configuration for a head on a board, what binds it, and what more would bring."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

from host.boards.board import Board
from host.boards.fit import head_misfit
from host.console import StageProgress
from host.errors import UserError
from host.explore.area import lut4
from host.explore.board_memory import board_memory
from host.explore.head import SweptHead
from host.explore.point import Point
from host.explore.space import Space
from hw.config import FOLDS
from hw.resources import count
from sim.estimate import Estimate

TILE_ROWS = (16, 32, 64, 128, 256)
USABLE_LUTS = 0.85
"""Share of an FPGA's LUTs that a design can take and still be routed at its clock."""
EQUAL = 0.01
"""Speeds within this share count as equal: then the smaller configuration is better."""
MORE = 2
"""Times a resource that is asked what more of it would bring."""

counted = cache(count)


@dataclass(frozen=True)
class Supply:
    """What a board has for an accelerator."""

    lut: int
    """Usable LUTs; estimated are LUT4, of which LUT6 take no more."""
    dsp: int
    ram: int
    ports: int
    memories: int
    """Times the board's memory."""
    clock_hz: Fraction

    @classmethod
    def of(cls, board: Board, clock_hz: Fraction) -> "Supply":
        fpga = board.fpga
        lut = int(fpga.lut * USABLE_LUTS)
        return cls(lut, fpga.dsp, fpga.ram, board.memory.ports, 1, clock_hz)


RESOURCES = {
    "lut": "LUT",
    "dsp": "DSP",
    "ram": "block RAM",
    "ports": "memory ports",
    "memories": "memory bandwidth",
    "clock_hz": "clock",
}
"""Names of what a `Supply` has."""


@dataclass(frozen=True)
class Candidate:
    """A configuration that fits."""

    point: Point
    settings: Mapping[str, object]
    estimate: Estimate
    lut4: int


@dataclass(frozen=True)
class Suggestion:
    """What is best for a head on a board."""

    board: Board
    head: SweptHead
    best: Candidate
    supply: Supply
    used: dict[str, float]
    """Of each resource, as `Supply` counts it."""
    more: dict[str, float]
    """Tokens per second with `MORE` times as much of each."""
    considered: int
    """Configurations that were estimated."""


def suggest(
    board: Board,
    head: SweptHead,
    chosen: Mapping[str, tuple],
    clock_hz: Fraction,
    progress: StageProgress,
) -> Suggestion:
    """Find the fastest configuration that fits, of equally fast ones the smallest.

    Parameters
    ----------
    board : Board
        A real one.
    head : SweptHead
    chosen : dict of tuple
        Values of hardware parameters that are not left open, by name.
    clock_hz : Fraction
        Of the accelerator on that board.
    progress : callable

    Raises
    ------
    UserError
        No configuration fits; the message says what is missing.
    """
    supply = Supply.of(board, clock_hz)
    searches = [supply, *(replace(supply, **{n: getattr(supply, n) * MORE}) for n in RESOURCES)]
    found = []
    for number, each in enumerate(searches):
        progress("looking for the best configuration", number, len(searches))
        found.append(_best(board, head, chosen, each))
    progress("looking for the best configuration", len(searches), len(searches))
    best, considered = found[0]
    more = {
        name: candidate.estimate.tokens_per_s
        for name, (candidate, _) in zip(RESOURCES, found[1:], strict=True)
    }
    return Suggestion(board, head, best, supply, _used(best, board), more, considered)


def _space(board: Board, head: SweptHead, chosen: Mapping[str, tuple], supply: Supply) -> Space:
    channels = tuple(1 << n for n in range(4) if 1 << n <= supply.ports)
    values = {
        "bus_bits": board.memory.port_bits,
        "channels": channels,
        "tile_rows": TILE_ROWS,
        "fold": FOLDS,
        "dsp_pairs": (False, True),
        **chosen,
    }
    # An image decides its own format.
    values = {name: each for name, each in values.items() if name not in head.image_fields}
    values |= {"memory": (board.name,), "clock_mhz": (supply.clock_hz / 10**6,)}
    memories = {board.name: board_memory(board, supply.memories)}
    return Space(head, values, known=memories, family=board.family)


def _best(
    board: Board, head: SweptHead, chosen: Mapping[str, tuple], supply: Supply
) -> tuple[Candidate, int]:
    points = _space(board, head, chosen, supply).points()
    if not points.points:
        raise UserError(
            f"--board {board.name}",
            f"no configuration is possible: {next(iter(points.invalid), 'no values')}",
        )
    candidates = [
        Candidate(point, settings, estimate, lut4(point.config))
        for point, settings, estimate in zip(
            points.points, points.settings, points.estimates, strict=True
        )
    ]
    reasons: list[str] = []
    for group in _by_speed(candidates):
        # Only here designs are elaborated: of equally fast ones the smallest first.
        for candidate in sorted(group, key=lambda each: (each.lut4, each.point.config.tile_rows)):
            reason = _why_not(board, head, candidate, supply)
            if reason is None:
                return candidate, len(candidates)
            reasons.append(reason)
    raise UserError(f"--board {board.name}", f"no configuration fits: {reasons[-1]}")


def _by_speed(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Groups of candidates that are equally fast, the fastest first."""
    left = sorted(candidates, key=lambda each: -each.estimate.tokens_per_s)
    while left:
        least = (1 - EQUAL) * left[0].estimate.tokens_per_s
        group = [each for each in left if each.estimate.tokens_per_s >= least]
        yield group
        left = left[len(group) :]


def _why_not(board: Board, head: SweptHead, candidate: Candidate, supply: Supply) -> str | None:
    """Why a candidate does not fit, None if it does."""
    config = candidate.point.config
    if config.bus_bits not in board.memory.port_bits:
        widths = " or ".join(map(str, board.memory.port_bits))
        return f"the memory ports have {widths} bits, not {config.bus_bits}"
    if config.channels > supply.ports:
        return f"{config.channels} memory ports are needed, and there are {supply.ports}"
    misfit = head_misfit(board, config, head.rows, head.dim)
    if misfit is not None:
        return f"it {misfit.what}: {misfit.expected}, {misfit.found}"
    if candidate.lut4 > supply.lut:
        return f"{candidate.lut4:,} LUT are needed, and {supply.lut:,} can be used"
    used = _used(candidate, board)
    for name in ("dsp", "ram"):
        if used[name] > getattr(supply, name):
            there = getattr(supply, name)
            return f"{used[name]:,} {RESOURCES[name]} are needed, and there are {there:,}"
    return None


def _used(candidate: Candidate, board: Board) -> dict[str, float]:
    config, estimate = candidate.point.config, candidate.estimate
    resources = counted(config)
    rate = estimate.bytes_per_s / board.memory.peak_bytes_per_s
    return {
        "lut": candidate.lut4,
        "dsp": resources.dsp,
        "ram": resources.block_rams(board.family),
        "ports": config.channels,
        "memories": rate,
    }
