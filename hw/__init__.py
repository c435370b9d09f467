"""The gateware: a streaming dot-product farm with a hardware top-k, written in Amaranth."""
