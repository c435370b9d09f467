"""The commands of `unembed`, one a file.

Each has NAME, HELP, `add_arguments(parser)` and `run(arguments)`, which returns the exit code.
"""
