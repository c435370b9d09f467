"""Multipliers and block RAMs of an accelerator, counted in its elaborated design.

What synthesis makes of it is reported by `unembed synth`; these counts take a second and say what
cannot fit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from amaranth.hdl import Fragment, Shape
from amaranth.hdl._mem import MemoryInstance
from amaranth.lib.wiring import Component

from hw.config import HeadConfig, ceil_div
from hw.family import Family
from hw.head import Head
from hw.hidden import HiddenMemory
from hw.multiplier import Multiplier
from hw.scales import ScaleBuffer

_RAMB36 = ((72, 512), (36, 1024), (18, 2048), (9, 4096), (4, 8192), (2, 16384), (1, 32768))

BLOCK_RAMS = {
    "ecp5": ((36, 512), (18, 1024), (9, 2048), (4, 4096), (2, 8192), (1, 16384)),
    "7series": _RAMB36,
    "ultrascale+": _RAMB36,
}
"""Bits and words of a block RAM with a write and a read port, by FPGA family.

ECP5: Lattice FPGA-DS-02012, 18 Kbit. 7 series and UltraScale+: AMD UG473 and UG573, 36 Kbit.
"""

KINDS = ("dot", "scale", "terms", "logsumexp")


@dataclass(frozen=True)
class Resources:
    """What an accelerator takes of the blocks that an FPGA has few of.

    Parameters
    ----------
    multipliers : dict of int
        DSP blocks by what they multiply, see `KINDS`: weights and hidden values, group sums and
        their scales, row terms, the exponentials of the log-sum-exp.
    memories : tuple of (int, int)
        Bits and words of every memory that goes to block RAM.
    """

    multipliers: dict[str, int]
    memories: tuple[tuple[int, int], ...]

    @property
    def dsp(self) -> int:
        """DSP blocks in all."""
        return sum(self.multipliers.values())

    def block_rams(self, family: str) -> int:
        """Block RAMs of a family that the memories need at least."""
        return sum(block_rams(family, *memory) for memory in self.memories)


def block_rams(family: str, width: int, depth: int) -> int:
    """Block RAMs of a family for a memory of `depth` words of `width` bits."""
    if family == "ecp5":
        # Bits are spread over block RAMs, each as deep as the memory if there are such; see hw.ram.
        words = [block_width for block_width, most in BLOCK_RAMS[family] if most >= depth]
        if words:
            return ceil_div(width, max(words))
    return min(
        ceil_div(width, block_width) * ceil_div(depth, block_depth)
        for block_width, block_depth in BLOCK_RAMS[family]
    )


def _kind(path: tuple[str, ...]) -> str:
    """What a multiplier is for, by the names of the blocks around it."""
    if "farm" in path:
        return "scale" if "scale_product" in path else "dot"
    if any(name.startswith("logsumexp") for name in path):
        return "logsumexp"
    return "terms"


def _blocks(fragment: Fragment, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple, Fragment]]:
    """The blocks of a design with their paths, from the outside."""
    yield path, fragment
    for child, name, _ in fragment.subfragments:
        yield from _blocks(child, (*path, str(name)))


def _count(component: Component) -> Resources:
    multipliers = dict.fromkeys(KINDS, 0)
    memories = []
    for path, fragment in _blocks(Fragment.get(component, Family())):
        if any(isinstance(origin, Multiplier) for origin in fragment.origins or ()):
            multipliers[_kind(path)] += 1
        if isinstance(fragment, MemoryInstance) and fragment._attrs.get("ram_style") == "block":
            memories.append((Shape.cast(fragment._data.shape).width, fragment._data.depth))
    return Resources(multipliers, tuple(memories))


def count(config: HeadConfig) -> Resources:
    """What an accelerator takes.

    The portable form is counted: those of the families have the same multipliers and memories.
    """
    return _count(Head(config))


def buffers_of_dim(config: HeadConfig) -> Resources:
    """The part of a channel's memories that grows with `max_dim`, which takes less time to count:
    the hidden states and the scales."""
    hidden, scales = (_count(block(config)) for block in (HiddenMemory, ScaleBuffer))
    return Resources({}, hidden.memories + scales.memories)
