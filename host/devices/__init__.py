"""Devices of the host driver that are hardware."""
