"""The register map as a table: gateware, documentation, C header and host all follow it.

Which registers exist depends on the build: those of channels and of optional functions that are not
built are unmapped. Offsets do not depend on it.

Every register is a 32-bit word at a byte offset that is a multiple of 4. Fields of a register are
given where it is not one number; a bit outside all fields reads zero and ignores writes.
"""

from dataclasses import dataclass
from enum import Enum, IntFlag

from hw.config import CHANNELS, HeadConfig
from hw.counters import CHANNEL_COUNTERS, JOB_COUNTERS, CounterDefinition, channel_counter
from hw.status import Status

ADDRESS_BITS = 12
"""Width of an AXI4-Lite address."""

WORD_BITS = 32
WORD_BYTES = WORD_BITS // 8

STATUS_BITS = 8
"""Width of a status code."""

MAGIC = int.from_bytes(b"UNEM", "little")
VERSION = 0x0002_0000
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
    FEATURE = 1 << Status.FEATURE


class Flag(IntFlag):
    """Bits of FLAGS: optional functions that a job asks for."""

    MASK = 1 << 0
    LOGITS = 1 << 1


class Feature(IntFlag):
    """Bits of FEATURES: optional functions of the build."""

    BIAS = 1 << 0
    BOUND = 1 << 1
    MASK = 1 << 2
    LOGITS = 1 << 3
    LOGSUMEXP = 1 << 4
    JOB_QUEUE = 1 << 5


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
                "ERRORS.START. No job is taken while RESET reads 1, nor while one runs or DONE is "
                "set; with the feature JOB_QUEUE only while one reads its image or waits to be "
                "collected, and for a job with FLAGS.LOGITS until all others have ended.",
            ),
            Field(
                "DONE",
                1,
                Access.READ,
                "A job has ended; held until CONTINUE is written. No other job ends before.",
            ),
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
        "ISR are as after power-up; every job that ran has ended with status RESET, and one that "
        "waited is dropped and not counted. Other registers keep their values.",
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


def _wide(name: str, offset: int, doc: str) -> tuple[Register, Register]:
    """An argument of 64 bits."""
    return (
        Register(f"{name}_LO", offset, Access.WRITE, f"{doc}, bits 31:0."),
        Register(f"{name}_HI", offset + 4, Access.WRITE, f"{doc}, bits 63:32."),
    )


_FLAG_FIELDS = {
    Flag.MASK: Field("MASK", 0, Access.WRITE, "The job has a mask, at MASKn_ADDR of each channel."),
    Flag.LOGITS: Field(
        "LOGITS", 1, Access.WRITE, "All scores are written, to LOGITSn_ADDR of each channel."
    ),
}


def argument_registers(
    channels: int = max(CHANNELS), flags: Flag = Flag.MASK | Flag.LOGITS
) -> tuple[Register, ...]:
    """The job arguments of a build for so many channels that knows `flags`, by ascending offset."""
    table = [
        Register("ROWS", 0x020, Access.WRITE, "Vocabulary rows V of the image."),
        Register("DIM", 0x024, Access.WRITE, "Columns d of the image, without padding."),
        Register("K", 0x028, Access.WRITE, "Results wanted per vector."),
        Register("VECTORS", 0x02C, Access.WRITE, "Hidden vectors of the job."),
        Register("IMAGE_FORMAT", 0x030, Access.WRITE, "Format of the image, to equal FORMAT."),
    ]
    if flags:
        fields = tuple(_FLAG_FIELDS[flag] for flag in Flag if flag in flags)
        doc = (
            "Optional functions that the job asks for; a bit of one that is not built is an error."
        )
        table.append(Register("FLAGS", 0x034, Access.WRITE, doc, fields))
    table += _wide("HIDDEN_ADDR", 0x040, "Address of the hidden vectors")
    table += _wide("RESULT_ADDR", 0x048, "Address of the result block")
    for channel in range(channels):
        base = 0x080 + 16 * channel
        image = f"the image's part of channel {channel}"
        table += _wide(f"IMAGE{channel}_ADDR", base, f"Address of {image}")
        table += _wide(
            f"IMAGE{channel}_BYTES", base + 8, f"Size in bytes of {image} (0 without tiles)"
        )
    for channel in range(channels):
        base = 0x100 + 16 * channel
        if Flag.MASK in flags:
            table += _wide(f"MASK{channel}_ADDR", base, f"Address of channel {channel}'s mask")
        if Flag.LOGITS in flags:
            doc = f"Address that the scores of channel {channel} are written to"
            table += _wide(f"LOGITS{channel}_ADDR", base + 8, doc)
    return tuple(table)


