"""The FPGA family that Verilog is written for: which of its blocks are named in it."""

from dataclasses import dataclass

GENERIC = "generic"
ECP5 = "ecp5"
FAMILIES = (GENERIC, ECP5)


@dataclass(frozen=True)
class Family:
    """What a block's ``elaborate`` gets as its platform.

    Every vendor form of a block has a portable twin with the same latency, which is also what
    simulations run. So results and clocks are the same for all families.

    Parameters
    ----------
    name : "generic" or "ecp5"

    Raises
    ------
    ValueError
        There is no such family.
    """

    name: str = GENERIC

    def __post_init__(self):
        if self.name not in FAMILIES:
            raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {self.name!r}")


def is_ecp5(platform) -> bool:
    """Whether a block is elaborated for the ECP5."""
    return isinstance(platform, Family) and platform.name == ECP5
