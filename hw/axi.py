"""The pins of the AXI4 and AXI4-Lite ports, as members for the signatures of the blocks."""

from amaranth.lib.wiring import In, Out

RESP_OKAY = 0
RESP_SLVERR = 2

BURST_INCR = 1

CACHE_MODIFIABLE = 0b0011
"""Normal, non-cacheable, bufferable memory: interconnects may resize and merge bursts."""

ADDRESS_BITS = 64
ID_BITS = 1
BOUNDARY_BITS = 12
"""log2 of the 4 KiB that no burst may cross (AXI A3.4.1)."""


def bus_size(bus_bits: int) -> int:
    """The AxSIZE code of a full-width transfer: log2 of the bus width in bytes."""
    return (bus_bits // 8).bit_length() - 1


def _address_members(letter, prefix):
    """An AXI4 address channel of a master; `letter` is "ar" or "aw"."""
    widths = {
        "id": ID_BITS,
        "addr": ADDRESS_BITS,
        "len": 8,
        "size": 3,
        "burst": 2,
        "lock": 1,
        "cache": 4,
        "prot": 3,
        "qos": 4,
        "valid": 1,
    }
    members = {f"{prefix}{letter}{name}": Out(width) for name, width in widths.items()}
    members[f"{prefix}{letter}ready"] = In(1)
    return members


def read_master_members(bus_bits: int, prefix: str = "") -> dict:
    """The AR and R channels of an AXI4 master with `bus_bits` of data, seen from the master."""
    return _address_members("ar", prefix) | {
        f"{prefix}rid": In(ID_BITS),
        f"{prefix}rdata": In(bus_bits),
        f"{prefix}rresp": In(2),
        f"{prefix}rlast": In(1),
        f"{prefix}rvalid": In(1),
        f"{prefix}rready": Out(1),
    }


def write_master_members(bus_bits: int, prefix: str = "") -> dict:
    """The AW, W and B channels of an AXI4 master with `bus_bits` of data, seen from the master."""
    return _address_members("aw", prefix) | {
        f"{prefix}wdata": Out(bus_bits),
        f"{prefix}wstrb": Out(bus_bits // 8),
        f"{prefix}wlast": Out(1),
        f"{prefix}wvalid": Out(1),
        f"{prefix}wready": In(1),
        f"{prefix}bid": In(ID_BITS),
        f"{prefix}bresp": In(2),
        f"{prefix}bvalid": In(1),
        f"{prefix}bready": Out(1),
    }


def lite_slave_members(addr_bits: int, prefix: str = "") -> dict:
    """All channels of a 32-bit AXI4-Lite slave, seen from the slave."""
    return {
        f"{prefix}awaddr": In(addr_bits),
        f"{prefix}awprot": In(3),
        f"{prefix}awvalid": In(1),
        f"{prefix}awready": Out(1),
        f"{prefix}wdata": In(32),
        f"{prefix}wstrb": In(4),
        f"{prefix}wvalid": In(1),
        f"{prefix}wready": Out(1),
        f"{prefix}bresp": Out(2),
        f"{prefix}bvalid": Out(1),
        f"{prefix}bready": In(1),
        f"{prefix}araddr": In(addr_bits),
        f"{prefix}arprot": In(3),
        f"{prefix}arvalid": In(1),
        f"{prefix}arready": Out(1),
        f"{prefix}rdata": Out(32),
        f"{prefix}rresp": Out(2),
        f"{prefix}rvalid": Out(1),
        f"{prefix}rready": In(1),
    }


def drive_constant_pins(m, port, letter: str, bus_bits: int) -> None:
    """Drive the pins of an address channel that never change: `letter` is "ar" or "aw"."""
    constants = {
        "id": 0,
        "size": bus_size(bus_bits),
        "burst": BURST_INCR,
        "lock": 0,
        "cache": CACHE_MODIFIABLE,
        "prot": 0,
        "qos": 0,
    }
    m.d.comb += [getattr(port, f"{letter}{name}").eq(value) for name, value in constants.items()]
