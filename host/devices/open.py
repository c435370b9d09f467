"""Devices as command-line options: which hardware runs, where its memory is, and its clock."""

import argparse
import re
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from host.boards.board import BOARDS, board
from host.console import StageProgress
from host.device import Device
from host.devices.dma_buffer import DmaBuffer
from host.devices.kernel import LINUX
from host.devices.mmap import MmapDevice
from host.devices.register_page import PAGE_BYTES, RegisterPage
from host.devices.uio import UioRegisters
from host.devices.upload import no_progress
from host.errors import UsageError
from host.options import paths
from host.options.memory import clock_mhz

UIO, MEM, LITEX = "uio", "mem", "litex"

FORMS = f"{UIO}:NAME, {MEM}:ADDRESS or {LITEX}:HOST[:PORT]"

PORT = re.compile("[0-9]{1,5}")
COMPANIONS = {UIO: "--dma-buffer", MEM: "--dma-buffer", LITEX: "--csr"}
"""The option that a kind of device comes with."""

LITEX_PORT = 1234
"""Of `litex_server`, unless it is told another one."""

KERNEL = LINUX
"""Where the files of devices are; tests put a stand-in here."""


@dataclass(frozen=True)
class DeviceSpec:
    """One device as options describe it."""

    kind: str
    where: str
    """What follows the colon."""
    companion: str
    """The value of the option of `COMPANIONS`."""
    clock_hz: Fraction | None
    """None where the device tells it."""


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Add --device and what describes devices further."""
    group = parser.add_argument_group(
        "hardware", "With several images one device for each, in their order."
    )
    group.add_argument(
        "--device",
        type=paths.name,
        action="append",
        required=True,
        metavar="SPEC",
        help="the accelerator's registers: uio:NAME, a UIO device by its name or path, with its "
        "interrupt; mem:ADDRESS in /dev/mem; or litex:HOST[:PORT], a LiteX server",
    )
    group.add_argument(
        "--dma-buffer",
        type=paths.name,
        action="append",
        default=[],
        metavar="NAME",
        help="with uio and mem, its memory: a buffer of u-dma-buf by its name or path",
    )
    group.add_argument(
        "--csr",
        type=paths.name,
        action="append",
        default=[],
        metavar="FILE",
        help="with litex, the csr.csv that was written with the bitstream",
    )
    clock = group.add_mutually_exclusive_group()
    clock.add_argument(
        "--clock-mhz",
        type=clock_mhz,
        metavar="MHZ",
        help="with uio and mem, the accelerator's clock, as 300, 333.33 or 1000/3",
    )
    clock.add_argument(
        "--board",
        choices=BOARDS,
        help="with uio and mem, the board whose design is loaded, for its clock",
    )


def device_specs(arguments: argparse.Namespace, images: int) -> list[DeviceSpec]:
    """The devices for some images, in their order.

    Raises
    ------
    UsageError
        A device has no known form, an option is missing or of no use, or their numbers differ.
    """
    if len(arguments.device) != images:
        raise UsageError(
            "--device", "one is needed for each image", expected=images, found=len(arguments.device)
        )
    given = {"--dma-buffer": list(arguments.dma_buffer), "--csr": list(arguments.csr)}
    clock_hz = _clock_hz(arguments)
    specs, servers = [], set()
    for text in arguments.device:
        kind, colon, where = text.partition(":")
        if kind not in COMPANIONS or not colon or not where:
            raise UsageError("--device", "has no known form", expected=FORMS, found=text)
        if kind == MEM:
            _address(where)
        if kind == LITEX:
            server = _server(where)
            if server in servers:
                raise UsageError(
                    "--device", "is there twice; an image has a system of its own", found=text
                )
            servers.add(server)
        companion = COMPANIONS[kind]
        if not given[companion]:
            raise UsageError(companion, f"is needed for --device {text}")
        if kind != LITEX and clock_hz is None:
            raise UsageError("--clock-mhz", f"or --board is needed: {kind} cannot tell the clock")
        known = None if kind == LITEX else clock_hz
        specs.append(DeviceSpec(kind, where, given[companion].pop(0), known))
    for option, rest in given.items():
        if rest:
            raise UsageError(option, "is of no device", found=rest[0])
    if clock_hz is not None and all(spec.clock_hz is None for spec in specs):
        option = "--board" if arguments.clock_mhz is None else "--clock-mhz"
        raise UsageError(option, f"is of no use with {LITEX}, which tells the clock")
    return specs


def _clock_hz(arguments: argparse.Namespace) -> Fraction | None:
    mhz = arguments.clock_mhz
    if arguments.board is not None:
        clock = board(arguments.board).clock
        if clock is None:
            raise UsageError("--board", f"{arguments.board} has no clock of its own")
        mhz = clock.mhz
    return None if mhz is None else Fraction(mhz * 10**6)


def _address(text: str) -> int:
    """The address of registers in /dev/mem."""
    try:
        address = int(text, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << 63 or address % PAGE_BYTES:
        raise UsageError(
            "--device",
            f"the address must be a multiple of {PAGE_BYTES}",
            expected=f"such as {MEM}:0xa0000000",
            found=f"{MEM}:{text}",
        )
    return address


def _server(text: str) -> tuple[str, int]:
    """Host and port of a LiteX server, given as HOST or HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(LITEX_PORT)
    if not host or not PORT.fullmatch(port) or not 0 < int(port) < 1 << 16:
        raise UsageError(
            "--device", "is no address", expected=f"{LITEX}:HOST[:PORT]", found=f"{LITEX}:{text}"
        )
    return host, int(port)


def open_device(spec: DeviceSpec, progress: StageProgress = no_progress) -> Device:
    """Open a device.

    Raises
    ------
    DeviceError
        It is absent, busy, not this user's to open, or not what it should be.
    UserError
        A file that describes it is wrong.
    """
    if spec.kind == LITEX:
        # Imported here: LiteX's remote client is of no use to the others.
        from host.devices.litex import open_litex

        return open_litex(*_server(spec.where), Path(spec.companion), progress)
    with ExitStack() as stack:
        if spec.kind == UIO:
            registers = UioRegisters(spec.where, KERNEL)
        else:
            address = _address(spec.where)
            where = f"{MEM}:{address:#x}"
            registers = RegisterPage(KERNEL.nodes / "mem", where, address, KERNEL)
        stack.callback(registers.close)
        memory = DmaBuffer(spec.companion, KERNEL)
        stack.pop_all()
    return MmapDevice(registers, memory, spec.clock_hz, progress)
