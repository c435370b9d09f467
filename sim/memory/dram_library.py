"""The devices of a memory with DRAM timing, for the C++ library."""

from ctypes import POINTER, Structure, c_uint32, c_uint64
from ctypes import c_void_p as handle
from fractions import Fraction

from sim.memory.model import DramTiming

# Fields of an address, in the order of `DramMap::Field` of dram_map.h.
_FIELDS = ("ro", "ba", "bg", "co")
_TIMINGS = (
    "cl", "cwl", "trcd", "trcd_write", "trp", "tras", "trc", "trrd_s", "trrd_l", "tccd_s",
    "tccd_l", "tfaw", "trfc", "trefi", "trtp", "twtr_s", "twtr_l", "twr",
)  # fmt: skip


class DramOptions(Structure):
    """`DramOptions` of dram_options.h."""

    _fields_ = [
        ("clocks_per_cycle_numerator", c_uint64),
        ("clocks_per_cycle_denominator", c_uint64),
        *(
            (name, c_uint32)
            for name in (
                "ports",
                "devices",
                "channels",
                "interleave_bytes",
                "access_bytes",
                "access_clocks",
                "bank_groups",
                "banks",
                "rows",
                "columns",
            )  # fmt: skip
        ),
        ("order", c_uint32 * len(_FIELDS)),
        *((name, c_uint32) for name in ("queue", "refresh", "latency", *_TIMINGS)),
    ]


DRAM_SIGNATURES = {
    "unembed_dram_create": (handle, [POINTER(DramOptions)]),
    "unembed_dram_destroy": (None, [handle]),
}


def exact_clock(clock_hz: float | Fraction) -> Fraction:
    """A clock as a fraction with a denominator up to a million.

    Raises
    ------
    ValueError
        It is not between 1 kHz and 100 GHz.
    """
    clock = Fraction(clock_hz).limit_denominator(10**6)
    if not 10**3 <= clock <= 10**11:
        raise ValueError(f"clock_hz must be in 1e3..1e11, got {clock_hz}")
    return clock


def dram_options(dram: DramTiming, ports: int, clock_hz: float | Fraction) -> DramOptions:
    """What the library needs to know of the devices behind `ports` AXI ports.

    Raises
    ------
    ValueError
        The devices cannot be shared among the ports equally, or the clock is out of range.
    """
    device = dram.device
    ratio = Fraction(device.clock_hz) / exact_clock(clock_hz)
    order = [_FIELDS.index(field) for field in reversed(dram.order.split("."))]
    return DramOptions(
        clocks_per_cycle_numerator=ratio.numerator,
        clocks_per_cycle_denominator=ratio.denominator,
        ports=ports,
        devices=dram.devices(ports),
        channels=device.channels,
        interleave_bytes=dram.interleave_bytes,
        access_bytes=device.access_bytes,
        access_clocks=device.access_clocks,
        bank_groups=device.bank_groups,
        banks=device.banks,
        rows=device.rows,
        columns=device.row_bytes // device.access_bytes,
        order=(c_uint32 * len(_FIELDS))(*order),
        queue=dram.queue,
        refresh=dram.refresh,
        latency=dram.latency_clocks,
        **{name: getattr(device, name) for name in _TIMINGS},
    )
