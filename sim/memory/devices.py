"""DRAM devices by name: organisation and timing parameters, from devices.json."""

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

ADDRESS_FIELDS = ("ro", "ba", "bg", "co")
"""Parts of an address: row, bank (within its group), bank group, column."""

_FILE = Path(__file__).with_name("devices.json")


def check_mapping(mapping: str) -> None:
    """Raise `ValueError` unless `mapping` orders all fields of an address."""
    if sorted(str(mapping).split(".")) != sorted(ADDRESS_FIELDS):
        raise ValueError(
            f"mapping must order {', '.join(ADDRESS_FIELDS)}, the highest first, "
            f"like ro.ba.co.bg, got {mapping!r}"
        )


@dataclass(frozen=True)
class DramDevice:
    """A DRAM device: one channel, or several alike.

    All timings are in clocks of the DRAM (CK, half the data rate), named as in the JEDEC
    standards; `cl` and `cwl` are the latencies from the read and the write command to the data.
    Where a standard tells bank groups apart, `_s` is between two groups, `_l` within one.

    Parameters
    ----------
    name, part, standard, source : str
        What it is called here, the part, the standard, and where the values come from.
    data_rate : int
        MT/s.
    bus_bits : int
        Data width of a channel.
    channels : int
        Channels of the device, each with a bus, banks and a controller of its own. Accesses go to
        them in turn.
    burst_length : int
        Transfers of an access.
    bank_groups, banks : int
        Of a channel; banks of each group.
    rows, row_bytes : int
        Of each bank.
    mapping : str
        Default order of the fields of an address (`ADDRESS_FIELDS`), the highest first.
    """

    name: str
    part: str
    standard: str
    source: str
    data_rate: int
    bus_bits: int
    channels: int
    burst_length: int
    bank_groups: int
    banks: int
    rows: int
    row_bytes: int
    cl: int
    cwl: int
    trcd: int
    trcd_write: int
    trp: int
    tras: int
    trc: int
    trrd_s: int
    trrd_l: int
    tccd_s: int
    tccd_l: int
    tfaw: int
    trfc: int
    trefi: int
    trtp: int
    twtr_s: int
    twtr_l: int
    twr: int
    mapping: str

    @property
    def clock_hz(self) -> int:
        """Frequency of CK."""
        return self.data_rate * 500_000

    @property
    def access_bytes(self) -> int:
        """Bytes of an access: one burst of one channel."""
        return self.burst_length * self.bus_bits // 8

    @property
    def access_clocks(self) -> int:
        """Clocks that an access occupies the data bus."""
        return self.burst_length // 2

    @property
    def peak_bytes_per_s(self) -> int:
        """Data rate of all channels together."""
        return self.channels * self.bus_bits // 8 * self.data_rate * 1_000_000

    @property
    def refresh_fraction(self) -> Fraction:
        """The part of the peak that refresh leaves to a sequential read.

        In each tREFI, the channel closes its rows, refreshes and opens a row again. The formula is
        within 0.2 % of the peak of what two simulators measure (README.md of this folder).
        """
        lost = self.trfc + self.trtp + self.trp + self.trcd - self.tccd_s
        return 1 - Fraction(lost, self.trefi)

    def read_clocks(self, size: int) -> int:
        """Clocks from a read of `size` bytes to its last data: idle device, open row.

        A row to be opened takes `trcd` more, one to be closed before it `trp` more.
        """
        accesses = math.ceil(Fraction(size, self.access_bytes * self.channels))
        return 1 + self.cl + self.access_clocks + (accesses - 1) * self.tccd_s


def _load() -> dict[str, DramDevice]:
    described = json.loads(_FILE.read_text())["devices"]
    return {name: DramDevice(name=name, **values) for name, values in described.items()}


DEVICES: dict[str, DramDevice] = _load()


def device(name: str) -> DramDevice:
    """The device `name` of `DEVICES`.

    Raises
    ------
    ValueError
        There is none; the message names all.
    """
    if name not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {name!r}")
    return DEVICES[name]
