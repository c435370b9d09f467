"""The KV260's Tcl script, run in Tcl with a stub in place of Vivado's commands."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hw.register_map import ADDRESS_BITS

from .block_design import INPUTS, OUTPUTS, Calls

pytestmark = pytest.mark.long

STUB = Path(__file__).with_name("vivado_stub.tcl")
SIZES = ("--max-dim", 64, "--max-rows", 64, "--max-k", 4, "--tile-rows", 8)
CASES = {
    "default": (),
    "one_channel": ("--channels", 1, "--bus-bits", 64),
    "logits": ("--channels", 2, "--all-logits", "--clock-mhz", "333.25"),
}
MASTER_DRIVES = (
    *(f"A{way}{name}" for way in "RW" for name in ("ID", "ADDR", "LEN", "SIZE", "BURST", "LOCK")),
    *(f"A{way}{name}" for way in "RW" for name in ("CACHE", "PROT", "QOS", "VALID")),
    *("WDATA", "WSTRB", "WLAST", "WVALID", "BREADY", "RREADY"),
)
"""Signals of AXI4 (AMBA IHI 0022, chapter A2) that the master drives."""
SLAVE_DRIVES = (
    *("ARREADY", "RID", "RDATA", "RRESP", "RLAST", "RVALID"),
    *("AWREADY", "WREADY", "BID", "BRESP", "BVALID"),
)
READ = {"ARADDR", "ARVALID", "ARREADY", "RDATA", "RVALID", "RREADY", "RRESP"}
WRITE = {"AWADDR", "AWVALID", "AWREADY", "WDATA", "WSTRB", "WVALID", "WREADY"}


def run_script(folder: Path, *situation: str) -> tuple[subprocess.CompletedProcess, Calls]:
    tclsh = shutil.which("tclsh")
    if tclsh is None:
        pytest.fail("tclsh is not installed (Debian: apt-get install tcl)")
    log = folder / "calls.txt"
    done = subprocess.run(
        [tclsh, STUB, folder / "build.tcl", log, *situation], capture_output=True, text=True
    )
    return done, Calls(log)


@pytest.fixture(scope="module", params=CASES)
def built(request, tmp_path_factory):
    """A generated folder and what its script called."""
    from host import cli

    folder = tmp_path_factory.mktemp(request.param)
    options = ["generate", "--board", "kv260", "-o", folder, *SIZES, *CASES[request.param]]
    assert cli.main([str(option) for option in options]) == 0
    done, calls = run_script(folder)
    assert done.returncode == 0, done.stderr
    return folder, calls


def ports(folder: Path) -> dict[str, str]:
    """The ports of the generated module and their directions."""
    text = (folder / "unembed.v").read_text()
    body = text[text.index("module unembed(") :]
    names = body[body.index("(") + 1 : body.index(")")].replace("\n", " ").split(",")
    found = dict(
        reversed(pair)
        for pair in re.findall(r"^  (input|output) (?:\[[^]]*\] )?(\w+);", body, re.MULTILINE)
    )
    return {name.strip(): found[name.strip()] for name in names}


def channels(folder: Path) -> int:
    return sum(1 for name in ports(folder) if name.endswith("_araddr")) - 1


def test_every_port_is_in_one_interface_of_the_ip(built):
    folder, calls = built
    mapped = [port for one in calls.interfaces().values() for port in one.ports.values()]
    assert sorted(mapped) == sorted(ports(folder))


def test_every_axi_port_has_the_direction_of_its_signal(built):
    folder, calls = built
    directions = ports(folder)
    for interface in calls.interfaces().values():
        if not interface.properties["bus_type_vlnv"].endswith("aximm:1.0"):
            continue
        is_master = interface.properties["interface_mode"] == "master"
        for logical, physical in interface.ports.items():
            drives = logical in (MASTER_DRIVES if is_master else SLAVE_DRIVES)
            assert drives or logical in (SLAVE_DRIVES if is_master else MASTER_DRIVES)
            assert directions[physical] == ("output" if drives else "input")


def test_an_interface_has_the_channels_that_it_says(built):
    folder, calls = built
    interfaces = calls.interfaces()
    assert set(interfaces["s_axi_control"].ports) >= READ | WRITE
    for channel in range(channels(folder)):
        interface = interfaces[f"m_axi_gmem{channel}"]
        has_writes = f"m_axi_gmem{channel}_awvalid" in ports(folder)
        assert set(interface.ports) >= READ
        assert (set(interface.ports) >= WRITE) == has_writes
        mode = "READ_WRITE" if has_writes else "READ_ONLY"
        assert interface.parameters["READ_WRITE_MODE"] == mode


def test_the_clock_and_the_reset_belong_to_every_axi_interface(built):
    _, calls = built
    interfaces = calls.interfaces()
    axi = [name for name in interfaces if "axi" in name]
    clock = interfaces["ap_clk"]
    assert clock.parameters["ASSOCIATED_BUSIF"].split(":") == axi
    assert clock.parameters["ASSOCIATED_RESET"] == "ap_rst_n"
    assert interfaces["ap_rst_n"].parameters["POLARITY"] == "ACTIVE_LOW"
    assert interfaces["interrupt"].parameters["SENSITIVITY"] == "LEVEL_HIGH"


def test_every_pin_of_the_design_exists_and_every_input_is_driven(built):
    folder, calls = built
    cells = calls.cells()
    drivers = calls.drivers()
    ps_inputs = {"pl_ps_irq0", "maxihpm0_fpd_aclk"}
    ps_inputs |= {f"saxihp{channel}_fpd_aclk" for channel in range(channels(folder))}
    inputs = INPUTS | {"zynq_ultra_ps_e": ps_inputs}
    wanted = {f"{cell}/{pin}" for cell, kind in cells.items() for pin in inputs[kind]}
    assert set(drivers) == wanted | {"fan_en_b"}
    for source in drivers.values():
        cell, pin = source.split("/")
        assert pin in OUTPUTS[cells[cell]]


def test_all_is_in_one_clock_domain_and_under_its_reset(built):
    _, calls = built
    drivers = calls.drivers()
    clock_pins = [pin for pin in drivers if pin.endswith("clk")]
    assert len(clock_pins) >= 6
    assert {drivers[pin] for pin in clock_pins} == {"clocks/clk_out1"}
    for pin, source in drivers.items():
        if pin.endswith(("/aresetn", "/ap_rst_n")):
            assert source.split("/")[0] == "reset"


def test_every_memory_port_is_enabled_and_as_wide_as_the_bus(built):
    folder, calls = built
    settings = (folder / "settings.tcl").read_text()
    bus_bits = re.search(r"^set bus_bits (\d+)$", settings, re.MULTILINE)[1]
    configuration = calls.configuration("ps")
    buses = calls.buses()
    for port in range(4):
        is_used = port < channels(folder)
        assert configuration[f"PSU__USE__S_AXI_GP{port + 2}"] == str(int(is_used))
        assert configuration.get(f"PSU__SAXIGP{port + 2}__DATA_WIDTH") == (
            bus_bits if is_used else None
        )
        assert buses.get(f"memory{port}/M00_AXI") == (f"ps/S_AXI_HP{port}_FPD" if is_used else None)
        assert buses.get(f"unembed/m_axi_gmem{port}") == (
            f"memory{port}/S00_AXI" if is_used else None
        )
    assert configuration["PSU__USE__M_AXI_GP0"] == configuration["PSU__USE__IRQ0"] == "1"
    assert buses["ps/M_AXI_HPM0_FPD"] == "control/S00_AXI"
    assert buses["control/M00_AXI"] == "unembed/s_axi_control"


def test_the_clock_is_the_one_that_was_asked_for(built, request):
    folder, calls = built
    asked = "333.25" if "logits" in request.node.name else "200"
    assert calls.configuration("clocks")["CLKOUT1_REQUESTED_OUT_FREQ"] == asked
    period = re.search(r"-period ([\d.]+)", (folder / "unembed.xdc").read_text())[1]
    assert float(period) == pytest.approx(1000 / float(asked), abs=1e-3)


def test_registers_and_all_of_the_dram_have_addresses(built):
    folder, calls = built
    assigned = calls.of("assign_bd_address")
    control = assigned[0]
    assert control[control.index("-offset") + 1] == "0xA0000000"
    assert control[control.index("-range") + 1] == f"{2**ADDRESS_BITS // 1024}K"
    assert control[-2:] == ["ps/Data", "unembed/s_axi_control/Reg"]
    expected = {
        (f"unembed/m_axi_gmem{channel}", f"ps/SAXIGP{channel + 2}/HP{channel}_DDR_{part}")
        for channel in range(channels(folder))
        for part in ("LOW", "HIGH")
    }
    assert {tuple(words[-2:]) for words in assigned[1:]} == expected


def test_each_step_comes_after_what_it_needs(built):
    folder, calls = built
    order = [
        calls.index("ipx::remove_all_bus_interface"),
        calls.index("ipx::add_bus_interface"),
        calls.index("ipx::save_core"),
        calls.index("update_ip_catalog"),
        calls.index("create_bd_cell"),
        calls.index("assign_bd_address"),
        calls.index("validate_bd_design"),
        calls.index("make_wrapper"),
        calls.index("launch_runs", "synth_1"),
        calls.index("launch_runs", "impl_1", "-to_step", "route_design"),
        calls.index("get_timing_paths"),
        calls.index("launch_runs", "impl_1", "-to_step", "write_bitstream"),
        calls.index("write_hw_platform"),
    ]
    assert order == sorted(order)
    assert (folder / "build" / "unembed.bit").exists()


def test_the_script_finds_all_its_files(built):
    folder, calls = built
    for words in calls.of("add_files"):
        path = Path(words[-1])
        assert path.name == "system_wrapper.v" or (path.parent == folder and path.exists())


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        ("no_board", "the board files of the KV260 (kv260_som) are not installed"),
        ("failing_timing", "timing is not met, slack -0.25 ns"),
    ],
)
def test_no_bitstream_is_made_of_what_would_not_work(run, tmp_path, situation, message):
    assert run("generate", "--board", "kv260", "-o", tmp_path, *SIZES)[0] == 0
    done, calls = run_script(tmp_path, situation)
    assert done.returncode == 1
    assert message in done.stderr
    assert not any("write_bitstream" in words for words in calls.of("launch_runs"))
    assert not (tmp_path / "build" / "unembed.bit").exists()
