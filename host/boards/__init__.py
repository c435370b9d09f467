"""Boards: their facts, what fits on them, and the files that `unembed generate` writes for them."""
