"""Seeded random configurations that together cover every value of every parameter."""

import random
from dataclasses import dataclass
from functools import cache

from hw.config import (
    BUS_BITS,
    FOLDS,
    GROUPS,
    HIDDEN_BITS,
    INSERT_INTERVALS,
    SCALE_BITS,
    WEIGHT_BITS,
    HeadConfig,
    is_power_of_two,
)
from sim.memory import MemoryModel
from sim.memory.model import WRITE_ORDERS, Stalls

COUNT = 40
SHORT = 12
"""Configurations that run in every test; all of them in the long one."""

KS = (1, 2, 64, 255, 256)
COVERED = {
    "bus_bits": BUS_BITS,
    "weight_bits": WEIGHT_BITS,
    "group": GROUPS,
    "scale_bits": SCALE_BITS,
    "scale_signed": (False, True),
    "hidden_bits": HIDDEN_BITS,
    "fold": FOLDS,
    "k": KS,
    "insert_interval": INSERT_INTERVALS,
}


@dataclass(frozen=True)
class Setup:
    """A configuration, its memory, and the shape of its largest job."""

    seed: int
    config: HeadConfig
    memory: MemoryModel
    rows: int
    dim: int

    @property
    def large(self) -> bool:
        return self.rows > 1000 and self.dim > 512


@cache
def _spread(name: str, values: tuple) -> list:
    """A value for each setup: all equally often, in an order that no other parameter has."""
    order = [values[seed % len(values)] for seed in range(COUNT)]
    random.Random(name).shuffle(order)
    return order


def setup(seed: int) -> Setup:
    """Setup `seed` of 0..COUNT-1; every fourth one is of a large head."""
    rng = random.Random(f"configuration {seed}")
    chosen = {name: _spread(name, values)[seed] for name, values in COVERED.items()}
    large = seed % 4 == 3
    rows = rng.randint(1001, 1200) if large else rng.choice((1, 3, rng.randint(2, 300)))
    dim = rng.randint(513, 640) if large else rng.choice((1, 31, 64, rng.randint(1, 300)))
    beat = chosen["bus_bits"] // chosen["weight_bits"]
    widest = min(beat, chosen["group"] or beat)
    width = rng.choice([w for w in range(1, widest + 1) if is_power_of_two(w)])
    longest = min(256, 4096 // (chosen["bus_bits"] // 8))
    config = HeadConfig(
        **chosen,
        width=width,
        tile_rows=beat // width * rng.choice((1, 2, 3, 8)),
        max_dim=dim + rng.choice((0, 0, 100)),
        max_rows=rows + rng.choice((0, 0, 1000)),
        max_burst=rng.choice((1, 3, 16, longest)),
        outstanding_bytes=chosen["bus_bits"] // 8 * rng.choice((256, 512)),
    )
    stalls = rng.choice(
        (
            Stalls.everywhere(0.3, 2, seed),
            Stalls.everywhere(0.02, 60, seed),
            Stalls.everywhere(0.7, 1, seed),
        )
    )
    memory = MemoryModel(
        base=0,
        latency_cycles=rng.choice((1, 7, 40, 160)),
        max_outstanding=rng.choice((1, 2, 16, 256)),
        write_order=rng.choice(WRITE_ORDERS),
        idle_garbage=rng.random() < 0.5,
        stalls=stalls,
    )
    return Setup(seed, config, memory, rows, dim)


SETUPS = tuple(setup(seed) for seed in range(COUNT))


def coverage_table(setups) -> str:
    """How often each value of each parameter occurs in `setups`."""
    lines = [f"{len(setups)} configurations, {sum(s.large for s in setups)} with V > 1000, d > 512"]
    for name, values in COVERED.items():
        counts = {value: sum(getattr(s.config, name) == value for s in setups) for value in values}
        lines.append(
            f"{name:>16}  " + "  ".join(f"{value}: {count}" for value, count in counts.items())
        )
    shapes = sorted({(s.config.units, s.config.width) for s in setups})
    lines.append(f"{'units x width':>16}  " + "  ".join(f"{u}x{w}" for u, w in shapes))
    return "\n".join(lines)
