"""The points of a sweep: the valid ones of all combinations of the values that were given."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from math import prod

from host.console import StageProgress
from host.errors import UsageError, UserError
from host.explore.head import SweptHead
from host.explore.point import Point
from host.options.hardware import BUFFER_FIELDS
from host.options.memory import DEFAULT_CLOCK_MHZ, DEFAULT_LATENCY, DEFAULT_LATENCY_NS, IDEAL
from hw.config import FOLDS, IMAGE_FIELDS, HeadConfig
from hw.family import GENERIC
from hw.verilog import check_family
from sim.build import no_progress
from sim.estimate import Estimate
from sim.memory import DEVICES, DramTiming, MemoryModel
from sim.memory.sizing import choose

MOST_POINTS = 100_000
DEFAULT_K = 64
SYSTEM = ("memory", "clock_mhz")


@dataclass(frozen=True)
class Space:
    """What is swept.

    Parameters
    ----------
    head : SweptHead
    values : dict of tuple
        By name of a `HeadConfig` field, "lanes", "memory" or "clock_mhz". What is missing has its
        default, or that of the head.
    where : dict of str
        The option that gave them, for errors.
    latency_cycles : int
        Of ideal memory.
    latency_ns, devices
        As `DramTiming` has them.
    known : dict of MemoryModel
        Further memories by the names that values have for them.
    family : str
        FPGA that Verilog is written for, whose DSP blocks decide what `dsp_pairs` can be.

    Raises
    ------
    UsageError
        The values contradict each other or the head, or make too many points.
    """

    head: SweptHead
    values: Mapping[str, tuple]
    where: Mapping[str, str] = field(default_factory=dict)
    latency_cycles: int = DEFAULT_LATENCY
    latency_ns: float = DEFAULT_LATENCY_NS
    devices: int | None = None
    known: Mapping[str, MemoryModel] = field(default_factory=dict)
    family: str = GENERIC

    def __post_init__(self):
        values = self.values
        if "lanes" in values and "fold" in values:
            raise UsageError(self._option("lanes"), "follow from --fold, which is given as well")
        for name, packed in self.head.image_fields.items():
            for value in values.get(name, ()):
                if value != packed:
                    raise UsageError(
                        self._option(name),
                        f"{name} is {value}, but {self.head.path} was packed with {name} {packed}: "
                        "give the model instead of the image",
                    )
        for name, needed in (("max_dim", self.head.dim), ("max_rows", self.head.rows)):
            if any(value < needed for value in values.get(name, ())):
                raise UsageError(
                    self._option(name), f"must be at least {needed}, which the head has"
                )
        if self.combinations > MOST_POINTS:
            raise UsageError(
                "explore",
                f"has {self.combinations:,} combinations of values",
                expected=f"at most {MOST_POINTS:,}",
            )

    def _option(self, name: str) -> str:
        return self.where.get(name, "--" + name.replace("_", "-"))

    @property
    def combinations(self) -> int:
        return prod(len(values) for values in self.values.values())

    @property
    def swept(self) -> list[str]:
        """Names of what has more than one value."""
        return [name for name, values in self.values.items() if len(values) > 1]

    def points(self, progress: StageProgress = no_progress) -> "Points":
        """All points."""
        found: dict[Point, tuple[dict[str, object], Estimate]] = {}
        reasons: Counter[str] = Counter()
        formats = _Formats(self.head)
        repeated = 0
        for done, settings in enumerate(self._settings()):
            progress("estimating", done, self.combinations)
            try:
                point = self._point(settings, formats)
                if point in found:
                    repeated += 1
                    continue
                estimate = point.estimate(self.head.rows, self.head.dim)
            except (ValueError, UserError) as error:
                reasons[str(error)] += 1
                continue
            found[point] = settings, estimate
        settings, estimates = zip(*found.values(), strict=True) if found else ((), ())
        return Points(
            list(found), list(settings), list(estimates), dict(reasons.most_common()), repeated
        )

    def _settings(self) -> Iterator[dict[str, object]]:
        names = list(self.values)
        for combination in product(*self.values.values()):
            yield dict(zip(names, combination, strict=True))

    def _point(self, settings: dict[str, object], formats: "_Formats") -> Point:
        hardware = {name: value for name, value in settings.items() if name not in SYSTEM}
        lanes = hardware.pop("lanes", None)
        hardware = {"max_dim": self.head.dim, "max_rows": self.head.rows, "k": DEFAULT_K} | hardware
        hardware |= formats.of(hardware)
        if lanes is not None:
            hardware["fold"] = _fold(lanes, hardware)
        sizes = {name: hardware.pop(name) for name in BUFFER_FIELDS if name in hardware}
        config = HeadConfig(**hardware)
        check_family(config, self.family)
        memory = self._memory(settings.get("memory", IDEAL))
        clock = Fraction(settings.get("clock_mhz", DEFAULT_CLOCK_MHZ)) * 10**6
        if all(size > 0 for size in sizes.values()):
            sizing = choose(memory, config.bus_bits, clock, config.channels, **sizes)
            sizes = {name: getattr(sizing, name) for name in BUFFER_FIELDS}
        return Point(HeadConfig(**hardware, **sizes), memory, clock)

    def _memory(self, name: str) -> MemoryModel:
        if name in self.known:
            return self.known[name]
        if name == IDEAL:
            return MemoryModel(latency_cycles=self.latency_cycles)
        timing = DramTiming(DEVICES[name], latency_ns=self.latency_ns, count=self.devices)
        return MemoryModel(dram=timing)


@dataclass(frozen=True)
class Points:
    """The points of a space, in the order of its values."""

    points: list[Point]
    settings: list[dict[str, object]]
    """The values that lead to each, by name."""
    estimates: list[Estimate]
    invalid: dict[str, int]
    """How many combinations make no hardware, by reason, the most frequent first."""
    repeated: int
    """Combinations that make the same point as one before."""


class _Formats:
    """Image formats of a head; a model is asked once for each."""

    def __init__(self, head: SweptHead):
        self.head = head
        self.known: dict[tuple, dict[str, object] | Exception] = {}

    def of(self, hardware: Mapping[str, object]) -> dict[str, object]:
        chosen = {name: hardware[name] for name in IMAGE_FIELDS if name in hardware}
        key = tuple(chosen.items())
        if key not in self.known:
            try:
                self.known[key] = self.head.format(chosen)
            except (ValueError, UserError) as error:
                self.known[key] = error
        if isinstance(self.known[key], Exception):
            raise self.known[key]
        return self.known[key]


def _fold(lanes: int, hardware: Mapping[str, object]) -> int:
    """The fold that leaves so many lanes.

    Raises
    ------
    ValueError
        None does.
    """
    bus_bits = hardware.get("bus_bits", HeadConfig.bus_bits)
    weight_bits = hardware.get("weight_bits", HeadConfig.weight_bits)
    beat = bus_bits // weight_bits
    fold, rest = divmod(beat, lanes) if lanes > 0 else (0, 0)
    if rest or fold not in FOLDS:
        possible = ", ".join(str(beat // fold) for fold in FOLDS if fold <= beat)
        raise ValueError(
            f"{lanes} lanes cannot be had with {bus_bits} bits of int{weight_bits} a beat, "
            f"which take {possible}"
        )
    return fold
