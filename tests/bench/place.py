"""What the accelerator and its blocks cost on FPGAs, and their clocks, against what is required.

On an ECP5-85k by place and route, the median of several seeds; on AMD's families the DSP blocks by
synthesis. The reader's rate is simulated, with the configuration that is placed. Results come from
the cache where nothing has changed; all of it anew takes an hour on two cores.

python -m tests.bench.place [NAME ...]
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

from host.console import stages
from host.synth.synthesis import MOST_SEEDS, Synthesis, synthesise
from host.synth.target import ECP5, SERIES7, ULTRASCALE_PLUS, Target
from hw.config import HeadConfig
from tests.bench import reader_rate

BASELINE = Path(__file__).with_name("baseline.json")
SEEDS = 5

LANES_32 = HeadConfig(bus_bits=256, max_dim=576, max_rows=49152)
"""32 lanes of int8 x int16, groups of 32 with 16-bit scales, K = 64: the head of SmolLM2."""
LANES_64 = HeadConfig(bus_bits=512, max_dim=576, max_rows=49152, insert_interval=6)
"""The same head on twice the bus: a row every 9 clocks, for which the slower top-k is enough."""
SERVING = replace(LANES_32, batch=4, mask=True, bias=True, logsumexp=True)
"""Four states, and what a server asks for."""
TOPK = HeadConfig(bus_bits=256, max_dim=2048, max_rows=2**18)
"""Scores of 50 bits, ids of 18."""


@dataclass(frozen=True)
class Case:
    """A design to be placed, and what is required of it."""

    what: str
    config: HeadConfig
    block: str | None = None
    speed: int = 6
    seeds: int = SEEDS
    most_lut4: int | None = None
    most_ram: int | None = None
    least_mhz: float | None = None


CASES = {
    "lanes-32": Case("32 lanes int8 x int16, K = 64", LANES_32, least_mhz=150),
    "lanes-32-speed-8": Case("the same at speed 8", LANES_32, speed=8, least_mhz=200),
    "lanes-64": Case("64 lanes, insertions every 6 clocks", LANES_64, least_mhz=125),
    "serving": Case("32 lanes, batch 4, mask, bias, log-sum-exp", SERVING, seeds=1),
    "farm": Case("farm of 32 lanes alone", LANES_32, "farm", most_lut4=45 * 32),
    "topk-64": Case(
        "top-k alone, K = 64", replace(TOPK, k=64), "topk", most_lut4=2560, least_mhz=150
    ),
    "topk-256": Case(
        "top-k alone, K = 256", replace(TOPK, k=256), "topk", most_lut4=3840, least_mhz=125
    ),
    "reader": Case(
        "reader alone, 512 bits",
        reader_rate.CONFIG,
        "reader",
        most_lut4=800,
        most_ram=16,
        least_mhz=150,
    ),
}
RATE, DSP = "reader-rate", "dsp"

FARM = HeadConfig(bus_bits=128, width=16, max_dim=256, max_rows=1024, k=4)
DSP_CASES = (
    # family, weights, hidden values, states, dot products per DSP block
    (ECP5, 8, 16, 1, 1),
    (ECP5, 4, 8, 1, 2),
    (SERIES7, 8, 16, 1, 1),
    (SERIES7, 4, 16, 1, 2),
    (ULTRASCALE_PLUS, 8, 16, 1, 1),
    (ULTRASCALE_PLUS, 4, 16, 1, 2),
    (ULTRASCALE_PLUS, 8, 8, 2, 2),
)
"""Small accelerators whose DSP blocks are counted."""


def dsp_config(weight_bits: int, hidden_bits: int, batch: int, pair: int) -> HeadConfig:
    """A small accelerator with all multipliers that there are, those of terms and log-sum-exp."""
    values = {"weight_bits": weight_bits, "hidden_bits": hidden_bits, "batch": batch}
    if pair > 1:
        values["dsp_pairs"] = True
    computed = ("tile_rows", "rankers", "insert_interval", "max_burst", "outstanding_bytes")
    return replace(FARM, bias=True, logsumexp=True, **values, **dict.fromkeys(computed))


def verdict(case: Case, found: Synthesis) -> tuple[str, bool]:
    """What is required, and whether it is met."""
    checks = []
    if case.most_lut4 is not None:
        checks.append((f"at most {case.most_lut4:,} LUT4", found.lut4 <= case.most_lut4))
    if case.most_ram is not None:
        checks.append((f"at most {case.most_ram} RAM", found.ram <= case.most_ram))
    if case.least_mhz is not None:
        checks.append((f"at least {case.least_mhz:g} MHz", found.fmax_mhz >= case.least_mhz))
    texts = [f"{text} {'ok' if met else 'MISSED'}" for text, met in checks]
    return ", ".join(texts), all(met for _, met in checks)


def place(case: Case, seeds: int | None, progress) -> Synthesis:
    """Place and route a case, with as many seeds as it has unless told."""
    runs = range(1, (seeds or case.seeds) + 1)
    target = Target(ECP5, speed=case.speed)
    return synthesise(case.config, target, block=case.block, seeds=runs, progress=progress)


def show(name: str, found: Synthesis, committed: dict | None) -> bool:
    """Print what a case costs; whether it is as required."""
    case = CASES[name]
    clocks = ", ".join(f"{run.fmax_mhz:.1f}" for run in found.runs)
    required, passed = verdict(case, found)
    print(
        f"{name}: {case.what}; speed {case.speed}\n"
        f"  {found.lut4:,} LUT4, {found.ff:,} FF, {found.dsp} DSP, {found.ram:g} RAM, "
        f"{found.fmax_mhz:.1f} MHz ({clocks})"
    )
    if case.block == "farm":
        macs = case.config.lanes * case.config.batch
        print(f"  {found.lut4 / macs:.1f} LUT4 per MAC, of {macs}")
    if case.block == "topk":
        print(f"  {found.lut4 / case.config.k:.1f} LUT4 an entry, of {case.config.k}")
    if required:
        print(f"  required: {required}")
    if committed:
        was = ", ".join(f"{key} {value:,}" for key, value in committed.items())
        print(f"  committed: {was}")
    path = found.path
    print(
        f"  critical path {path.ns:.2f} ns, logic {path.logic_ns:.2f}: {path.begin} -> "
        f"{' -> '.join(leg.block for leg in path.legs)} -> {path.end}",
        flush=True,
    )
    return passed


def figures(found: Synthesis) -> dict:
    """What is committed of a case."""
    return found.total.as_dict() | {"fmax_mhz": found.fmax_mhz}


def count_dsp(progress) -> tuple[dict, bool]:
    """Count the DSP blocks of small accelerators by family and what they multiply."""
    figures, passed = {}, True
    print("DSP blocks: of the dot units, of scales, terms and log-sum-exp")
    for family, weight_bits, hidden_bits, batch, pair in DSP_CASES:
        config = dsp_config(weight_bits, hidden_bits, batch, pair)
        found = synthesise(config, Target(family), seeds=(), progress=progress)
        products = config.lanes * batch
        dots = found.dsp_uses["dot"]
        good = dots == products // pair and not found.soft_multipliers
        passed &= good
        others = ", ".join(
            f"{use} {count}" for use, count in found.dsp_uses.items() if use != "dot"
        )
        name = f"{family} int{weight_bits} x int{hidden_bits}, {config.lanes} lanes x {batch}"
        figures[name] = found.dsp_uses
        soft = f"; {found.soft_multipliers} in LUTs" if found.soft_multipliers else ""
        print(
            f"  {name:<42} dot {dots}, required {products // pair}; {others}{soft}  "
            f"{'ok' if good else 'MISSED'}",
            flush=True,
        )
    return figures, passed


def main() -> int:
    names = (*CASES, RATE, DSP)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(names)}; all if none")
    parser.add_argument(
        "--seeds",
        type=int,
        choices=range(1, MOST_SEEDS + 1),
        metavar="N",
        help=f"of each (default {SEEDS}, for what is large and without a requirement 1)",
    )
    parser.add_argument("--write-baseline", action="store_true", help="commit what was found")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"no {', '.join(sorted(unknown))}")
    baseline = json.loads(BASELINE.read_text())
    results, passed = {}, True
    with stages() as progress:
        for name in arguments.names or names:
            if name == RATE:
                print(f"{RATE}: the same reader, simulated")
                passed &= not reader_rate.main()
                continue
            if name == DSP:
                results[name], good = count_dsp(progress)
            else:
                found = place(CASES[name], arguments.seeds, progress)
                good = show(name, found, baseline.get(name))
                results[name] = figures(found)
            passed &= good
            if arguments.write_baseline:
                BASELINE.write_text(json.dumps(baseline | results, indent=2) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
