"""Errors of the simulation."""


class ToolError(RuntimeError):
    """A tool of the build is missing or failed; the message is one line."""


class BusError(RuntimeError):
    """A register access was answered with an error, or not at all."""
