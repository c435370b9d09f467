"""Seeded random configurations that together cover every value of every parameter."""

import random
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import combinations

from hw.config import (
    BUS_BITS,
    CHANNELS,
    FOLDS,
    GROUPS,
    HIDDEN_BITS,
    INSERT_INTERVALS,
    MAX_BATCH,
    SCALE_BITS,
    WEIGHT_BITS,
    HeadConfig,
    is_power_of_two,
)
from hw.layout import ImageLayout
from sim.memory import MemoryModel
from sim.memory.model import WRITE_ORDERS, Stalls

COUNT = 150
SHORT = 24
"""Configurations that hold every value of every parameter; the long tests run these."""
QUICK = 10
"""The first of those, which hold most; they run in every test. `make sweep` runs all."""

BOTH = (False, True)
COVERED = {
    "bus_bits": BUS_BITS,
    "weight_bits": WEIGHT_BITS,
    "group": GROUPS,
    "scale_bits": SCALE_BITS,
    "scale_signed": BOTH,
    "hidden_bits": HIDDEN_BITS,
    "fold": FOLDS,
    "k": (1, 2, 5, 16, 64, 255, 256),
    "insert_interval": INSERT_INTERVALS,
    "batch": tuple(range(1, MAX_BATCH + 1)),
    "channels": CHANNELS,
    "rankers": (1, 2, 4, 8, 16),
    "bias": BOTH,
    "bound": BOTH,
    "mask": BOTH,
    "all_logits": BOTH,
    "logsumexp": BOTH,
    "job_queue": BOTH,
    "dsp_pairs": BOTH,
}

# How large a design is, see `_size`, decides how long it takes to build. One of `RARE` may be
# large.
MOST_SIZE, LARGE_SIZE = 36, 110
RARE = 4
MOST_CYCLES = 30_000
"""Of a job, about, where memory is slow."""


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


def _size(chosen: dict) -> float:
    """About the text of a design, in thousands of lines, from its lists, rankers and lanes."""
    beat = chosen["bus_bits"] // chosen["weight_bits"]
    lanes = beat // min(beat, chosen["fold"]) * chosen["batch"]
    lists = chosen["batch"] * (1 + chosen["job_queue"])
    terms = chosen["bias"] + chosen["bound"]
    rankers = chosen["rankers"] * (1 + 2 * chosen["logsumexp"] + chosen["all_logits"] + terms)
    return 6 + chosen["channels"] * (5 + 2.5 * lists + rankers + lanes / 25)


