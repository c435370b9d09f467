"""Seeded jobs on few accelerators, for the estimate to be compared with their simulation."""

import random
from dataclasses import dataclass, replace
from fractions import Fraction
from math import log, sqrt
from pathlib import Path

import numpy as np

from host.driver import Head
from host.image import Image, save_image
from host.masks import pack_mask
from hw.config import HeadConfig
from sim.device import SimDevice
from sim.estimate import Estimate, estimate
from sim.memory import DEVICES, DramTiming, MemoryModel

MOST_CYCLES = 120_000
LEAST_BYTES_UNDER_WAY = 1024
LISTS_MATTER = 0.5
"""From this share of what beats or weights take on, lists hold them up again and again."""
CHANCE_DEVIATIONS = 2.5
LATENCIES = (1, 7, 40, 160, 400, 1000)
CLOCKS_MHZ = (150, 200, 250, 300, Fraction(1000, 3))

BUILDS = {
    "64 bits": HeadConfig(bus_bits=64, k=16, max_dim=256, max_rows=2048),
    "fold 4": HeadConfig(bus_bits=128, k=64, width=16, fold=4, max_dim=256, max_rows=4096),
    "k 256": HeadConfig(
        bus_bits=256, weight_bits=4, scale_bits=8, group=128, hidden_bits=8, k=256, max_dim=512
    ),
    "channels 2": HeadConfig(bus_bits=128, channels=2, k=16, batch=2, max_dim=256),
    "sums": HeadConfig(
        bus_bits=128, k=32, batch=4, logsumexp=True, bias=True, bound=True, max_dim=256
    ),
    "mask and logits": HeadConfig(
        bus_bits=128, k=16, batch=2, mask=True, all_logits=True, max_dim=256, max_rows=4096
    ),
    "int16, fold 2": HeadConfig(
        bus_bits=64, weight_bits=16, group=0, fold=2, k=5, tile_rows=24, bias=True, max_dim=200
    ),
    "channels 4": HeadConfig(bus_bits=64, channels=4, k=8, job_queue=True, max_dim=128),
    "short bursts": HeadConfig(
        bus_bits=64, k=2, max_burst=8, outstanding_bytes=256, max_dim=128, insert_interval=4
    ),
    "rankers": HeadConfig(
        bus_bits=128, weight_bits=4, batch=4, rankers=4, k=4, logsumexp=True, max_dim=256
    ),
    "512 bits": HeadConfig(bus_bits=512, k=64, max_dim=576),
    "fold 8": HeadConfig(bus_bits=256, fold=8, k=32, group=64, batch=2, max_dim=512),
}


DRAMS = {build: tuple(DEVICES) for build in BUILDS} | {
    # Results of 256 rows take a slow DRAM longer than some of these jobs.
    "k 256": ("ddr4-2400-x64", "ddr4-3200-x64", "lpddr4-3200-x32", "hbm2-2000-pc"),
}


@dataclass(frozen=True)
class Case:
    """A job on an accelerator with a memory."""

    build: str
    number: int
    rows: int
    dim: int
    k: int
    vectors: int
    memory: MemoryModel
    clock_hz: Fraction
    mask: bool
    all_logits: bool

    @property
    def config(self) -> HeadConfig:
        return BUILDS[self.build]

    @property
    def name(self) -> str:
        memory = self.memory
        timing = memory.dram.device.name if memory.dram else f"latency {memory.latency_cycles}"
        return f"{self.build} #{self.number}: {self.rows} x {self.dim}, k {self.k}, {timing}"

    @property
    def seed(self) -> int:
        return self.number

    def estimate(self) -> Estimate:
        return estimate(
            self.config,
            self.rows,
            self.dim,
            k=self.k,
            vectors=self.vectors,
            memory=self.memory,
            clock_hz=self.clock_hz,
            mask=self.mask,
            all_logits=self.all_logits,
        )

    def allowance(self, found: Estimate) -> float:
        """Cycles by which the estimate may be off."""
        share = 0.01 if self.memory.dram is not None else 0.0
        config, latency = self.config, self.memory.latency_cycles
        if config.fold > 1 and 2 * latency > config.fold * config.outstanding_beats:
            # A folded farm that waits for memory again and again is computed from averages.
            share = 0.02
        if self.memory.dram is not None and config.outstanding_bytes < LEAST_BYTES_UNDER_WAY:
            # Each access then comes when it may, not in a stream; averages are further off.
            share = 0.04
        most = max(15.0, share * found.cycles)
        return most + self.chance(found)

    def chance(self, found: Estimate) -> float:
        """What the order of rows may change, cycles: 0 unless the lists are about to bind.

        How many rows they keep is a Poisson number, about.
        """
        limits = found.bound.limits
        others = max(limits["bus"], limits["compute"])
        if limits["top-k"] < LISTS_MATTER * others or self.rows <= self.k:
            return 0.0
        kept = self.k * log(self.rows / self.k)
        return CHANCE_DEVIATIONS * self.config.insert_interval * sqrt(kept)


