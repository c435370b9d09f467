"""Simulation of the accelerator: the DRAM interface model, the in-process simulator, cocotb."""
