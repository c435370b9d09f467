"""The accelerator's Verilog as a LiteX module; imported only where LiteX is installed."""

from litedram.frontend.axi import LiteDRAMAXI2Native
from litex.gen import LiteXModule
from litex.soc.interconnect import axi
from litex.soc.interconnect.csr import CSRStatus
from migen import ClockSignal, Instance, ResetSignal, Signal

from hw.register_map import ADDRESS_BITS

MODULE = "unembed"

REGISTER_BYTES = 1 << ADDRESS_BITS
"""The window of its registers."""

READ_BUFFER_BEATS = 64
"""What the adapter to the native port may have under way: a largest burst of the reader. As the
accelerator takes every beat at once, the rate is the same with 16, the default."""

_ADDRESS_PINS = ("len", "size", "burst", "lock", "cache", "prot", "qos")


def _instance_pins(
    bus: axi.AXIInterface, control: axi.AXILiteInterface, addresses: dict[str, Signal]
) -> dict:
    """Arguments of the instance for all AXI pins; `addresses` has those of `bus` in full width."""
    pins = {}

    def connect(prefix, channel, name, fields, is_source):
        out, into = ("o", "i") if is_source else ("i", "o")
        for field in fields:
            pins[f"{out}_{prefix}{name}{field}"] = getattr(channel, field)
        pins[f"{out}_{prefix}{name}valid"] = channel.valid
        pins[f"{into}_{prefix}{name}ready"] = channel.ready

    memory = "m_axi_gmem0_"
    for name in ("ar", "aw"):
        connect(memory, getattr(bus, name), name, (*_ADDRESS_PINS, "id"), True)
        pins[f"o_{memory}{name}addr"] = addresses[name]
    connect(memory, bus.w, "w", ("data", "strb", "last"), True)
    connect(memory, bus.b, "b", ("resp", "id"), False)
    connect(memory, bus.r, "r", ("data", "resp", "last", "id"), False)
    registers = "s_axi_control_"
    for name in ("ar", "aw"):
        connect(registers, getattr(control, name), name, (), False)
        pins[f"i_{registers}{name}addr"] = getattr(control, name).addr[:ADDRESS_BITS]
        pins[f"i_{registers}{name}prot"] = 0
    connect(registers, control.w, "w", ("data", "strb"), False)
    connect(registers, control.b, "b", ("resp",), True)
    connect(registers, control.r, "r", ("data", "resp"), True)
    return pins


class Accelerator(LiteXModule):
    """The accelerator between a port of the DRAM controller and the system's bus.

    Its addresses are those of the DRAM, from 0.

    Parameters
    ----------
    platform : litex.build.generic_platform.GenericPlatform
    verilog : str
        The file with its Verilog.
    port : litedram.common.LiteDRAMNativePort
        As wide as its memory bus.

    Attributes
    ----------
    control : AXILiteInterface
        Its registers, for the system's bus.
    interrupt : CSRStatus
    """

    def __init__(self, platform, verilog: str, port):
        self.control = axi.AXILiteInterface(data_width=32, address_width=32)
        self.interrupt = CSRStatus(description="The accelerator's interrupt, a level.")
        # Adders of 64 bits would be the slowest part of the adapter, and the memory has 512 MB.
        bus = axi.AXIInterface(data_width=port.data_width, address_width=32, id_width=1)
        addresses = {"ar": Signal(64), "aw": Signal(64)}
        self.comb += [getattr(bus, name).addr.eq(address) for name, address in addresses.items()]
        self.memory = LiteDRAMAXI2Native(
            bus, port, r_buffer_depth=READ_BUFFER_BEATS, base_address=0
        )
        self.specials += Instance(
            MODULE,
            i_ap_clk=ClockSignal("sys"),
            i_ap_rst_n=~ResetSignal("sys"),
            o_interrupt=self.interrupt.status,
            **_instance_pins(bus, self.control, addresses),
        )
        platform.add_source(verilog)
