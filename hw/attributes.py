"""Attributes of nets for synthesis."""

KEPT = {"keep": 1}
"""Of a net that synthesis must not dissolve: behind it is what comes late, at a single LUT."""
