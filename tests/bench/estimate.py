"""Draws the estimate against the simulation, and the roofline of SmolLM2's head.

python -m tests.bench.estimate [--cases N]

Writes sim/estimate.svg and sim/roofline.svg, and prints the largest errors.
"""

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

from host.console import stages
from host.reports import roofline
from host.reports.timeline_plot import save
from hw.config import HeadConfig
from sim.estimate import estimate
from sim.memory import DEVICES, DramTiming, MemoryModel
from sim.memory.sizing import choose
from tests.cosim.estimate_cases import BUILDS, DRAMS, Case, case, simulate

FOLDER = Path(__file__).parents[2] / "sim"
ROWS, DIM, K = 49152, 576, 64
"""SmolLM2's head."""
MEMORY, CLOCK_HZ = "ddr4-2400-x64", 300e6
LONG = 1500
"""Cycles above which 1 % is more than 15 of them."""
IDEAL, DRAM = "ideal memory", "DRAM"
COLOURS = {IDEAL: "#2166ac", DRAM: "#b2182b"}


def compare(count: int, progress) -> dict[str, list[tuple[Case, int, int]]]:
    """Cases with their estimated and simulated cycles, by kind of memory."""
    found = {IDEAL: [], DRAM: []}
    for done, build in enumerate(BUILDS):
        progress("simulating", done, len(BUILDS))
        cases = [(IDEAL, case(build, number)) for number in range(count)]
        for dram in DRAMS[build]:
            cases += [(DRAM, case(build, number, dram)) for number in range(-(-count // 4))]
        for kind, each in cases:
            with tempfile.TemporaryDirectory() as folder:
                counted = int(simulate(each, Path(folder))["cycles"])
            found[kind].append((each, each.estimate().cycles, counted))
    return found


def draw(found: dict[str, list[tuple[Case, int, int]]]):
    """Estimated over simulated cycles, and below how far they are apart."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(8, 7.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    counted = [simulated for each in found.values() for _, _, simulated in each]
    ends = (min(counted) / 1.3, max(counted) * 1.3)
    above.plot(ends, ends, color="#999999", linewidth=1, label="equal")
    for kind, each in found.items():
        simulated = [count for _, _, count in each]
        estimated = [count for _, count, _ in each]
        style = {"linestyle": "none", "marker": "o", "markersize": 4, "alpha": 0.6}
        style |= {"color": COLOURS[kind], "markeredgewidth": 0}
        above.plot(simulated, estimated, label=f"{kind}, {len(each)} jobs", **style)
        errors = [a - b for a, b in zip(estimated, simulated, strict=True)]
        below.plot(simulated, errors, **style)
    grid = [ends[0] * (ends[1] / ends[0]) ** (n / 200) for n in range(201)]
    most = [max(15, 0.01 * cycles) for cycles in grid]
    below.fill_between(
        grid, [-each for each in most], most, color="#dddddd", zorder=0, label="15 cycles or 1 %"
    )
    for axes in (above, below):
        axes.set_xscale("log")
        axes.grid(color="#eeeeee")
        axes.set_axisbelow(True)
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    above.set_yscale("log")
    above.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    above.set_ylabel("estimated cycles")
    below.set_yscale("symlog", linthresh=15)
    below.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    below.set_ylabel("estimated - simulated, cycles")
    below.set_xlabel("simulated cycles of a job")
    above.legend(frameon=False, loc="upper left")
    below.legend(frameon=False, loc="upper left")
    return figure


def draw_roofline():
    """That of SmolLM2's head at one DDR4 device."""
    memory = MemoryModel(dram=DramTiming(DEVICES[MEMORY]))
    config = HeadConfig(max_dim=DIM, max_rows=ROWS, k=K)
    sizing = choose(memory, config.bus_bits, CLOCK_HZ)
    config = HeadConfig(
        max_dim=DIM,
        max_rows=ROWS,
        k=K,
        max_burst=sizing.max_burst,
        outstanding_bytes=sizing.outstanding_bytes,
    )
    system = {"memory": memory, "clock_hz": CLOCK_HZ}
    found = estimate(config, ROWS, DIM, k=K, **system)
    return roofline.draw(config, ROWS, DIM, found, k=K, **system)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=24, help="jobs of each of the builds")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "hidden_bits is 8")
    with stages() as progress:
        found = compare(arguments.cases, progress)
    passed = True
    for kind, each in found.items():
        wrong = [c.name for c, a, b in each if abs(a - b) > c.allowance(c.estimate())]
        # Where the order of rows decides, chance is no error of the estimate.
        sure = [(a, b) for c, a, b in each if not c.chance(c.estimate())]
        share = 0.01 if kind == DRAM else 0.0
        close = sum(abs(a - b) <= max(15, share * b) for a, b in sure)
        limit = "15 cycles or 1 %" if share else "15 cycles"
        largest = max(abs(a - b) / b for a, b in sure if b > LONG)
        print(
            f"  {kind}: {len(each)} jobs, {len(each) - len(sure)} of which depend on the order of "
            f"rows; of the others {close} of {len(sure)} within {limit}, largest error of those "
            f"above {LONG:,} cycles {largest:.2%}"
        )
        for name in wrong:
            print(f"    outside: {name}")
        passed &= len(wrong) <= len(each) // 50
    save(draw(found), FOLDER / "estimate.svg")
    save(draw_roofline(), FOLDER / "roofline.svg")
    print(f"  {FOLDER / 'estimate.svg'}, {FOLDER / 'roofline.svg'}")
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
