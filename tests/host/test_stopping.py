"""Commands that a signal or an error ends: one line, the exit code, nothing else on stderr."""

import importlib.abc
import os
import signal
import subprocess
import sys
import time

import pytest

import host
from host import cli
from host.errors import UserError
from host.image import ImageWriter
from hw import verilog
from sim.device import SimDevice
from sim.errors import ToolError

from .command_line import assert_one_line, without_progress

pytestmark = pytest.mark.usefixtures("interruptible")

SMALL = ["--bus-bits", "64", "--max-dim", "64", "--max-rows", "64", "--max-k", "4"]


def python(script):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_a_stopped_command_leaves_nothing_half_written(run, files, monkeypatch, number, word):
    def stop(*arguments, **options):
        assert list(files.glob(".x.safetensors.*"))
        os.kill(os.getpid(), number)
        time.sleep(5)  # the signal's handler ends it

    monkeypatch.setattr(ImageWriter, "write", stop)
    code, _, err = run("pack", files / "matrix.npz", "-o", files / "x.safetensors")
    assert code == 128 + number
    assert_one_line(without_progress(err), word)
    assert not list(files.glob("*x.safetensors*"))


def test_interrupting_a_command_ends_it_without_a_traceback(run, files, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(SimDevice, "__init__", interrupted)
    code, _, err = run("simulate", files / "head.safetensors", "--hidden", files / "states.npz")
    assert code == 130
    assert_one_line(without_progress(err), "interrupted")


@pytest.mark.parametrize("error", [ToolError("a tool was killed"), RuntimeError("no status")])
def test_an_error_that_the_signal_brought_about_is_an_interrupt(run, tmp_path, monkeypatch, error):
    def convert(*arguments, **options):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr(verilog.verilog, "convert", convert)
    code, out, err = run("generate", "-o", tmp_path, *SMALL)
    assert (code, out) == (130, "")
    assert_one_line(without_progress(err), "interrupted")


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        ("KeyboardInterrupt", 130, "interrupted"),
        ("OSError(28, 'No space left on device', 'x')", 1, "No space left"),
    ],
)
def test_a_design_that_is_given_up_leaves_no_warnings(tmp_path, raised, code, line):
    script = f"""
import sys
from host import cli
from hw.results import ResultBuffer

def elaborate(self, platform):
    raise {raised}

ResultBuffer.elaborate = elaborate
sys.exit(cli.main(["generate", "-o", {str(tmp_path)!r}, *{SMALL!r}]))
"""
    ended = python(script)
    assert ended.returncode == code
    progress, text = ended.stderr.split("\n", 1)
    assert progress == "generating Verilog"
    assert_one_line(text, line)


def test_an_interrupt_while_modules_are_imported_is_one_line(run, monkeypatch):
    class Interrupting(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == "host.command_line":
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)

    monkeypatch.delitem(sys.modules, "host.command_line", raising=False)
    monkeypatch.delattr(host, "command_line", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    code, out, err = run("inspect", "x")
    assert (code, out) == (130, "")
    assert_one_line(err, "interrupted")


def test_nothing_that_takes_long_is_imported_before_interrupts_are_handled():
    ended = python(
        "import sys, host.cli; print({'numpy', 'amaranth', 'rich', 'argparse'} & set(sys.modules))"
    )
    assert ended.stdout == "set()\n", ended.stderr


def test_signals_are_as_before_when_a_command_has_ended(run, monkeypatch):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    run("fly")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_an_ignored_interrupt_stays_ignored(run, monkeypatch):
    seen = []
    monkeypatch.setattr("host.command_line.run", lambda argv: seen.append(signal.getsignal(2)) or 0)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run()[0] == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIG_IGN]


def test_an_error_of_the_program_itself_keeps_its_traceback(monkeypatch):
    def broken(argv):
        raise UserError("x", "y") if argv else ZeroDivisionError

    monkeypatch.setattr("host.command_line.run", broken)
    assert cli.main(["x"]) == 1
    with pytest.raises(ZeroDivisionError):
        cli.main([])
