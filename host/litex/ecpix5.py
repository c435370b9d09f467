"""The ECPIX-5: clocks, DDR3 and bridge around `HeadSoC`; runs where LiteX is installed.

    python -m host.litex.ecpix5 DESCRIPTION.json

in the folder that receives ``ecpix5.v``, ``ecpix5.lpf``, ``ecpix5.ys`` and ``csr.csv``. The
description is that of `host.litex.build.SystemOptions`.
"""

import json
import sys
from pathlib import Path

from litedram.modules import MT41K256M16, _SpeedgradeTimings
from litedram.phy import ECP5DDRPHY
from liteeth.core import LiteEthUDPIPCore
from liteeth.frontend.etherbone import LiteEthEtherbone
from liteeth.phy.ecp5rgmii import LiteEthPHYRGMII
from litex.gen import ClockDomain, ClockDomainsRenamer, LiteXModule
from litex.soc.cores import uart
from litex.soc.cores.clock import ECP5PLL
from litex.soc.integration.builder import Builder
from litex_boards.platforms import lambdaconcept_ecpix5
from migen import ClockSignal, If, Instance, ResetSignal, Signal
from migen.genlib.resetsync import AsyncResetSynchronizer

from host.litex.soc import HeadSoC

NAME = "ecpix5"
BAUD_RATE = 1_000_000
UDP_CLOCK_HZ = 50e6
"""The UDP stack takes 32 bits a clock, 1.6 times what 1 Gbit/s brings. In the domain of the bus its
chain of READY signals would be the slowest path of all."""
ETHERBONE_WORDS = 256
"""Of the bridge's buffers: a record, which is executed when it is complete, has up to 255."""


class Ddr3(MT41K256M16):
    """The board's DDR3 of 4 Gbit.

    LiteDRAM states tRFC as 208 clocks, which are 1.25 ns in a DDR3-1600 and 6.7 ns here. Micron's
    data sheet of the MT41K256M16 has 260 ns for 4 Gbit.
    """

    _grade = MT41K256M16.speedgrade_timings["1600"]
    speedgrade_timings = {
        "default": _SpeedgradeTimings(
            tRP=_grade.tRP,
            tRCD=_grade.tRCD,
            tWR=_grade.tWR,
            tRFC=(None, 260),
            tFAW=_grade.tFAW,
            tRAS=_grade.tRAS,
        )
    }


class ClockGenerator(LiteXModule):
    """System clock from the PLL through the edge clock of the DDR3, as the PHY wants it.

    The board's reset button is not used: two published board files disagree about its pin, and a
    wrong one could hold everything in reset.

    Parameters
    ----------
    platform : litex_boards.platforms.lambdaconcept_ecpix5.Platform
    clock_hz : float
    with_udp : bool
        Make the clock of the UDP stack as well.
    """

    def __init__(self, platform, clock_hz: float, with_udp: bool):
        self.rst = Signal()
        self.stop = Signal()
        self.reset = Signal()
        self.cd_init = ClockDomain()
        self.cd_por = ClockDomain()
        self.cd_sys = ClockDomain()
        self.cd_sys2x = ClockDomain()
        self.cd_sys2x_i = ClockDomain()

        input_clock = platform.request("clk100")
        left = Signal(16, reset=2**16 - 1)
        self.comb += self.cd_por.clk.eq(input_clock)
        self.sync.por += If(left != 0, left.eq(left - 1))

        self.pll = pll = ECP5PLL()
        self.comb += pll.reset.eq((left != 0) | self.rst)
        pll.register_clkin(input_clock, 100e6)
        pll.create_clkout(self.cd_sys2x_i, 2 * clock_hz)
        pll.create_clkout(self.cd_init, 25e6)
        if with_udp:
            self.cd_udp = ClockDomain()
            pll.create_clkout(self.cd_udp, UDP_CLOCK_HZ)
        self.specials += [
            Instance(
                "ECLKSYNCB",
                i_ECLKI=self.cd_sys2x_i.clk,
                i_STOP=self.stop,
                o_ECLKO=self.cd_sys2x.clk,
            ),
            Instance(
                "CLKDIVF",
                p_DIV="2.0",
                i_ALIGNWD=0,
                i_CLKI=self.cd_sys2x.clk,
                i_RST=self.reset,
                o_CDIVX=self.cd_sys.clk,
            ),
            AsyncResetSynchronizer(self.cd_sys, ~pll.locked | self.reset),
        ]


def add_uart(soc: HeadSoC) -> None:
    """The bridge over the board's USB serial port."""
    soc.uart_phy = uart.UARTPHY(soc.platform.request("serial"), soc.sys_clk_freq, BAUD_RATE)
    soc.uartbone = uart.UARTBone(
        soc.uart_phy, soc.sys_clk_freq, address_width=soc.bus.address_width
    )
    soc.add_bridge("uartbone", soc.uartbone.wishbone)


def add_ethernet(soc: HeadSoC, ip_address: str, mac_address: int, udp_port: int) -> None:
    """The bridge over the board's Ethernet port."""
    soc.ethphy = LiteEthPHYRGMII(
        soc.platform.request("eth_clocks"), soc.platform.request("eth"), rx_delay=0e-9
    )
    core = LiteEthUDPIPCore(
        soc.ethphy,
        mac_address,
        ip_address,
        clk_freq=UDP_CLOCK_HZ,
        dw=32,
        with_sys_datapath=True,
    )
    soc.ethcore = ClockDomainsRenamer({"sys": "udp"})(core)
    # The system's clock under a name that the renaming does not touch.
    soc.cd_etherbone = ClockDomain()
    soc.comb += [
        soc.cd_etherbone.clk.eq(ClockSignal("sys")),
        soc.cd_etherbone.rst.eq(ResetSignal("sys")),
    ]
    soc.etherbone = LiteEthEtherbone(
        core.udp, udp_port, buffer_depth=ETHERBONE_WORDS, cd="etherbone"
    )
    soc.add_bridge("etherbone", soc.etherbone.wishbone.bus)


def build(description: dict) -> HeadSoC:
    """The system that a description asks for."""
    platform = lambdaconcept_ecpix5.Platform(device="85F", toolchain="trellis")
    clock_hz = description["clock_hz"]
    with_ethernet = description["bridge"] == "ethernet"
    clocks = ClockGenerator(platform, clock_hz, with_ethernet)
    phy = ECP5DDRPHY(platform.request("ddram"), sys_clk_freq=clock_hz)
    module = Ddr3(clock_hz, "1:2")
    soc = HeadSoC(platform, clock_hz, phy, module, description["verilog"], description["ident"])
    soc.crg = clocks
    soc.comb += [clocks.stop.eq(phy.init.stop), clocks.reset.eq(phy.init.reset)]
    if with_ethernet:
        add_ethernet(
            soc, description["ip_address"], description["mac_address"], description["udp_port"]
        )
    else:
        add_uart(soc)
    return soc


def main() -> None:
    description = json.loads(Path(sys.argv[1]).read_text())
    soc = build(description)
    builder = Builder(
        soc,
        output_dir=".",
        gateware_dir=".",
        compile_software=False,
        csr_csv="csr.csv",
    )
    builder.build(run=False, build_name=NAME)


if __name__ == "__main__":
    main()
