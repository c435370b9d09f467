"""Waveforms of a run, read by the library behind Surfer, and their view for GTKWave."""

import re

import numpy as np
import pytest
import pywellen

from host import cli
from hw.config import HeadConfig
from sim import build
from sim.device import SimDevice
from sim.trace_view import ACCELERATOR, gtkwave_view

PERIOD_PS = 5000

PLAIN = HeadConfig(bus_bits=64, max_dim=64, max_rows=64, k=4)
RICH = HeadConfig(
    bus_bits=64,
    max_dim=64,
    max_rows=64,
    k=4,
    batch=2,
    channels=2,
    mask=True,
    all_logits=True,
    job_queue=True,
)


def shown(view):
    """Signals of a view by group: name and width."""
    groups = {}
    group = None
    for line in view.splitlines():
        if line.startswith("-"):
            group = groups.setdefault(line[1:], [])
        elif line.startswith(ACCELERATOR):
            name, high = re.fullmatch(r"([^\[]+)(?:\[(\d+):0\])?", line).groups()
            group.append((name, int(high or 0) + 1))
    return groups


def test_the_view_groups_control_ports_readers_and_top_ks():
    groups = shown(gtkwave_view(PLAIN, build.accelerator_verilog(PLAIN)))
    assert list(groups) == [
        "job control",
        "channel 0: memory reads",
        "channel 0: memory writes",
        "channel 0: reader",
        "channel 0: ranker0, topk0_0",
        "registers",
    ]
    widths = {
        name.removeprefix(f"{ACCELERATOR}."): width for name, width in sum(groups.values(), [])
    }
    assert widths["m_axi_gmem0_rvalid"] == 1
    assert widths["m_axi_gmem0_rdata"] == 64
    assert widths["control.stream.stream_state"] == 4
    assert widths["channel0.reader.o__valid"] == 1
    assert [len(group) for group in groups.values()] == [13, 9, 11, 8, 8, 12]


def test_the_view_has_every_channel_and_vector():
    groups = shown(gtkwave_view(RICH, build.accelerator_verilog(RICH)))
    for channel in (0, 1):
        names = [name for name in groups if name.startswith(f"channel {channel}: ")]
        assert f"channel {channel}: memory writes" in names
        assert sum("topk" in name for name in names) == 2 * RICH.batch
        assert all(len(groups[name]) >= 8 for name in names)


def test_a_device_that_was_not_made_for_it_writes_no_waveforms(tmp_path):
    # The default hardware, whose simulator other tests need as well.
    with SimDevice(HeadConfig()) as device:
        device.stop_trace()
        with pytest.raises(OSError, match="waveforms cannot be written"):
            device.trace(tmp_path / "x.fst")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A folder with the waveforms of the first of three jobs."""
    folder = tmp_path_factory.mktemp("trace")
    rng = np.random.default_rng(7)
    np.save(folder / "w.npy", rng.normal(size=(60, 64)).astype(np.float32))
    np.save(folder / "h.npy", rng.normal(size=(3, 64)).astype(np.float32))
    commands = [
        ["pack", "w.npy", "-o", "w.safetensors", "--bus-bits", "64"],
        ["simulate", "w.safetensors", "--hidden", "h.npy", "-k", "4", "--clock-mhz", "200"]
        + ["--max-dim", "64", "--max-rows", "64", "--max-k", "4", "--trace", "t.fst"]
        + ["-o", "out.npz"],
    ]
    for command in commands:
        files = [str(folder / part) if "." in part else part for part in command]
        assert cli.main(files) == 0
    return folder


@pytest.mark.long
def test_the_files_are_complete_and_alone(traced):
    names = {path.name for path in traced.iterdir()}
    assert names == {"w.npy", "h.npy", "w.safetensors", "out.npz", "t.fst", "t.gtkw"}


@pytest.mark.long
def test_every_signal_of_the_view_is_in_the_waveforms(traced):
    waves = pywellen.Waveform(str(traced / "t.fst"))
    found = {(var.full_name, var.bitwidth) for var in waves.all_vars()}
    view = shown((traced / "t.gtkw").read_text())
    signals = sum(view.values(), [])
    assert len(signals) > 50
    assert set(signals) <= found
    # Signals without a name, of which there are thousands, are left out.
    assert not [name for name, _ in found if "$auto" in name or re.search(r"\.\$\d+$", name)]


@pytest.mark.long
def test_handshakes_in_the_waveforms_are_those_counted(traced):
    waves = pywellen.Waveform(str(traced / "t.fst"))
    signals = {var.full_name.removeprefix(f"{ACCELERATOR}."): var for var in waves.all_vars()}

    def values(name, clocks):
        # A rising edge is at the start of a period and sees what was there before.
        signal = signals[name].signal
        return np.array([int(signal.value_at(clock * PERIOD_PS - 1) or 0) for clock in clocks])

    last = max(time for time, _ in signals["clk" if "clk" in signals else "ap_clk"].signal)
    clocks = range(1, last // PERIOD_PS + 1)
    with np.load(traced / "out.npz") as counters:
        port = "m_axi_gmem0_"
        for valid, ready, name, unit in (
            (port + "rvalid", port + "rready", "data_beats", 1),
            (port + "wvalid", port + "wready", "bytes_written", 8),
            ("channel0.reader.o__valid", "channel0.reader.o__ready", "stream_beats", 1),
        ):
            taken = values(valid, clocks) & values(ready, clocks)
            assert taken.sum() * unit == counters[name][0], name
        waits = values("channel0.reader.active", clocks) & ~values(
            "channel0.reader.o__valid", clocks
        )
        assert (waits & 1).sum() == counters["wait_cycles"][0]
