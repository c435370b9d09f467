"""Runs command lines within the process, on small files."""

import signal

import numpy as np
import pytest

from host import cli

from .command_line import HIDDEN, WEIGHTS
from .stand_in import StandIn


@pytest.fixture
def run(capsys):
    """Run a command line; its exit code, stdout and stderr."""

    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def files(tmp_path, capsys):
    np.savez(tmp_path / "matrix.npz", weight=WEIGHTS.astype(np.float32))
    np.savez(tmp_path / "states.npz", hidden=HIDDEN, other=HIDDEN[:1])
    image = tmp_path / "head.safetensors"
    arguments = ["pack", tmp_path / "matrix.npz", "-o", image, "--bus-bits", 64, "--group", "row"]
    assert cli.main([str(argument) for argument in arguments]) == 0
    capsys.readouterr()
    return tmp_path


@pytest.fixture
def stand_in(tmp_path):
    """Make files with a memory-mapped device behind them, which end with the test."""
    made = []

    def make(machine, **options):
        made.append(StandIn(tmp_path, machine, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def interruptible():
    """Tests may run as a shell's background job, for which Ctrl-C is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
