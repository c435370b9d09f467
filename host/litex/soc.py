"""The system on the FPGA, the same for every board and for simulation.

Imported only where LiteX is installed: by the programs that write Verilog, never by the host.
"""

from litedram.init import cmds, get_sdram_phy_init_sequence
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import wishbone
from litex.soc.interconnect.csr import CSRStatus, CSRStorage
from migen import If

from host.litex.accelerator import REGISTER_BYTES, Accelerator
from host.litex.checksum import MemoryChecksum

DFII_BITS = {
    "DFII_CONTROL_SEL": 1,
    "DFII_CONTROL_CKE": 2,
    "DFII_CONTROL_ODT": 4,
    "DFII_CONTROL_RESET_N": 8,
    "DFII_COMMAND_CS": 1,
    "DFII_COMMAND_WE": 2,
    "DFII_COMMAND_CAS": 4,
    "DFII_COMMAND_RAS": 8,
}
"""LiteDRAM's names in its initialisation sequences, as its registers hold them."""

REGISTER_ORIGIN = 0x3000_0000
"""Of the accelerator's registers on the bus; the DRAM begins at 0x4000_0000."""


class Link(LiteXModule):
    """What the host needs to know of the bridge and of what it did before.

    Attributes
    ----------
    cycles : CSRStatus
        Clocks since the start, modulo 2^32: for deadlines.
    writes : CSRStatus
        Writes that the bridge has brought, modulo 2^32. Those of Etherbone are not acknowledged, so
        that the host counts them.
    memory_ready : CSRStorage
        Set by the host when it has initialised the DRAM; cleared by a reset.

    Parameters
    ----------
    bus : litex.soc.interconnect.wishbone.Interface
        The bridge's.
    """

    def __init__(self, bus):
        self.cycles = CSRStatus(32)
        self.writes = CSRStatus(32)
        self.memory_ready = CSRStorage()
        self.sync += [
            self.cycles.status.eq(self.cycles.status + 1),
            If(
                bus.cyc & bus.stb & bus.we & bus.ack,
                self.writes.status.eq(self.writes.status + 1),
            ),
        ]


class RegisteredBridge(LiteXModule):
    """Flip-flops between the bridge and the bus, both ways; an access takes two clocks more.

    Etherbone's requests come out of a block RAM, whose data are 5 ns late, and what the bus answers
    moves that RAM's read address: together with the bus's decoder that was 54 MHz.

    Parameters
    ----------
    bridge : litex.soc.interconnect.wishbone.Interface
        The bridge's, a master.

    Attributes
    ----------
    bus : litex.soc.interconnect.wishbone.Interface
        The same master, for the system's bus.
    """

    def __init__(self, bridge):
        self.bus = bus = wishbone.Interface.like(bridge)
        # The request that is answered stays for the clock of its answer.
        answered = bridge.ack | bridge.err
        self.sync += [
            bridge.ack.eq(0),
            bridge.err.eq(0),
            If(
                bus.cyc,
                If(
                    bus.ack | bus.err,
                    bus.cyc.eq(0),
                    bus.stb.eq(0),
                    bridge.dat_r.eq(bus.dat_r),
                    bridge.ack.eq(bus.ack),
                    bridge.err.eq(bus.err),
                ),
            ).Elif(
                bridge.cyc & bridge.stb & ~answered,
                *(
                    getattr(bus, name).eq(getattr(bridge, name))
                    for name in ("adr", "dat_w", "sel", "we", "cyc", "stb")
                ),
            ),
        ]


def _command_bits(names: str) -> int:
    return sum(DFII_BITS[name] for name in names.split("|"))


class HeadSoC(SoCMini):
    """A system without a CPU: DRAM controller, accelerator, checksum unit, and the host's bridge.

    The bridge is added by the caller with `add_bridge`, after which nothing may be added.

    Parameters
    ----------
    platform : litex.build.generic_platform.GenericPlatform
    clock_hz : float
        Of bus, controller and accelerator.
    phy : Module
        The DRAM's PHY, with its registers; its initialisation sequence is exported as constants.
    module : litedram.modules.SDRAMModule
    verilog : str
        File with the accelerator's Verilog.
    ident : str
        Text in the system's identifier ROM; none if empty.
    """

    def __init__(self, platform, clock_hz: float, phy, module, verilog: str, ident: str):
        super().__init__(platform, int(clock_hz), ident=ident, ident_version=False)
        self.ddrphy = phy
        # A cache would keep what the accelerator has written from the host, and the reverse.
        self.add_sdram("sdram", phy=phy, module=module, l2_cache_size=0)
        self.unembed = Accelerator(platform, verilog, self.sdram.crossbar.get_port())
        self.bus.add_slave(
            "unembed",
            self.unembed.control,
            SoCRegion(origin=REGISTER_ORIGIN, size=REGISTER_BYTES, cached=False),
        )
        self.checksum = MemoryChecksum(self.sdram.crossbar.get_port(mode="read"))
        self._export_memory(phy.settings, module.timing_settings)

    def _export_memory(self, settings, timings) -> None:
        """Constants for the host: what it needs to initialise the DRAM."""
        for name in ("phases", "rdphase", "wrphase", "databits", "bitslips", "delays"):
            value = settings.nphases if name == "phases" else getattr(settings, name)
            self.add_constant(f"sdram_{name}", int(value))
        sequence, _ = get_sdram_phy_init_sequence(settings, timings)
        self.add_constant("sdram_init_steps", len(sequence))
        for step, (_, address, bank, command, delay) in enumerate(sequence):
            is_control = command in (cmds["UNRESET"], cmds["CKE"])
            values = {
                "address": address,
                "bank": bank,
                "control": _command_bits(command) if is_control else 0,
                "command": 0 if is_control else _command_bits(command),
                "delay": delay,
            }
            for name, value in values.items():
                self.add_constant(f"sdram_init{step}_{name}", value)

    def add_bridge(self, name: str, bus) -> None:
        """Connect the host's bridge, a Wishbone master, and count its writes."""
        self.bridge = RegisteredBridge(bus)
        self.bus.add_master(name, self.bridge.bus)
        self.link = Link(self.bridge.bus)
