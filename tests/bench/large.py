"""Heads as large as Gemma's and Llama's, of synthetic rows, from packing to the checked result.

Every step is a process of its own, whose time and memory are printed: its largest resident set, of
which mapped files can be given back at any time, and the most of it that is its own. The files, up
to 2 GB at a time, are written below build/ and removed.

python -m tests.bench.large
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np

from host import cli

ROOT = Path(__file__).parents[2]
MEMORY = ["--memory", "ddr4-2400-x64", "--clock-mhz", "300"]
GROUP = 32
CHUNK_ROWS = 4096
SAMPLE_SECONDS = 0.05
LARGEST_MIB = 128
"""Of a step's own memory, whatever the size of the head."""


@dataclass(frozen=True)
class Shape:
    name: str
    rows: int
    dim: int


SHAPES = (Shape("Gemma", 262144, 640), Shape("Llama", 128256, 4096))


def write_rows(path: Path, shape: Shape, seed: int = 7) -> None:
    """Write random weights as float16 .npy [rows, dim]: int8 in groups, each with a scale."""
    rng = np.random.default_rng(seed)
    matrix = np.lib.format.open_memmap(path, "w+", np.float16, (shape.rows, shape.dim))
    for start in range(0, shape.rows, CHUNK_ROWS):
        rows = min(CHUNK_ROWS, shape.rows - start)
        weights = rng.integers(-127, 128, (rows, shape.dim // GROUP, GROUP), np.int8)
        scales = rng.integers(1, 17, (rows, shape.dim // GROUP, 1)) / np.float32(2**14)
        matrix[start : start + rows] = (weights * scales).reshape(rows, shape.dim)
    matrix.flush()


def _memory(name: str) -> int:
    """A size of this process, KiB, by its name in /proc/self/status."""
    with open("/proc/self/status") as status:
        sizes = dict(line.split(":", 1) for line in status)
    return int(sizes[name].split()[0])


class _OwnMemory(threading.Thread):
    """Watches the most memory of this process that is not mapped from files, KiB."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = 0

    def run(self) -> None:
        while True:
            self.most = max(self.most, _memory("RssAnon"))
            time.sleep(SAMPLE_SECONDS)


def step(arguments: list[str]) -> dict:
    """In the process of a step: run a command line; its output, time and memory."""
    watch = _OwnMemory()
    watch.start()
    output, start = StringIO(), time.perf_counter()
    with redirect_stdout(output):
        code = cli.main(arguments)
    return {
        "code": code,
        "seconds": time.perf_counter() - start,
        # That of getrusage would be at least what the process had that this one was forked from.
        "resident_kib": _memory("VmHWM"),
        "own_kib": watch.most,
        "output": output.getvalue(),
    }


def run_step(name: str | None, *arguments: object) -> dict:
    """Run a command line in a process of its own, print what it took and return that.

    Without a name nothing is printed.

    Raises
    ------
    SystemExit
        It failed.
    """
    command = [sys.executable, "-m", "tests.bench.large", "--step", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    taken = json.loads(done.stdout)
    if taken["code"]:
        raise SystemExit(f"unembed {' '.join(map(str, arguments))} ended with {taken['code']}")
    if name is None:
        return taken
    own, resident = taken["own_kib"] / 1024, taken["resident_kib"] / 1024
    print(
        f"  {name:<10} {taken['seconds']:>7.1f} s   {own:>6,.0f} MiB of its own, "
        f"{resident:>6,.0f} MiB with mapped files",
        flush=True,
    )
    return taken


def run_shape(shape: Shape, folder: Path, states: int) -> bool:
    """Pack and simulate one head; whether it is right and within its memory."""
    print(f"{shape.name}: {shape.rows:,} x {shape.dim}", flush=True)
    matrix, image, hidden = (folder / name for name in ("w.npy", "w.safetensors", "h.npy"))
    start = time.perf_counter()
    write_rows(matrix, shape)
    print(f"  {'rows':<10} {time.perf_counter() - start:>7.1f} s", flush=True)
    np.save(hidden, np.random.default_rng(1).normal(size=(states, shape.dim)))
    taken = [run_step("pack", "pack", matrix, "-o", image)]
    matrix.unlink()
    # The simulator is built by a run of a small head of the same hardware.
    sizes = ["--max-rows", 1 << (shape.rows - 1).bit_length()]
    sizes += ["--max-dim", max(1024, 1 << (shape.dim - 1).bit_length())]
    small = folder / "small.safetensors"
    write_rows(matrix, Shape("small", 64, shape.dim))
    run_step(None, "pack", matrix, "-o", small)
    options = ["--hidden", hidden, *MEMORY, *sizes, "--json"]
    run_step("build", "simulate", small, *options, "--limit", 1)
    taken.append(run_step("simulate", "simulate", image, *options, "--check"))
    report = json.loads(taken[-1]["output"])
    cycles = report["counters"]["cycles"]
    print(
        f"  {image.stat().st_size / 1e6:,.0f} MB, {states} states: {max(cycles):,} cycles, "
        f"{report['figures']['tokens_per_second']:.1f} tokens/s on {MEMORY[1]} at {MEMORY[3]} MHz; "
        f"simulated in {report['seconds']:.1f} s, {sum(cycles) / report['seconds'] / 1e6:.2f} "
        "million cycles/s"
    )
    mismatches = report["check"]["mismatches"]
    most = max(each["own_kib"] for each in taken) / 1024
    passed = mismatches == 0 and most <= LARGEST_MIB
    verdict = "ok" if passed else "FAILED"
    print(
        f"  {report['check']['compared']} places compared with the golden model, {mismatches} "
        f"mismatches; at most {most:,.0f} MiB of {LARGEST_MIB}  {verdict}",
        flush=True,
    )
    return passed


def main() -> int:
    if sys.argv[1:2] == ["--step"]:
        print(json.dumps(step(sys.argv[2:])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", nargs="*", default=[shape.name for shape in SHAPES])
    parser.add_argument("--states", type=int, default=1)
    arguments = parser.parse_args()
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    passed = True
    for shape in SHAPES:
        if shape.name in arguments.shapes:
            with tempfile.TemporaryDirectory(dir=folder, prefix="large-") as place:
                passed &= run_shape(shape, Path(place), arguments.states)
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
