"""The DRAM's initialisation and read levelling, done by the host over the bridge.

A LiteX system with a CPU does this in its BIOS (liblitedram); here there is none, and the host
writes the same registers. They are those of LiteDRAM's DFI injector, with which commands are given
one at a time, and of its PHY for the ECP5 (`litedram.phy.ecp5ddrphy`), which shifts what each byte
lane reads by whole transfers (bitslip) and by eighths of a clock (delay). The PHY has no write
levelling: it sends the strobe in the middle of the data.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from host.device import DeviceError

SELECT_HARDWARE, CKE, ODT, RESET_N = 1, 2, 4, 8
"""Bits of ``sdram_dfii_control``."""

CS, WE, CAS, RAS, WRITE_DATA, READ_DATA = 1, 2, 4, 8, 16, 32
"""Bits of ``sdram_dfii_pi*_command``."""

PATTERNS = 3
"""Random bursts that must come back right at a setting."""

TRIES = 8
"""Times that the settings are made, as in liblitedram, until they read right."""


class Csr(Protocol):
    """The registers and constants of the system; `host.litex.bridge.Bridge`."""

    name: str
    """Identifies the system in messages."""

    def constant(self, name: str) -> int:
        """A constant by its name."""

    def read(self, name: str) -> int:
        """A register of any width."""

    def write(self, name: str, value: int) -> None:
        """Write a register of any width."""

    def wait(self, cycles: int) -> None:
        """Return when that many clocks of the system have passed."""


@dataclass(frozen=True)
class Setting:
    """Where a byte lane reads, and the delays that work around it."""

    bitslip: int
    delay: int
    first: int
    last: int
    """Delays from `first` to `last` give right data at this bitslip."""


@dataclass(frozen=True)
class Geometry:
    """The PHY as the system's constants describe it."""

    phases: int
    read_phase: int
    write_phase: int
    lanes: int
    bitslips: int
    delays: int

    @classmethod
    def of(cls, csr: Csr) -> "Geometry":
        return cls(
            phases=csr.constant("sdram_phases"),
            read_phase=csr.constant("sdram_rdphase"),
            write_phase=csr.constant("sdram_wrphase"),
            lanes=csr.constant("sdram_databits") // 8,
            bitslips=csr.constant("sdram_bitslips"),
            delays=csr.constant("sdram_delays"),
        )

    @property
    def phase_bits(self) -> int:
        """Bits of a burst of eight transfers that a phase carries."""
        return 8 * 8 * self.lanes // self.phases

    def lane_mask(self, lane: int) -> int:
        """The bits of a byte lane within a burst: a byte of every transfer."""
        return sum(0xFF << 8 * (self.lanes * transfer + lane) for transfer in range(8))


def initialise(csr: Csr) -> tuple[Setting, ...]:
    """Bring the DRAM up and level its reads; what was in it is lost.

    Returns
    -------
    tuple of Setting
        By byte lane.

    Raises
    ------
    DeviceError
        A byte lane reads right at no setting, or not reliably; the message shows the scan.
    """
    geometry = Geometry.of(csr)
    csr.write("sdram_dfii_control", CKE | ODT | RESET_N)
    _replay(csr)
    settings = _level(csr, geometry)
    csr.write("sdram_dfii_control", SELECT_HARDWARE)
    return settings


def _command(csr: Csr, phase: int, command: int, address: int = 0, bank: int = 0) -> None:
    port = f"sdram_dfii_pi{phase}"
    csr.write(f"{port}_address", address)
    csr.write(f"{port}_baddress", bank)
    csr.write(f"{port}_command", command)
    csr.write(f"{port}_command_issue", 1)


def _replay(csr: Csr) -> None:
    """The initialisation sequence, which LiteDRAM computed for this PHY and memory."""
    for step in range(csr.constant("sdram_init_steps")):
        address, bank, control, command, delay = (
            csr.constant(f"sdram_init{step}_{name}")
            for name in ("address", "bank", "control", "command", "delay")
        )
        if control:
            csr.write("sdram_dfii_control", control)
        if command:
            _command(csr, 0, command, address, bank)
        csr.wait(delay)


class _Lanes:
    """The read delays and bitslips of all byte lanes."""

    def __init__(self, csr: Csr, lanes: int):
        self.csr = csr
        self.all = (1 << lanes) - 1

    def _strobe(self, lanes: int, *registers: str) -> None:
        """Write registers of the lanes in a mask, which are stopped meanwhile."""
        self.csr.write("ddrphy_dly_sel", lanes)
        for register in registers:
            self.csr.write(register, 1)
        self.csr.write("ddrphy_dly_sel", 0)
        # Stopped and started together the lanes stay in step, as in liblitedram.
        self.csr.write("ddrphy_dly_sel", self.all)
        self.csr.write("ddrphy_dly_sel", 0)

    def reset(self, lanes: int) -> None:
        self._strobe(lanes, "ddrphy_rdly_dq_rst", "ddrphy_rdly_dq_bitslip_rst")

    def reset_delay(self, lanes: int) -> None:
        self._strobe(lanes, "ddrphy_rdly_dq_rst")

    def next_delay(self, lanes: int) -> None:
        self._strobe(lanes, "ddrphy_rdly_dq_inc")

    def next_bitslip(self, lanes: int) -> None:
        self._strobe(lanes, "ddrphy_rdly_dq_bitslip")


