"""Seeded jobs on few accelerators, for the estimate to be compared with their simulation."""

import random
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from host.driver import Head
from host.image import Image, save_image
from host.masks import pack_mask
from hw.config import HeadConfig
from hw.layout import ImageLayout
from sim.device import SimDevice
from sim.estimate import Estimate, estimate
from sim.memory import DEVICES, DramTiming, MemoryModel

MOST_CYCLES = 120_000
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

    def allowance(self) -> float:
        """Cycles by which the estimate may be off."""
        return 15


def _size(rng: random.Random, config: HeadConfig) -> tuple[int, int]:
    """Rows and columns: tiny heads, and larger ones of a job that is not too long."""
    dim = rng.choice((1, config.max_dim, rng.randint(1, config.max_dim)))
    rows = rng.choice((1, rng.randint(2, 40), rng.randint(100, 700), rng.randint(700, 2000)))
    while rows > 1 and ImageLayout(config, rows, dim).beats * config.fold > MOST_CYCLES // 2:
        rows = rows // 2
    return rows, dim


def case(build: str, number: int, dram: str | None = None) -> Case:
    """Case `number` of a build, on ideal memory or a DRAM."""
    config = BUILDS[build]
    rng = random.Random(f"{build} {number} {dram}")
    rows, dim = _size(rng, config)
    memory = MemoryModel(
        latency_cycles=rng.choice(LATENCIES), max_outstanding=rng.choice((2, 256, 256, 256))
    )
    if dram is not None:
        latency = rng.choice((20, 100, 100, 250))
        memory = MemoryModel(dram=DramTiming(DEVICES[dram], latency_ns=latency))
    return Case(
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


def _image(folder: Path, config: HeadConfig, rows: int, dim: int, seed: int) -> Image:
    rng = np.random.default_rng(seed)
    half = 1 << config.weight_bits - 1
    weights = rng.integers(-half, half, (rows, dim))
    scales = rng.integers(1, 1 << config.scale_bits - 1, (rows, config.groups(dim)))
    terms = rng.integers(-100, 100, (rows, config.terms)) if config.terms else None
    # Logits that a log-sum-exp can hold.
    units = {"weight_scale": 1e-7, "bias_unit": 1e-3, "bound_unit": 1e-3}
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
