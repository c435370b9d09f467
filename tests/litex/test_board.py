"""The system as it is built for the ECPIX-5, as far as LiteX writes it: before synthesis."""

import csv
import re

import pytest

from host.commands.build import CLOCKS_MHZ
from host.litex.build import SystemOptions, elaborate
from hw.config import HeadConfig
from sim.build import accelerator_verilog
from tests.litex.system import system

pytestmark = pytest.mark.litex

CONFIG = HeadConfig(bus_bits=128, batch=2, k=8, max_dim=256, max_rows=1024)
OF_THE_HOST = ("ddrphy_", "sdram_", "checksum_", "unembed_", "ctrl_")
"""Registers and constants that the host uses, but for those of the bridge."""


def table(path):
    """Registers and constants of a csr.csv: what they hold, but for addresses."""
    with open(path) as file:
        rows = list(csv.reader(file))
    return {
        (kind, name): rest[1:] if kind == "csr_register" else rest
        for kind, name, *rest in rows
        if kind in ("csr_register", "constant") and name.startswith(OF_THE_HOST)
    }


@pytest.fixture(scope="module", params=["uart", "ethernet"])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "unembed.v").write_text(accelerator_verilog(CONFIG))
    options = SystemOptions(bridge=request.param, ip_address="192.168.7.9")
    elaborate("host.litex.ecpix5", options.description(), folder)
    return folder


def test_the_simulated_system_is_the_boards_to_the_host(folder):
    assert table(folder / "csr.csv") == table(system(CONFIG).csr)


@pytest.mark.parametrize("with_udp", [False, True])
def test_the_clocks_that_are_offered_are_those_that_the_pll_makes(with_udp):
    # Here, since the tests are collected where LiteX is not installed.
    from litex_boards.platforms import lambdaconcept_ecpix5

    from host.litex.ecpix5 import ClockGenerator

    made = []
    for mhz in range(50, 101):
        platform = lambdaconcept_ecpix5.Platform(device="85F", toolchain="trellis")
        clocks = ClockGenerator(platform, mhz * 1e6, with_udp)
        try:
            config = clocks.pll.compute_config()
        except ValueError:
            continue
        if config["clko0_freq"] == pytest.approx(2e6 * mhz, rel=1e-9):
            made.append(mhz)
    assert tuple(made) == CLOCKS_MHZ


def test_all_pins_of_memory_and_bridge_are_placed(folder):
    placed = set(
        re.findall(r'LOCATE COMP "(\S+?)(?:\[\d+\])?" SITE', (folder / "ecpix5.lpf").read_text())
    )
    header = (folder / "ecpix5.v").read_text().partition(");")[0]
    ports = set(
        re.findall(r"^ +(?:input|output|inout) +(?:wire|reg) +(?:\[\S+\] +)?(\w+)", header, re.M)
    )
    assert ports == placed
    bridge = {"serial_rx", "serial_tx"} if folder.name.startswith("uart") else {"eth_rx_data"}
    assert ports >= bridge | {"clk100", "ddram_dq", "ddram_a", "ddram_clk_p"}


def test_the_same_system_gives_the_same_register_list(folder, tmp_path):
    (tmp_path / "unembed.v").write_text((folder / "unembed.v").read_text())
    bridge = "uart" if folder.name.startswith("uart") else "ethernet"
    options = SystemOptions(bridge=bridge, ip_address="192.168.7.9")
    elaborate("host.litex.ecpix5", options.description(), tmp_path)
    assert (tmp_path / "csr.csv").read_bytes() == (folder / "csr.csv").read_bytes()
