"""The blocks of an FPGA family in the Verilog."""

import pytest

from hw.config import HeadConfig
from hw.family import Family
from hw.verilog import generate


def test_only_the_form_for_a_family_names_its_blocks():
    config = HeadConfig(bus_bits=64, max_dim=64, max_rows=256, k=4)
    for block in ("MULT18X18D", "DP16KD"):
        assert block in generate(config, "ecp5")
        assert block not in generate(config)


def test_an_unknown_family_is_refused():
    with pytest.raises(ValueError, match="family must be one of generic, ecp5, got 'xc7'"):
        Family("xc7")
