"""The host side: packs model heads, drives the accelerator and reports what it did."""