def _right_lanes(csr: Csr, geometry: Geometry, pattern: int) -> int:
    """Write and read a burst; the lanes that gave it back and saw its strobe, as a mask."""
    phase_mask = (1 << geometry.phase_bits) - 1
    _command(csr, 0, RAS | CS)
    for phase in range(geometry.phases):
        data = pattern >> phase * geometry.phase_bits & phase_mask
        csr.write(f"sdram_dfii_pi{phase}_wrdata", data)
    _command(csr, geometry.write_phase, CAS | WE | CS | WRITE_DATA)
    csr.write("ddrphy_burstdet_clr", 1)
    _command(csr, geometry.read_phase, CAS | CS | READ_DATA)
    _command(csr, 0, RAS | WE | CS)
    found = 0
    for phase in range(geometry.phases):
        found |= csr.read(f"sdram_dfii_pi{phase}_rddata") << phase * geometry.phase_bits
    wrong = found ^ pattern
    right = sum(1 << lane for lane in range(geometry.lanes) if not wrong & geometry.lane_mask(lane))
    return right & csr.read("ddrphy_burstdet_seen")


def _patterns(geometry: Geometry) -> list[int]:
    generator = random.Random(0)
    return [generator.getrandbits(geometry.phases * geometry.phase_bits) for _ in range(PATTERNS)]


def _reads_right(csr: Csr, geometry: Geometry, lanes: int) -> int:
    """Of some lanes those that give back all patterns, as masks."""
    for pattern in _patterns(geometry):
        if lanes:
            lanes &= _right_lanes(csr, geometry, pattern)
    return lanes


def _scan(csr: Csr, geometry: Geometry, lanes: _Lanes) -> list[list[int]]:
    """By bitslip and delay, the lanes that read right, as masks; all are tried at once."""
    table = []
    lanes.reset(lanes.all)
    for _ in range(geometry.bitslips):
        row = []
        for _ in range(geometry.delays):
            row.append(_reads_right(csr, geometry, lanes.all))
            lanes.next_delay(lanes.all)
        table.append(row)
        lanes.reset_delay(lanes.all)
        lanes.next_bitslip(lanes.all)
    return table


def widest_window(works: Sequence[Sequence[bool]]) -> Setting | None:
    """The middle of the longest run of delays that work, of any bitslip; None if none works."""
    best = None
    for bitslip, row in enumerate(works):
        first = None
        for delay, right in enumerate([*row, False]):
            if right and first is None:
                first = delay
            if not right and first is not None:
                if best is None or delay - 1 - first > best.last - best.first:
                    best = Setting(bitslip, (first + delay - 1) // 2, first, delay - 1)
                first = None
    return best


def _level(csr: Csr, geometry: Geometry) -> tuple[Setting, ...]:
    lanes = _Lanes(csr, geometry.lanes)
    table = _scan(csr, geometry, lanes)
    settings = []
    for lane in range(geometry.lanes):
        works = [[bool(right >> lane & 1) for right in row] for row in table]
        setting = widest_window(works)
        if setting is None:
            raise DeviceError(
                f"{csr.name}: the DRAM's byte lane {lane} reads right at no setting; lanes that "
                f"do, by bitslip and delay: {_drawn(table)}"
            )
        settings.append(setting)
    for _ in range(TRIES):
        for lane, setting in enumerate(settings):
            _set(lanes, 1 << lane, setting)
        if _reads_right(csr, geometry, lanes.all) == lanes.all:
            return tuple(settings)
    raise DeviceError(
        f"{csr.name}: the DRAM reads wrong in the middle of windows that it read right in; the "
        f"scan, lanes by bitslip and delay: {_drawn(table)}"
    )


def _set(lanes: _Lanes, lane: int, setting: Setting) -> None:
    lanes.reset(lane)
    for _ in range(setting.bitslip):
        lanes.next_bitslip(lane)
    for _ in range(setting.delay):
        lanes.next_delay(lane)


def _drawn(table: list[list[int]]) -> str:
    """A scan as text: a hexadecimal mask of lanes for every delay, a group for every bitslip."""
    return " ".join("".join(f"{right:x}" for right in row) for row in table)
