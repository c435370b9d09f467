"""A system on an FPGA built with LiteX: gateware, bitstream, and the host's side of its bridge."""
