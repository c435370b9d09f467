"""The FPGAs that can be synthesised for."""

from dataclasses import dataclass

from hw.family import FAMILIES, GENERIC

ECP5, SERIES7, ULTRASCALE_PLUS = "ecp5", "7series", "ultrascale+"
SYNTH_FAMILIES = (ECP5, SERIES7, ULTRASCALE_PLUS)

SPEEDS = (6, 7, 8)
"""Speed grades of the ECP5, 8 the fastest."""

_SMALL = ("TQFP144", "CABGA256", "CSFBGA285", "CABGA381")
_PACKAGES = {
    "12k": _SMALL,
    "25k": _SMALL,
    "45k": (*_SMALL, "CABGA554"),
    "85k": ("CSFBGA285", "CABGA381", "CABGA554", "CABGA756"),
}
"""Packages that nextpnr has each size in."""
# All have the whole logic; blocks in the register wrapper need three pins.
_DEFAULT_PACKAGES = {"12k": "CABGA256", "25k": "CABGA256", "45k": "CABGA256", "85k": "CABGA756"}
_SERIES = ("", "um-", "um5g-")
DEVICES = tuple(
    series + size for series in _SERIES for size in _PACKAGES if not (series and size == "12k")
)
"""Parts of the ECP5 family as nextpnr names them: LFE5U-85F is 85k, LFE5UM5G-85F um5g-85k."""
DEFAULT_DEVICE = "85k"


def default_package(device: str) -> str:
    """A package of an ECP5."""
    series, _, size = device.rpartition("-")
    return "CABGA381" if series and size != "85k" else _DEFAULT_PACKAGES[size]


def part_name(device: str) -> str:
    """Lattice's name of an ECP5, without package and grade."""
    series, _, size = device.rpartition("-")
    return f"LFE5{series.upper() or 'U'}-{size.upper().replace('K', 'F')}"


@dataclass(frozen=True)
class Target:
    """What is synthesised for.

    Parameters
    ----------
    family : str
        Of `SYNTH_FAMILIES`.
    device, package : str, optional
        Of an ECP5, as nextpnr names them; the largest by default.
    speed : int, optional
        Its speed grade; 6 by default, or the only one.

    Raises
    ------
    ValueError
        There is no such FPGA; the message begins with the parameter's name.
    """

    family: str
    device: str | None = None
    package: str | None = None
    speed: int | None = None

    def __post_init__(self):
        if self.family not in SYNTH_FAMILIES:
            raise ValueError(
                f"family must be one of {', '.join(SYNTH_FAMILIES)}, got {self.family!r}"
            )
        if self.family != ECP5:
            return
        if self.device is None:
            object.__setattr__(self, "device", DEFAULT_DEVICE)
        if self.device not in DEVICES:
            raise ValueError(f"device must be one of {', '.join(DEVICES)}, got {self.device!r}")
        if self.package is None:
            object.__setattr__(self, "package", default_package(self.device))
        packages = _PACKAGES[self.device.rpartition("-")[2]]
        if self.package not in packages:
            raise ValueError(
                f"package must be one of {', '.join(packages)} with {self.device}, "
                f"got {self.package!r}"
            )
        if self.speed is None:
            object.__setattr__(self, "speed", 8 if self.device.startswith("um5g") else 6)
        if self.speed not in SPEEDS:
            raise ValueError(f"speed must be one of 6, 7, 8, got {self.speed}")
        if self.device.startswith("um5g") and self.speed != 8:
            raise ValueError(f"speed must be 8, the only grade of {self.device}, got {self.speed}")

    @property
    def is_placed(self) -> bool:
        """Whether there is place and route, and so a clock."""
        return self.family == ECP5

    @property
    def lut_inputs(self) -> int:
        """Inputs of the family's LUTs."""
        return 4 if self.family == ECP5 else 6

    @property
    def hdl_family(self) -> str:
        """The family that Verilog is written for."""
        return self.family if self.family in FAMILIES else GENERIC

    def __str__(self):
        if self.family != ECP5:
            return {SERIES7: "7-series", ULTRASCALE_PLUS: "UltraScale+"}[self.family]
        return f"ECP5 {part_name(self.device)}-{self.speed} {self.package}"