_IDENTIFICATION = (
    ("MAGIC", 'The characters "UNEM", the first in bits 7:0.'),
    ("VERSION", "Version of this register map: bits 31:16 major, 15:0 minor."),
    (
        "FORMAT",
        (
            "Format of the images this hardware takes: bits 15:0 tile_rows, 18:16 log2 width, "
            "22:20 log2 group (0 for whole rows), 23 and 19 log2 of the channels, 25:24 "
            "log2(weight_bits) - 2, 26 scales of 16 bits, 27 signed scales, 29:28 "
            "log2(bus_bits) - 6, 30 bias, 31 bound."
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
    ("FEATURES", "Optional functions of this build."),
    ("RANKERS", "Stages per channel that rank the scored rows, each for every RANKERS-th vector."),
)

IDENTIFICATION_REGISTERS = tuple(
    Register(name, 0x200 + 4 * index, Access.READ, doc)
    for index, (name, doc) in enumerate(_IDENTIFICATION)
)
"""Constants of the build, see `identification`."""

COUNTER_BASE = 0x300


def counter_registers(name: str) -> tuple[str, str]:
    """Names of the low and the high register of a counter of `hw.counters.counter_names`."""
    return f"{name.upper()}_LO", f"{name.upper()}_HI"


def counter_table(channels: int = max(CHANNELS)) -> tuple[Register, ...]:
    """The counters of a build with so many channels, in the order of a result block's trailer."""
    counters = list(JOB_COUNTERS)
    for channel in range(channels):
        counters += (
            CounterDefinition(channel_counter(name, channel), f"Channel {channel}. {doc}")
            for name, doc in CHANNEL_COUNTERS
        )
    table = []
    for index, counter in enumerate(counters):
        low, high = counter_registers(counter.name)
        offset = COUNTER_BASE + 8 * index
        table += [
            Register(low, offset, Access.READ, f"Bits 31:0. {counter.doc}"),
            Register(
                high,
                offset + 4,
                Access.READ,
                f"Bits 63:32 as held by a read of {low}; one holding register serves all "
                "counters, so read this next.",
            ),
        ]
    return tuple(table)


def flags(config: HeadConfig) -> Flag:
    """The optional functions of a job that a build knows."""
    return (Flag.MASK if config.mask else Flag(0)) | (Flag.LOGITS if config.all_logits else Flag(0))


def features(config: HeadConfig) -> Feature:
    """The optional functions of a build."""
    built = {
        Feature.BIAS: config.bias,
        Feature.BOUND: config.bound,
        Feature.MASK: config.mask,
        Feature.LOGITS: config.all_logits,
        Feature.LOGSUMEXP: config.logsumexp,
        Feature.JOB_QUEUE: config.job_queue,
    }
    return Feature(sum(feature for feature, is_built in built.items() if is_built))


@dataclass(frozen=True)
class RegisterMap:
    """The registers of one build, by section; each by ascending offset."""

    control: tuple[Register, ...]
    arguments: tuple[Register, ...]
    identification: tuple[Register, ...]
    counters: tuple[Register, ...]

    @property
    def all(self) -> tuple[Register, ...]:
        """All registers, by ascending offset."""
        return self.control + self.arguments + self.identification + self.counters


def registers(config: HeadConfig) -> RegisterMap:
    """The registers of one build."""
    return RegisterMap(
        CONTROL_REGISTERS,
        argument_registers(config.channels, flags(config)),
        IDENTIFICATION_REGISTERS,
        counter_table(config.channels),
    )


OFFSETS = {
    register.name: register.offset
    for register in (
        *CONTROL_REGISTERS,
        *argument_registers(),
        *IDENTIFICATION_REGISTERS,
        *counter_table(),
    )
}
"""Byte offset of each register that a build can have, by name."""


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
        "MAX_VECTORS": config.batch,
        "CHANNELS": config.channels,
        "SCORE_BITS": config.score_bits,
        "FEATURES": int(features(config)),
        "RANKERS": config.rankers,
    }
