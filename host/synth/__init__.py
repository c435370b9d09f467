"""Synthesis, place and route: what an accelerator costs on an FPGA, and how fast it is there."""
