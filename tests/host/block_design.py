"""The calls that a Vivado script made of a stub, as the IP and the block design they describe."""

from dataclasses import dataclass, field
from pathlib import Path

INPUTS = {
    "clk_wiz": {"clk_in1"},
    "proc_sys_reset": {"ext_reset_in", "dcm_locked", "slowest_sync_clk"},
    "smartconnect": {"aclk", "aresetn"},
    "xlslice": {"Din"},
    "unembed": {"ap_clk", "ap_rst_n"},
}
"""Input pins of the cells by type, as AMD's product guides have them. All have to be connected."""

OUTPUTS = {
    "clk_wiz": {"clk_out1", "locked"},
    "proc_sys_reset": {"interconnect_aresetn", "peripheral_aresetn"},
    "smartconnect": set(),
    "xlslice": {"Dout"},
    "unembed": {"interrupt"},
    "zynq_ultra_ps_e": {"pl_clk0", "pl_resetn0", "emio_ttc0_wave_o"},
}


@dataclass
class Interface:
    """A bus interface of an IP."""

    properties: dict[str, str] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=dict)
    """Physical names by logical ones."""
    parameters: dict[str, str] = field(default_factory=dict)


class Calls:
    """What the stub recorded.

    Parameters
    ----------
    path : Path
        Its log.
    """

    def __init__(self, path: Path):
        self.all = [line.split("\t") for line in path.read_text().splitlines()]

    def of(self, name: str) -> list[list[str]]:
        """The words behind a command's name, for each of its calls."""
        return [words for command, *words in self.all if command == name]

    def index(self, *call: str) -> int:
        """Where the call is that begins with these words."""
        return next(i for i, words in enumerate(self.all) if words[: len(call)] == list(call))

    def interfaces(self) -> dict[str, Interface]:
        """The bus interfaces of the IP."""
        found = {name: Interface() for name, _ in self.of("ipx::add_bus_interface")}
        for name, value, where in (call for call in self.of("set_property") if len(call) == 3):
            parts = where.split("/")
            if parts[0] != "core" or len(parts) == 1:
                continue
            interface = found[parts[1]]
            if len(parts) == 2:
                interface.properties[name] = value
            elif name == "physical_name":
                interface.ports[parts[2]] = value
            elif name == "value":
                interface.parameters[parts[2]] = value
        return found

    def cells(self) -> dict[str, str]:
        """The type of each cell of the block design."""
        return {words[-1]: words[3].split(":")[2] for words in self.of("create_bd_cell")}

    def configuration(self, cell: str) -> dict[str, str]:
        """The parameters that a cell was given."""
        found = {}
        for words in self.of("set_property"):
            if words[0] == "-dict" and words[2] == cell:
                values = words[1].split()
                found |= dict(zip(values[::2], values[1::2], strict=True))
        return {name.removeprefix("CONFIG."): value for name, value in found.items()}

    def drivers(self) -> dict[str, str]:
        """The pin that drives each connected input."""
        found = {}
        for source, sink in self.of("connect_bd_net"):
            assert sink not in found, f"{sink} has two drivers"
            found[sink] = source
        return found

    def buses(self) -> dict[str, str]:
        """The slave interface that each master interface is connected to."""
        pairs = self.of("connect_bd_intf_net")
        found = dict(pairs)
        assert len(found) == len(set(found.values())) == len(pairs)
        return found
