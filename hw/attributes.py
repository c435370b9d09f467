"""Attributes of nets for synthesis."""

KEPT = {"keep": 1}
"""Of a net that synthesis must keep, so that a late signal is joined to it in one LUT and not mixed
into the logic before it."""
