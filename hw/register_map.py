"""The register map as a table: gateware, documentation, C header and host all follow it.

Every register is a 32-bit word at a byte offset that is a multiple of 4. Fields of a register are
given where it is not one number; a bit outside all fields reads zero and ignores writes.
"""

from dataclasses import dataclass
from enum import Enum, IntFlag

from hw.config import HeadConfig
from hw.counters import COUNTERS
from hw.status import Status

ADDRESS_BITS = 12
"""Width of an AXI4-Lite address."""

WORD_BITS = 32
WORD_BYTES = WORD_BITS // 8

STATUS_BITS = 8
"""Width of a status code."""

MAGIC = int.from_bytes(b"UNEM", "little")
VERSION = 0x0001_0000
"""Version of the register map and of the result block: bits 31:16 major, 15:0 minor."""


class Control(IntFlag):
    """Bits of CONTROL."""

    START = 1 << 0
    DONE = 1 << 1
    IDLE = 1 << 2
    READY = 1 << 3
    CONTINUE = 1 << 4


class Event(IntFlag):
    """Bits of IER and ISR."""

    DONE = 1 << 0
    READY = 1 << 1


class Error(IntFlag):
    """Bits of ERRORS; bit n > 0 belongs to status code n."""

    START = 1 << 0
    ROWS = 1 << Status.ROWS
    DIM = 1 << Status.DIM
    K = 1 << Status.K
    VECTORS = 1 << Status.VECTORS
    ALIGNMENT = 1 << Status.ALIGNMENT
    FORMAT = 1 << Status.FORMAT
    LENGTH = 1 << Status.LENGTH
    READ = 1 << Status.READ
    WRITE = 1 << Status.WRITE
    RESET = 1 << Status.RESET


class Access(Enum):
    """What a write does to a register or field."""

    READ = "RO"
    """Nothing; a write to a register of this kind is answered SLVERR."""
    WRITE = "RW"
    """Stores the value."""
    SET = "W1S"
    """1 sets the bit, hardware clears it, 0 does nothing."""
    CLEAR = "W1C"
    """1 clears the bit, 0 does nothing."""
    TOGGLE = "W1T"
    """1 toggles the bit, 0 does nothing."""
    PULSE = "W1P"
    """1 acts once, 0 does nothing; reads zero."""


@dataclass(frozen=True)
class Field:
    """Bits of a register."""

    name: str
    bit: int
    """Least significant bit."""
    access: Access
    doc: str
    width: int = 1


@dataclass(frozen=True)
class Register:
    """One 32-bit register."""

    name: str
    offset: int
    access: Access
    doc: str
    fields: tuple[Field, ...] = ()


CONTROL_REGISTERS = (
    Register(
        "CONTROL",
        0x000,
        Access.WRITE,
        "Block control, AMD's ap_ctrl_chain.",
        (
            Field(
                "START",
                0,
                Access.SET,
                "Offers a job with the current arguments. Clears when they are copied; until then "
                "writes to arguments are answered SLVERR, and another start is ignored and sets "
                "ERRORS.START. No job is taken while DONE is set or RESET reads 1.",
            ),
            Field("DONE", 1, Access.READ, "A job has ended; held until CONTINUE is written."),
            Field("IDLE", 2, Access.READ, "No job runs or waits."),
            Field(
                "READY",
                3,
                Access.READ,
                "The arguments were copied and may be written for the next job. Cleared by the "
                "next start.",
            ),
            Field("CONTINUE", 4, Access.PULSE, "Clears DONE."),
        ),
    ),
    Register(
        "GIE",
        0x004,
        Access.WRITE,
        "Global interrupt enable.",
        (Field("ENABLE", 0, Access.WRITE, "Lets ISR drive the interrupt, a level."),),
    ),
    Register(
        "IER",
        0x008,
        Access.WRITE,
        "Interrupt enable: which events are recorded in ISR.",
        (
            Field("DONE", 0, Access.WRITE, "A job ends."),
            Field("READY", 1, Access.WRITE, "A job's arguments are copied."),
        ),
    ),
    Register(
        "ISR",
        0x00C,
        Access.WRITE,
        "Interrupt status: events recorded; the interrupt is raised while any bit is set. An event "
        "that happens in the clock of a write sets its bit.",
        (
            Field("DONE", 0, Access.TOGGLE, "A job ended."),
            Field("READY", 1, Access.TOGGLE, "A job's arguments were copied."),
        ),
    ),
    Register(
        "RESET",
        0x010,
        Access.WRITE,
        "Soft reset. Open bursts are completed and their data dropped. At its end CONTROL and "
        "ISR are as after power-up; a job that ran or waited has ended with status "
        "RESET. Other registers keep their values.",
        (Field("RESET", 0, Access.SET, "Starts a soft reset; reads 1 until it is over."),),
    ),
    Register(
        "STATUS",
        0x014,
        Access.READ,
        "How the last job ended.",
        (Field("CODE", 0, Access.READ, "Status code.", width=STATUS_BITS),),
    ),
    Register(
        "ERRORS",
        0x018,
        Access.WRITE,
        "Sticky errors. An error that happens in the clock of a write sets its bit.",
        (
            Field("START", 0, Access.CLEAR, "A start was written while one was waiting."),
            *(
                Field(status.name, status, Access.CLEAR, f"A job ended: {status.meaning}.")
                for status in Status
                if status
            ),
        ),
    ),
    Register("JOBS", 0x01C, Access.READ, "Jobs ended since the reset pin, modulo 2**32."),
)

