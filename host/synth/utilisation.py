"""Cells counted, in all and by block."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from host.synth.netlist import Scope

CONNECTIONS = "connections"
"""What lies between blocks, and what several share."""
_CONTAINERS = re.compile(r"(channel|ranker)\d+|datapath")
"""Instances that only hold blocks."""
DSP_USES = ("dot", "scale", "term", "logsumexp", "other")


@dataclass
class Utilisation:
    """Cells of a design or of a part of it."""

    lut4: int = 0
    """LUTs: of 4 inputs on ECP5, carry chains and distributed RAM included; of up to 6 on AMD's."""
    ff: int = 0
    dsp: int = 0
    ram: float = 0
    """Block RAMs: of 18 Kbit on ECP5, of 36 Kbit on AMD's, a half one counts half."""
    instances: int = 1

    def add(self, kind: str, amount: float = 1) -> None:
        setattr(self, kind, getattr(self, kind) + amount)

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {
            "lut4": self.lut4,
            "ff": self.ff,
            "dsp": self.dsp,
            "ram": self.ram if self.ram % 1 else int(self.ram),
        }


def without_number(name: str) -> str:
    """An instance's name without its number and without what Amaranth adds to make it unique."""
    return re.sub(r"(_?\d+)+$", "", name.partition("$")[0])


def block_path(scope: Scope, own: str) -> tuple[str, Scope]:
    """Name of the block that a scope is in, and the path of its instance.

    Parameters
    ----------
    scope : Scope
    own : str
        What the design's own logic is called.
    """
    for depth, name in enumerate(scope):
        if not _CONTAINERS.fullmatch(name):
            return without_number(name), scope[: depth + 1]
    return own, ()


def by_block(
    cells: Iterable[tuple[Scope, str, float]], own: str = CONNECTIONS, order: Sequence[str] = ()
) -> dict[str, Utilisation]:
    """Cells by block: the blocks of `order`, others by name, `own` last.

    Parameters
    ----------
    cells : iterable of (Scope, str, float)
        Scope of a cell, its kind (a field of `Utilisation`) and how many of that kind it is.
    own : str
        What the design's own logic is called.
    order : sequence of str
    """
    rank = {name: index for index, name in enumerate(order)}
    blocks = {}
    instances = {}
    for scope, kind, amount in cells:
        name, path = block_path(scope, own)
        blocks.setdefault(name, Utilisation()).add(kind, amount)
        instances.setdefault(name, set()).add(path)
    for name, paths in instances.items():
        blocks[name].instances = len(paths)

    def place(item):
        return item[0] == own, rank.get(item[0], len(rank)), item[0]

    return dict(sorted(blocks.items(), key=place))


def dsp_use(scope: Scope) -> str:
    """What a DSP block multiplies, of `DSP_USES`: those that meet weights are the dot units'."""
    names = [without_number(name) for name in scope]
    if "farm" in names:
        inside = names[names.index("farm") + 1 :]
        return "scale" if any(name.startswith("scale") for name in inside) else "dot"
    if "terms" in names:
        return "term"
    return "logsumexp" if "logsumexp" in names else "other"


def dsp_uses(scopes: Iterable[Scope]) -> dict[str, int]:
    """DSP blocks by use, without those that there are not."""
    counted = Counter(map(dsp_use, scopes))
    return {use: counted[use] for use in DSP_USES if counted[use]}
