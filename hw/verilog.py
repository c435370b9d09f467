"""Verilog of a configured accelerator."""

from amaranth.back import verilog

from hw.config import HeadConfig
from hw.head import Head

MODULE = "unembed"
"""Name of the top module."""


def generate(config: HeadConfig) -> str:
    """Verilog of the accelerator; the same text for the same configuration.

    Source locations are left out: they would differ from checkout to checkout.
    """
    head = Head(config)
    return verilog.convert(head, name=MODULE, emit_src=False)
