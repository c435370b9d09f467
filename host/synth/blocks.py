"""The accelerator and those of its blocks that can be synthesised alone, as Verilog."""

import importlib.metadata
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import hw
from host.errors import UsageError
from host.options.hardware import OPTIONS
from host.synth.target import Target
from hw.config import HeadConfig
from sim.build import no_progress
from sim.cache import cached, digest
from sim.toolchain import Progress

HEAD = "unembed"
"""Module of the whole accelerator."""


@dataclass(frozen=True)
class Block:
    """A block of the accelerator.

    Attributes
    ----------
    what : str
    module, component : str
        Of `hw`.
    needs : str, optional
        What a configuration without such a block has not.
    arguments : callable
        What the component takes besides the configuration.
    """

    what: str
    module: str
    component: str
    needs: str | None = None
    arguments: Callable[[HeadConfig], tuple] = lambda config: ()

    def make(self, config: HeadConfig):
        """The block as an Amaranth component."""
        component = getattr(import_module(f"hw.{self.module}"), self.component)
        return component(config, *self.arguments(config))


def _first(config: HeadConfig) -> tuple[int]:
    """The first channel or ranker."""
    return (0,)


def _vectors(config: HeadConfig) -> tuple[int]:
    """The states of the first ranker."""
    return (config.ranker_vectors(0),)


BLOCKS = {
    "reader": Block("AXI read master with its buffer", "reader", "Reader"),
    "unpacker": Block("parts of the stream told apart", "unpack", "Unpacker"),
    "loader": Block("hidden states from beats to the memory", "hidden", "HiddenLoader"),
    "hidden": Block("memory of the hidden states", "hidden", "HiddenMemory"),
    "parameters": Block(
        "parameters of the states", "parameters", "Parameters", needs="has_parameters"
    ),
    "header": Block("header of a tile taken apart", "header", "HeaderFork"),
    "scales": Block("buffer of the scales", "scales", "ScaleBuffer"),
    "farm": Block("multipliers, adder trees, scales, accumulators", "farm", "DotFarm"),
    "datapath": Block("from the reader to sums, connected", "datapath", "DataPath"),
    "queue": Block("rows that wait for the top-k", "rows", "RowQueue"),
    "terms": Block("bias and bound of a row", "terms", "RowTerms", needs="terms"),
    "topk": Block("the best rows of a state", "topk", "TopK"),
    "logsumexp": Block(
        "sum of exponentials", "logsumexp", "LogSumExp", needs="logsumexp", arguments=_vectors
    ),
    "ranker": Block("from sums to the best rows, connected", "ranker", "Ranker"),
    "mask": Block("buffer of the masks", "mask", "MaskBuffer", needs="mask"),
    "logits": Block(
        "all logits into beats", "logits", "LogitsWriter", needs="all_logits", arguments=_first
    ),
    "channel": Block("a memory channel, connected", "channel", "MemoryChannel", arguments=_first),
    "plan": Block("shape of a job", "plan", "TilePlan"),
    "results": Block("the results merged into a block", "results", "ResultBuffer"),
    "writer": Block("AXI write master with its buffer", "writer", "Writer"),
    "control": Block("the states of a job", "control", "JobControl"),
    "registers": Block("AXI-Lite registers", "registers", "Registers"),
    "counters": Block("what is counted", "counters", "Counters"),
}
"""Blocks by the names that they have in reports."""


_WANTED = {
    "terms": "--bias or --bound",
    "has_parameters": "--bias, --bound or --logsumexp",
}
"""Options that bring what `Block.needs` names, where it is no option."""


def design_verilog(
    config: HeadConfig, target: Target, block: str | None = None, progress: Progress = no_progress
) -> str:
    """Verilog of the accelerator, or of one block of it, for a family; cached.

    The top module is `HEAD` or has the name of the block.

    Raises
    ------
    UsageError
        The configuration has no such block, or asks for what the family cannot do.
    """
    if block is not None:
        needed = BLOCKS[block].needs
        if needed and not getattr(config, needed):
            wanted = _WANTED.get(needed, f"--{needed.replace('_', '-')}")
            raise UsageError("--block", f"{block} is built only with {wanted}")
    sources = sorted(Path(hw.__file__).parent.glob("**/*.py"))
    key = digest(
        [
            repr(config),
            target.hdl_family,
            block or HEAD,
            importlib.metadata.version("amaranth"),
            *(part for path in sources for part in (path.name, path.read_bytes())),
        ]
    )

    def build(entry):
        progress("generating Verilog", 0, 1)
        try:
            text = _generate(config, target, block)
        except ValueError as error:
            # What the family's blocks cannot do.
            field = str(error).partition(" ")[0]
            raise UsageError(OPTIONS.get(field, "hardware parameters"), str(error)) from None
        (entry / "design.v").write_text(text)

    return (cached(f"design-{key}", build) / "design.v").read_text()


def _generate(config: HeadConfig, target: Target, block: str | None) -> str:
    from amaranth.back import verilog

    from hw.family import Family
    from hw.verilog import check_family, generate

    check_family(config, target.hdl_family)
    if block is None:
        return generate(config, target.hdl_family)
    component = BLOCKS[block].make(config)
    platform = Family(target.hdl_family)
    return verilog.convert(component, platform=platform, name=block, emit_src=False)
