"""What is known of one point of a sweep."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from host.explore.area import LUT_INPUTS, Area
from host.explore.measure import Simulated
from host.explore.placement import PlacedDesign
from host.explore.point import Point
from host.explore.quality import Quality
from host.image.payload import image_parts
from hw.layout import ImageLayout
from sim.estimate import Estimate

PARTS = ("start", "data", "waiting", "refused", "tail")
"""Where cycles go, in the order of a job."""


@dataclass(frozen=True)
class Placed:
    """A point on an FPGA."""

    design: PlacedDesign
    achieved: Estimate | None
    """At the clock asked for, or at the one that place and route reached if that is lower; None
    without place and route."""

    @property
    def fmax_mhz(self) -> float | None:
        return self.design.fmax_mhz

    @property
    def tokens_per_s(self) -> float | None:
        """At that clock."""
        return self.achieved.tokens_per_s if self.achieved else None


@dataclass(frozen=True)
class ImageSize:
    """Bytes of the packed head."""

    total: int
    header_padding: float
    row_padding: float

    @classmethod
    def of(cls, point: Point, rows: int, dim: int) -> "ImageSize":
        layout = ImageLayout(point.config, rows, dim)
        parts = image_parts(layout)
        return cls(layout.bytes, float(parts["header_padding"]), float(parts["row_padding"]))


@dataclass(frozen=True)
class Outcome:
    """A point, what was estimated of it and, if it was, what was measured."""

    number: int
    """Its place in the sweep, from 1."""
    point: Point
    settings: Mapping[str, object]
    """The values that were given, by name."""
    estimate: Estimate
    image: ImageSize
    area: Area | None = None
    quality: Quality | None = None
    simulated: Simulated | None = None
    placed: Placed | None = None
    front: bool = False
    """No other point is better in one respect and as good in all others."""
    failures: tuple[str, ...] = field(default=())
    """What could not be done, and why."""

    @property
    def cycles(self) -> int:
        """Of a job: simulated, otherwise estimated."""
        return self.simulated.cycles if self.simulated else self.estimate.cycles

    @property
    def cycles_per_token(self) -> float:
        return self.cycles / self.point.config.batch

    @property
    def tokens_per_s(self) -> float:
        """At the clock asked for."""
        return float(self.point.clock_hz) / self.cycles_per_token

    @property
    def parts(self) -> dict[str, float]:
        """Cycles of a job by where they go: simulated, otherwise estimated."""
        source = self.simulated or self.estimate
        return {name: getattr(source, name) for name in PARTS}

    @property
    def bytes_per_token(self) -> float:
        return self.estimate.bytes_read / self.point.config.batch

    @property
    def lanes(self) -> int:
        """Multipliers for a state and memory port."""
        return self.point.config.lanes

    @property
    def ecp5_design(self) -> PlacedDesign | None:
        """What was synthesised, if it is of the family that areas are estimated for."""
        design = self.placed.design if self.placed else None
        return design if design and design.lut_inputs == LUT_INPUTS else None

    @property
    def lut4(self) -> int | None:
        """Of an ECP5: synthesised, otherwise estimated."""
        if self.ecp5_design:
            return self.ecp5_design.lut
        return self.area.lut4 if self.area else None

    @property
    def dsp(self) -> int | None:
        """Of an ECP5: synthesised, otherwise counted."""
        source = self.ecp5_design or self.area
        return source.dsp if source else None