def _size(rng: random.Random, config: HeadConfig) -> tuple[int, int]:
    """Rows and columns: tiny heads, and larger ones."""
    # Of few columns the order of rows would be alike for all states.
    dim = rng.choice((48, config.max_dim, rng.randint(48, config.max_dim)))
    rows = rng.choice((1, rng.randint(2, 40), rng.randint(100, 700), rng.randint(700, 2000)))
    return rows, dim


def case(build: str, number: int, dram: str | None = None) -> Case:
    """Case `number` of a build, on ideal memory or a DRAM."""
    config = BUILDS[build]
    rng = random.Random(f"{build} {number} {dram}")
    rows, dim = _size(rng, config)
    memory = MemoryModel(latency_cycles=rng.choice(LATENCIES))
    if dram is not None:
        latency = rng.choice((20, 100, 100, 250))
        memory = MemoryModel(dram=DramTiming(DEVICES[dram], latency_ns=latency))
    found = Case(
        build=build,
        number=number,
        rows=rows,
        dim=dim,
        k=rng.choice((1, config.k, rng.randint(1, config.k))),
        vectors=rng.randint(1, config.batch),
        memory=memory,
        clock_hz=Fraction(rng.choice(CLOCKS_MHZ)) * 10**6,
        mask=config.mask and rng.random() < 0.5,
        all_logits=config.all_logits and rng.random() < 0.5,
    )
    while found.estimate().cycles > MOST_CYCLES:
        found = replace(found, rows=found.rows // 2)
    return found


def _image(folder: Path, config: HeadConfig, rows: int, dim: int, seed: int) -> Image:
    rng = np.random.default_rng(seed)
    half = 1 << config.weight_bits - 1
    weights = rng.integers(-half, half, (rows, dim))
    scales = rng.integers(1, 1 << config.scale_bits - 1, (rows, config.groups(dim)))
    terms = rng.integers(-100, 100, (rows, config.terms)) if config.terms else None
    # Logits that a log-sum-exp can hold, and terms that leave rows in random order for each state.
    units = {"weight_scale": 1e-7, "bias_unit": 1e-6, "bound_unit": 1e-6}
    return save_image(folder / "head.safetensors", config, weights, scales, terms=terms, **units)


def simulate(case: Case, folder: Path) -> dict[str, np.ndarray]:
    """Counters of the simulated job, those of channels int [C], by name; `folder` is scratch."""
    image = _image(folder, case.config, case.rows, case.dim, case.seed)
    hidden = np.random.default_rng(case.seed + 1).standard_normal((case.vectors, case.dim))
    mask = pack_mask(np.ones((case.vectors, case.rows), bool)) if case.mask else None
    with SimDevice(case.config, case.memory, case.clock_hz) as device:
        results = Head(device, image).run(
            hidden,
            case.k,
            mask=mask,
            all_logits=case.all_logits,
            logsumexp=case.config.logsumexp,
        )
    counters = {name: values[0] for name, values in results.counters.items()}
    return counters | {name: values[0] for name, values in results.channel_counters.items()}
