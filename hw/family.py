"""The FPGA family that Verilog is written for: which of its blocks are named in it."""

from dataclasses import dataclass

GENERIC = "generic"
ECP5 = "ecp5"
SERIES_7 = "7series"
ULTRASCALE_PLUS = "ultrascale+"

_MULTIPLIER_BITS = {
    # Xilinx UG479 and UG579, Lattice FPGA-TN-02205. The generic form is for any of them.
    GENERIC: (27, 18),
    ECP5: (18, 18),
    SERIES_7: (25, 18),
    ULTRASCALE_PLUS: (27, 18),
}
FAMILIES = tuple(_MULTIPLIER_BITS)
DSP_BITS = 18
"""Signed operand width that both ports of a DSP block take in every family."""
WIDEST_DSP_BITS = max(wide for wide, _ in _MULTIPLIER_BITS.values())
"""Signed operand width that the wider port of a DSP block takes in some family."""


def pair_operand_bits(bits: int, shared_bits: int) -> int:
    """Width of the signed operand that holds two factors of `bits` for one multiplication.

    ``second << (bits + shared_bits)`` plus ``first``; a bit more than the two take, because both
    may be the lowest of their range.
    """
    return bits + (bits + shared_bits) + 1


@dataclass(frozen=True)
class Family:
    """What a block's ``elaborate`` gets as its platform.

    Every vendor form of a block has a portable twin with the same latency, which is also what
    simulations run. So results and clocks are the same for all families. Xilinx families take the
    portable form: its registers are those that their DSP blocks and block RAMs have inside.

    Parameters
    ----------
    name : "generic", "ecp5", "7series" or "ultrascale+"

    Raises
    ------
    ValueError
        There is no such family.
    """

    name: str = GENERIC

    def __post_init__(self):
        if self.name not in FAMILIES:
            raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {self.name!r}")

    @property
    def widest_operand_bits(self) -> int:
        """Signed operand width that the wider port of a DSP block takes."""
        return _MULTIPLIER_BITS[self.name][0]


def is_ecp5(platform) -> bool:
    """Whether a block is elaborated for the ECP5."""
    return isinstance(platform, Family) and platform.name == ECP5