def _pick(rng: random.Random, seed: int) -> dict:
    """Values of the parameters in `COVERED`, those that make no large design all the same often.

    Where the design would be too large others give way before what a large one is there for: two of
    three are for the batch, one for the channels.
    """
    chosen = {name: _spread(name)[seed] for name in COVERED}
    number, remainder = divmod(seed, RARE)
    limit = MOST_SIZE if remainder else LARGE_SIZE
    if remainder:
        chosen["batch"] = rng.choice((1, 2, 2, 3, 4))
        chosen["channels"] = rng.choice((1, 1, 2, 2, 4))
        order = ("bus_bits", "rankers", *rng.sample(("channels", "batch"), 2))
    elif number % 3:
        batches = [value for value in COVERED["batch"] if value > 4]
        chosen["batch"] = batches[(number - number // 3) % len(batches)]
        chosen["rankers"] = rng.choice((1, 2, 4, 8, 16, 16))
        functions = rng.sample(("rankers", "job_queue", "logsumexp"), 3)
        order = ("bus_bits", "channels", *functions, "batch")
    else:
        chosen["channels"] = rng.choice((4, 8))
        order = ("bus_bits", "rankers", "batch", "channels")
    chosen["rankers"] = min(chosen["rankers"], 1 << chosen["batch"].bit_length() - 1)
    for name in order:
        values = sorted(COVERED[name])
        while _size(chosen) > limit and chosen[name] != values[0]:
            chosen[name] = values[values.index(chosen[name]) - 1]
            chosen["rankers"] = min(chosen["rankers"], 1 << chosen["batch"].bit_length() - 1)
    chosen["fold"] = min(chosen["fold"], chosen["bus_bits"] // chosen["weight_bits"])
    return chosen


@cache
def _spread(name: str) -> list:
    """A value for each setup: all equally often, in an order that no other parameter has."""
    values = COVERED[name]
    order = [values[seed % len(values)] for seed in range(COUNT)]
    random.Random(name).shuffle(order)
    return order


def _with_pairs(config: HeadConfig) -> HeadConfig:
    """`config` with two products per DSP block, if it can be."""
    try:
        return replace(config, dsp_pairs=True)
    except ValueError:
        return config


def setup(seed: int) -> Setup:
    """Setup `seed` of 0..COUNT-1; a large head needs a wide bus, or its jobs take too long."""
    rng = random.Random(f"configuration {seed}")
    chosen = _pick(rng, seed)
    tall = chosen["bus_bits"] >= 128 and rng.random() < 0.4
    rows = rng.randint(1001, 1200) if tall else rng.choice((1, 3, *(rng.randint(2, 250),) * 4))
    dim = rng.randint(513, 600) if tall else rng.choice((1, 31, 64, *(rng.randint(1, 200),) * 3))
    beat = chosen["bus_bits"] // chosen["weight_bits"]
    widest = min(beat, chosen["group"] or beat)
    width = rng.choice([w for w in range(1, widest + 1) if is_power_of_two(w)])
    longest = min(256, 4096 // (chosen["bus_bits"] // 8))
    units = beat // width
    blocks = rng.choice((1, 1, 2, 3, 8, max(1, rows // units // 4)))
    if chosen["channels"] > 1 and rng.random() < 0.8:
        # Some tiles for every channel.
        tiles = chosen["channels"] * rng.randint(1, 3)
        blocks = min(blocks, max(1, rows // units // tiles))
        rows = max(rows, min(300, (tiles - 1) * blocks * units + rng.randint(1, blocks * units)))
    pairs = chosen.pop("dsp_pairs")
    config = HeadConfig(
        **chosen,
        width=width,
        tile_rows=units * blocks,
        max_dim=dim + rng.choice((0, 0, 100)),
        max_rows=rows + rng.choice((0, 0, 1000)),
        max_burst=rng.choice((1, 3, 16, longest)),
        outstanding_bytes=chosen["bus_bits"] // 8 * rng.choice((256, 512)),
    )
    if pairs:
        config = _with_pairs(config)
    latency = rng.choice((1, 7, 40, 160))
    bursts = rng.choice((1, 2, 16, 256))
    # Beats that come one by one, each after the latency, are for short jobs.
    beats = ImageLayout(config, rows, dim).beats
    if beats * (latency // (config.max_burst * bursts) + config.fold) > MOST_CYCLES:
        config = replace(config, max_burst=longest)
        bursts = max(16, bursts)
    stalls = rng.choice(
        (
            Stalls.everywhere(0.3, 2, seed),
            Stalls.everywhere(0.02, 60, seed),
            Stalls.everywhere(0.7, 1, seed),
        )
    )
    memory = MemoryModel(
        base=0,
        latency_cycles=latency,
        max_outstanding=bursts,
        write_order=rng.choice(WRITE_ORDERS),
        idle_garbage=rng.random() < 0.5,
        stalls=stalls,
    )
    return Setup(seed, config, memory, rows, dim)


def _short(setups: tuple[Setup, ...]) -> tuple[int, ...]:
    """Seeds of a few small setups in which every value of every parameter and many pairs occur."""
    values = {item: {(name, getattr(item.config, name)) for name in COVERED} for item in setups}
    pairs = {item: set(combinations(sorted(values[item]), 2)) for item in setups}
    rest = list(setups)
    chosen, seen, seen_pairs = [], set(), set()

    def gain(item):
        cost = _size(asdict(item.config)) * (1 + 3 * item.large)
        return len(values[item] - seen) / cost, len(pairs[item] - seen_pairs) / cost

    while len(chosen) < SHORT:
        best = max(rest, key=gain)
        rest.remove(best)
        chosen.append(best)
        seen |= values[best]
        seen_pairs |= pairs[best]
    return tuple(item.seed for item in chosen)


SETUPS = tuple(setup(seed) for seed in range(COUNT))
SHORT_SEEDS = _short(SETUPS)


def coverage_table(setups) -> str:
    """How often each value of each parameter occurs in `setups`."""
    lines = [f"{len(setups)} configurations, {sum(s.large for s in setups)} with V > 1000, d > 512"]
    for name, values in COVERED.items():
        counts = {value: sum(getattr(s.config, name) == value for s in setups) for value in values}
        lines.append(
            f"{name:>16}  " + "  ".join(f"{int(value)}: {count}" for value, count in counts.items())
        )
    shapes = sorted({(s.config.units, s.config.width) for s in setups})
    lines.append(f"{'units x width':>16}  " + "  ".join(f"{u}x{w}" for u, w in shapes))
    return "\n".join(lines)
