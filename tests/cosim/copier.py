"""Copying DMAs, which stand in for the accelerator where the harness is tested.

Each memory channel has one, a module of copier.v. All of them take every register write, so they
start together; number n adds n steps to the addresses, and its registers are read at n times
`SPACING`. The interrupt is up when all are done.
"""

import re
from pathlib import Path

import numpy as np

from hw.config import HeadConfig
from sim.device import SimDevice
from sim.memory import MemoryModel

CONTROL, SOURCE, TARGET, BEATS, BURST, STROBE, SIN = 0x00, 0x04, 0x0C, 0x14, 0x18, 0x1C, 0x20
SUM, ERROR_BEATS, ERROR_RESPONSES, UNMAPPED = 0x1C, 0x28, 0x2C, 0x100
SPACING = 0x200

SINS = ("withdraw", "change", "size", "early_wlast", "change_w", "refuse")

WRITTEN_BEATS = 64
"""Beats of a larger copy that are written: the last ones."""

SOURCE_ADDRESS = 0x7_0001_0000
TARGET_ADDRESS = 0x1_0000
STEP = 1 << 24
"""Distance of the addresses that the DMAs work on."""

_WRITE_PIN = re.compile(r"gmem\d_(aw|w|b)")
_TIED_PINS = {"awready": "1", "wready": "1", "bid": "0", "bresp": "0"}


def _top(source: str, channels: int, read_only: bool) -> str:
    """Verilog of the module ``unembed``: the DMAs and what they share."""
    header = source.partition(") (\n")[2].partition(");")[0]
    pins = [line.strip().rstrip(",") for line in header.replace(" reg", "").splitlines()]
    shared = [pin for pin in pins if "gmem" not in pin]
    ports, body = list(shared), ["reg [2:0] selected;"]
    for n in range(channels):
        numbered = [pin.replace("gmem0", f"gmem{n}") for pin in pins if "gmem" in pin]
        silent = read_only and n > 0
        ports += [pin for pin in numbered if not (silent and _WRITE_PIN.search(pin))]
        connections = [f"wire [31:0] rdata{n}; wire [1:0] rresp{n}; wire interrupt{n};"]
        if silent:
            # Writes go nowhere and are answered a clock after their address.
            connections.append(
                f"reg answer{n}; wire asked{n};"
                f"always @(posedge ap_clk) answer{n} <= ap_rst_n && asked{n};"
            )
        connections.append(f"copier #(.OFFSET(64'd{n * STEP})) channel{n} (")
        for pin in pins:
            name = pin.split()[-1]
            inner = name.rpartition("_")[2]
            outer = name.replace("gmem0", f"gmem{n}")
            if silent and _WRITE_PIN.search(name):
                special = {"awvalid": f"asked{n}", "bvalid": f"answer{n}"} | _TIED_PINS
                outer = special.get(inner, "")
            elif inner in ("rdata", "rresp", "interrupt") and "gmem" not in name:
                outer = f"{inner}{n}"
            elif n and pin.startswith("output") and "gmem" not in name:
                outer = ""
            connections.append(f"  .{name}({outer}){'' if pin is pins[-1] else ','}")
        body += [*connections, ");"]
    for name in ("rdata", "rresp"):
        choices = "".join(f"selected == {n} ? {name}{n} : " for n in range(channels))
        body.append(f"assign s_axi_control_{name} = {choices}0;")
    body += [
        "assign interrupt = " + " & ".join(f"interrupt{n}" for n in range(channels)) + ";",
        "always @(posedge ap_clk) if (s_axi_control_arvalid && s_axi_control_arready)",
        "  selected <= s_axi_control_araddr[11:9];",
    ]
    return "\n".join(["module unembed (", ",\n".join(ports), ");", *body, "endmodule", ""])


def verilog(bus_bits: int, channels: int = 1, read_only: bool = False) -> str:
    """DMAs with memory ports of `bus_bits`; with `read_only` only the first has pins to write."""
    source = Path(__file__).with_name("copier.v").read_text()
    return f"`define DATA_BITS {bus_bits}\n{source}{_top(source, channels, read_only)}"


def config(bus_bits: int = 512, channels: int = 1) -> HeadConfig:
    return HeadConfig(bus_bits=bus_bits, channels=channels)


def make_device(
    memory: MemoryModel | None = None,
    bus_bits: int = 512,
    channels: int = 1,
    read_only: bool = False,
    **options,
) -> SimDevice:
    source = verilog(bus_bits, channels, read_only)
    return SimDevice(config(bus_bits, channels), memory, verilog=source, **options)


def random_bytes(size: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def checksum(data: np.ndarray) -> int:
    return int(np.bitwise_xor.reduce(data.view(np.uint32)))


def start(
    device,
    beats: int,
    source: int = SOURCE_ADDRESS,
    target: int = TARGET_ADDRESS,
    burst: int = 16,
    strobe: int = 0xF,
    sins: tuple[str, ...] = (),
) -> None:
    """Start a copy on any device with the synchronous interface."""
    for offset, value in (
        (SOURCE, source & 0xFFFFFFFF),
        (SOURCE + 4, source >> 32),
        (TARGET, target & 0xFFFFFFFF),
        (TARGET + 4, target >> 32),
        (BEATS, beats),
        (BURST, burst),
        (STROBE, strobe),
        (SIN, sum(1 << SINS.index(sin) for sin in sins)),
        (CONTROL, 1),
    ):
        device.write_register(offset, value)


def copy(device, beats: int = 200, limit: int = 100_000, read_only=False, **options) -> None:
    """Copy random data on all channels, check the DMAs' checksums and that the bytes arrived."""
    bus_bytes = device.config.bus_bytes
    channels = range(device.config.channels)
    data = [random_bytes(beats * bus_bytes, 1 + n) for n in channels]
    for n in channels:
        device.write_memory(SOURCE_ADDRESS + n * STEP, data[n])
    start(device, beats, **options)
    device.wait_interrupt(limit)
    written = min(beats, WRITTEN_BEATS) * bus_bytes
    for n in channels:
        assert device.read_register(n * SPACING + SUM) == checksum(data[n])
        if n == 0 or not read_only:
            np.testing.assert_array_equal(
                device.read_memory(TARGET_ADDRESS + n * STEP, written), data[n][-written:]
            )
