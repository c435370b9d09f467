"""The blocks of an FPGA family in the Verilog."""

import pytest
from amaranth.back import rtlil

from hw.config import HeadConfig
from hw.family import Family
from hw.ram import BlockRAM
from hw.verilog import generate


def test_only_the_form_for_a_family_names_its_blocks():
    config = HeadConfig(bus_bits=64, max_dim=64, max_rows=256, k=4)
    for block in ("MULT18X18D", "DP16KD"):
        assert block in generate(config, "ecp5")
        assert block not in generate(config)


def test_an_unknown_family_is_refused():
    with pytest.raises(ValueError, match=r"family must be one of generic, ecp5, 7series, ultrascale\+, got 'xc7'"):
        Family("xc7")


@pytest.mark.parametrize("depth", [1, 512, 1024, 2048, 4096, 8192, 16384])
def test_a_block_ram_of_any_depth_is_written_for_the_ecp5(depth):
    ram = BlockRAM(7, depth)
    ports = [ram.write_address, ram.write_data, ram.write_enable, ram.read_address, ram.read_data]
    assert "DP16KD" in rtlil.convert(ram, ports=ports, platform=Family("ecp5"))
