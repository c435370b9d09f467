"""The blocks of an FPGA family in the Verilog."""

import pytest
from amaranth.back import rtlil

from hw.config import HeadConfig
from hw.family import FAMILIES, Family
from hw.ram import BlockRAM
from hw.verilog import check_family, generate


def test_only_the_form_for_a_family_names_its_blocks():
    config = HeadConfig(bus_bits=64, max_dim=64, max_rows=256, k=4)
    for block in ("MULT18X18D", "DP16KD"):
        assert block in generate(config, "ecp5")
        assert block not in generate(config)


def test_an_unknown_family_is_refused():
    families = r"generic, ecp5, 7series, ultrascale\+"
    with pytest.raises(ValueError, match=f"family must be one of {families}, got 'xc7'"):
        Family("xc7")


@pytest.mark.parametrize("depth", [1, 512, 1024, 2048, 4096, 8192, 16384])
def test_a_block_ram_of_any_depth_is_written_for_the_ecp5(depth):
    ram = BlockRAM(7, depth)
    ports = [ram.write_address, ram.write_data, ram.write_enable, ram.read_address, ram.read_data]
    assert "DP16KD" in rtlil.convert(ram, ports=ports, platform=Family("ecp5"))


def test_an_unknown_kind_of_memory_is_refused():
    with pytest.raises(ValueError, match="memory must be one of block, auto, got 'lut'"):
        BlockRAM(7, 16, "lut")


PAIRS = {"int4": {"weight_bits": 4}, "int8": {"weight_bits": 8, "hidden_bits": 8, "batch": 2}}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pair", PAIRS)
def test_two_products_are_refused_where_the_dsp_blocks_are_too_narrow(pair, family):
    config = HeadConfig(**PAIRS[pair], dsp_pairs=True)
    if family == "ecp5":
        with pytest.raises(ValueError, match=r"dsp_pairs .* on ecp5: .* of 25 bits, .* have 18"):
            check_family(config, family)
        check_family(HeadConfig(weight_bits=4, hidden_bits=8, dsp_pairs=True), family)
    else:
        check_family(config, family)


@pytest.mark.parametrize("family", ["7series", "ultrascale+"])
def test_xilinx_families_differ_from_the_portable_form_only_in_the_header(family):
    config = HeadConfig(bus_bits=64, max_dim=64, max_rows=256, k=4)
    header, body = generate(config, family).split("\n\n", 1)
    assert f"for the family {family}" in header
    assert body == generate(config).split("\n\n", 1)[1]
    assert '(* use_dsp = "yes" *)' in body
    assert 'ram_style = "block"' in body