ARGUMENT_REGISTERS = (
    Register("ROWS", 0x020, Access.WRITE, "Vocabulary rows V of the image."),
    Register("DIM", 0x024, Access.WRITE, "Columns d of the image, without padding."),
    Register("K", 0x028, Access.WRITE, "Results wanted per vector."),
    Register("VECTORS", 0x02C, Access.WRITE, "Hidden vectors of the job."),
    Register("IMAGE_FORMAT", 0x030, Access.WRITE, "Format of the image, to equal FORMAT."),
    Register("HIDDEN_ADDR_LO", 0x040, Access.WRITE, "Hidden state's address, bits 31:0."),
    Register("HIDDEN_ADDR_HI", 0x044, Access.WRITE, "Hidden state's address, bits 63:32."),
    Register("RESULT_ADDR_LO", 0x048, Access.WRITE, "Result block's address, bits 31:0."),
    Register("RESULT_ADDR_HI", 0x04C, Access.WRITE, "Result block's address, bits 63:32."),
    Register("IMAGE_ADDR_LO", 0x080, Access.WRITE, "Image's address, bits 31:0."),
    Register("IMAGE_ADDR_HI", 0x084, Access.WRITE, "Image's address, bits 63:32."),
    Register("IMAGE_BYTES_LO", 0x088, Access.WRITE, "Image's size in bytes, bits 31:0."),
    Register("IMAGE_BYTES_HI", 0x08C, Access.WRITE, "Image's size in bytes, bits 63:32."),
)
"""Job arguments. Room is left for images of 8 channels, 16 bytes apart from 0x080."""

_IDENTIFICATION = (
    ("MAGIC", 'The characters "UNEM", the first in bits 7:0.'),
    ("VERSION", "Version of this register map: bits 31:16 major, 15:0 minor."),
    (
        "FORMAT",
        (
            "Format of the images this hardware takes: bits 15:0 tile_rows, 19:16 log2 width, "
            "23:20 log2 group (0 for whole rows), 25:24 log2(weight_bits) - 2, 26 scales of 16 "
            "bits, 27 signed scales, 29:28 log2(bus_bits) - 6, 31:30 row terms."
        ),
    ),
    ("BUS_BITS", "Data width of the memory port."),
    ("WEIGHT_BITS", "Width of a weight."),
    ("SCALE_BITS", "Width of a stored scale."),
    ("SCALE_SIGNED", "1 where stored scales are signed."),
    ("GROUP", "Columns that share a scale; 0 for one scale per row."),
    ("UNITS", "Rows per body beat."),
    ("WIDTH", "Columns per body beat."),
    ("TILE_ROWS", "Rows per tile."),
    ("FOLD", "Clocks per body beat."),
    ("HIDDEN_BITS", "Width of a quantised hidden value."),
    ("MAX_DIM", "Largest DIM."),
    ("MAX_ROWS", "Largest ROWS."),
    ("MAX_K", "Largest K."),
    ("MAX_VECTORS", "Largest VECTORS."),
    ("CHANNELS", "Memory ports an image is spread over."),
    ("SCORE_BITS", "Width of a signed score."),
    ("FEATURES", "Optional functions built in, one bit each; none is defined."),
)

IDENTIFICATION_REGISTERS = tuple(
    Register(name, 0x200 + 4 * index, Access.READ, doc)
    for index, (name, doc) in enumerate(_IDENTIFICATION)
)
"""Constants of the build, see `identification`."""

COUNTER_BASE = 0x300


def counter_registers(name: str) -> tuple[str, str]:
    """Names of the low and the high register of a counter."""
    return f"{name.upper()}_LO", f"{name.upper()}_HI"


def _counter_table():
    for index, counter in enumerate(COUNTERS):
        low, high = counter_registers(counter.name)
        offset = COUNTER_BASE + 8 * index
        yield Register(low, offset, Access.READ, f"Bits 31:0. {counter.doc}")
        yield Register(
            high,
            offset + 4,
            Access.READ,
            f"Bits 63:32 as held by a read of {low}; one holding register serves all counters, so "
            "read this next.",
        )


COUNTER_REGISTERS = tuple(_counter_table())

REGISTERS = CONTROL_REGISTERS + ARGUMENT_REGISTERS + IDENTIFICATION_REGISTERS + COUNTER_REGISTERS
"""All registers, by ascending offset."""

OFFSETS = {register.name: register.offset for register in REGISTERS}
"""Byte offset of each register, by name."""


def identification(config: HeadConfig) -> dict[str, int]:
    """Values of the identification registers of one build, by name, in the table's order."""
    return {
        "MAGIC": MAGIC,
        "VERSION": VERSION,
        "FORMAT": config.format_word,
        "BUS_BITS": config.bus_bits,
        "WEIGHT_BITS": config.weight_bits,
        "SCALE_BITS": config.scale_bits,
        "SCALE_SIGNED": int(config.scale_signed),
        "GROUP": config.group,
        "UNITS": config.units,
        "WIDTH": config.width,
        "TILE_ROWS": config.tile_rows,
        "FOLD": config.fold,
        "HIDDEN_BITS": config.hidden_bits,
        "MAX_DIM": config.max_dim,
        "MAX_ROWS": config.max_rows,
        "MAX_K": config.k,
        "MAX_VECTORS": 1,
        "CHANNELS": 1,
        "SCORE_BITS": config.score_bits,
        "FEATURES": 0,
    }
