"""Which block of the design a cell of a synthesised netlist belongs to.

Synthesis works on the flattened design, as it must to be good, so blocks are found again:

- Flip-flops, carry chains, memories and multipliers know the line of Verilog they are from.
- A LUT has no origin any more. It counts for the block whose cells it feeds; one that feeds several
  blocks, for what contains them, as does the logic between blocks. One that feeds only outputs of
  the design counts for the innermost block in which its net has a name; without a name, for the
  block whose registers it comes from.

A scope is the path of an instance below the design, such as ``("channel0", "reader")``.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping

from host.synth.wrapper import CAPTURE, DESIGN, FOLD, STIMULUS

Scope = tuple[str, ...]
WRAPPER: Scope = ("(wrapper)",)
"""The scope of the register wrapper's cells."""

LUTS = {"LUT4", "PFUMX", "L6MUX21", *(f"LUT{n}" for n in (1, 2, 3, 5, 6)), "INV", "MUXF7", "MUXF8"}
"""Cells that have lost their origin."""
_IGNORED = {"$scopeinfo"}


def common(scopes: Iterable[Scope]) -> Scope:
    """The innermost scope that contains all of some."""
    scopes = iter(scopes)
    found = next(scopes)
    for scope in scopes:
        length = 0
        while length < min(len(found), len(scope)) and found[length] == scope[length]:
            length += 1
        found = found[:length]
    return found


def _bits(cell: dict, direction: str) -> list[int]:
    """Nets at the pins of a cell that have a direction, without constants."""
    return [
        bit
        for pin, bits in cell["connections"].items()
        if cell["port_directions"].get(pin) == direction
        for bit in bits
        if isinstance(bit, int)
    ]


class Netlist:
    """A netlist in Yosys' JSON, whose top is the design or the register wrapper around it.

    Parameters
    ----------
    module : dict
        The top module.

    Attributes
    ----------
    cells : dict
        By name; without what Yosys only notes.
    scopes : dict
        Scope of each cell.
    names : dict
        Of each named net its name and the innermost scope in which it has one, by bit.
    """

    def __init__(self, module: Mapping):
        self.cells = {
            name: cell for name, cell in module["cells"].items() if cell["type"] not in _IGNORED
        }
        notes = {
            name: cell for name, cell in module["cells"].items() if cell["type"] == "$scopeinfo"
        }
        self._wrapped = DESIGN in notes
        self._paths = {name: _instance_path(name, note) for name, note in notes.items()}
        self._lines = self._module_lines(module, notes)
        self.names = self._net_names(module)
        self.scopes = self._scopes()

    def _scope(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The scope of a path from the top; with an instance of the wrapper in front there."""
        if not self._wrapped:
            return (DESIGN, *path)
        return path

    def _module_lines(self, module, notes) -> dict[str, tuple[list[int], list[tuple[str, ...]]]]:
        """Of each file the first lines of its modules, ascending, and their paths."""
        found = defaultdict(list)
        if not self._wrapped:
            file, line = _place(module["attributes"]["src"])
            found[file].append((line, ()))
        for name, note in notes.items():
            file, line = _place(note["attributes"]["module_src"])
            found[file].append((line, self._paths[name]))
        return {
            file: tuple(map(list, zip(*sorted(entries), strict=True)))
            for file, entries in found.items()
        }

    def _net_names(self, module) -> dict[int, tuple[str, tuple[str, ...]]]:
        names = {}
        for net in module["netnames"].values():
            hdlname = net["attributes"].get("hdlname")
            if hdlname is None:
                continue
            *path, name = hdlname.split(" ")
            offset = net.get("offset", 0)
            for index, bit in enumerate(net["bits"]):
                if isinstance(bit, int):
                    known = names.get(bit)
                    if known is None or len(path) > len(known[1]):
                        indexed = f"{name}[{index + offset}]" if len(net["bits"]) > 1 else name
                        names[bit] = indexed, tuple(path)
        return names

    def _origin(self, name: str, cell: dict) -> tuple[str, ...] | None:
        """The path in which a cell was written down."""
        paths = []
        for source in cell["attributes"].get("src", "").split("|"):
            file, line = _place(source)
            if file in self._lines:
                starts, there = self._lines[file]
                paths.append(there[bisect_right(starts, line) - 1])
        if paths:
            # One that was merged with a register of the wrapper is needed without that, too.
            return next((path for path in paths if self._scope(path)[:1] == (DESIGN,)), paths[0])
        while name:
            if name in self._paths:
                return self._paths[name]
            name = name.rpartition(".")[0]
        return None

    def _scopes(self) -> dict[str, Scope]:
        found = {}
        waiting = {}
        sinks = defaultdict(list)
        drivers = {}
        for name, cell in self.cells.items():
            for bit in _bits(cell, "input"):
                sinks[bit].append(name)
            drivers |= dict.fromkeys(_bits(cell, "output"), name)
            path = None if cell["type"] in LUTS else self._origin(name, cell)
            if path is None:
                waiting[name] = _bits(cell, "output")
            else:
                found[name] = self._scope(path)
        # Depth first, a cell after all that it feeds.
        entered = set()
        stack = list(waiting)
        while stack:
            name = stack.pop()
            if name in found:
                continue
            fed = {sink for bit in waiting[name] for sink in sinks[bit]}
            if name not in entered:
                entered.add(name)
                stack.append(name)
                stack.extend(sink for sink in fed if sink not in found and sink not in entered)
                continue
            inputs = {drivers[bit] for bit in _bits(self.cells[name], "input") if bit in drivers}
            found[name] = self._fed_scope(
                waiting[name],
                [found[sink] for sink in fed if sink in found],
                [found[driver] for driver in inputs if driver in found],
            )
        return {name: self._inside(path) for name, path in found.items()}

    def _fed_scope(
        self,
        outputs: list[int],
        fed: list[tuple[str, ...]],
        feeding: list[tuple[str, ...]],
    ) -> tuple[str, ...]:
        """Scope of a LUT, from the scopes that it feeds and those that feed it."""
        inside = [scope for scope in fed if scope[0] == DESIGN]
        if inside:
            return common(inside)
        if any(scope[0] == FOLD for scope in fed):
            return (FOLD,)
        named = [self.names[bit][1] for bit in outputs if bit in self.names]
        named = [self._scope(path) for path in named]
        inside = [path for path in named if path[0] == DESIGN]
        if inside:
            return max(inside, key=len)
        inside = [scope for scope in feeding if scope[0] == DESIGN]
        return common(inside) if inside else (DESIGN,)

    def _inside(self, path: tuple[str, ...]) -> Scope:
        """A path as a scope of the design, or `WRAPPER`."""
        if path[0] == DESIGN:
            return path[1:]
        return WRAPPER if path[0] in (STIMULUS, CAPTURE, FOLD) else ()

    def register(self, cell: str) -> str:
        """The name of a register in the design, or of what else a path begins or ends at."""
        bits = _bits(self.cells[cell], "output")
        for bit in bits:
            if bit in self.names:
                name, path = self.names[bit]
                return ".".join((*self._inside(self._scope(path)), name))
        return ".".join((*self.scopes[cell], self.cells[cell]["type"]))


def _instance_path(name: str, note: dict) -> tuple[str, ...]:
    """The path of an instance from the top, from Yosys' note of it."""
    return tuple(note["attributes"].get("hdlname", name).split(" "))


def _place(source: str) -> tuple[str, int]:
    """File and line of Yosys' attribute ``src``."""
    file, _, rest = source.partition(":")
    line = rest.partition(".")[0]
    return file, int(line) if line.isdigit() else 0
