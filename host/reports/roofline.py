"""The roofline of a head: tokens per second over the lanes that compute it, under its memories."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hw.config import FOLDS, HeadConfig
from hw.layout import ImageLayout
from sim.estimate import Estimate, estimate
from sim.memory import MemoryModel
from sim.memory.bandwidth import sustained_bytes_per_cycle
from sim.memory.devices import DEVICES
from sim.memory.model import DramTiming

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPUTE, CHOSEN, OTHER, POINT = "#2166ac", "#b2182b", "#777777", "#000000"
LEAST_GAP = 0.045
"""Between the labels of two roofs, of the height of the picture."""


def draw(
    config: HeadConfig,
    rows: int,
    dim: int,
    found: Estimate,
    *,
    k: int,
    memory: MemoryModel,
    clock_hz: float,
    mask: bool = False,
    all_logits: bool = False,
) -> "Figure":
    """Draw lanes against bandwidth, both logarithmic, and where the configuration lies.

    Parameters
    ----------
    config, rows, dim, k, memory, clock_hz, mask, all_logits
        As for `sim.estimate.estimate`.
    found : Estimate
        Of them.

    Notes
    -----
    Roofs are those of single devices, one for each port, and of the ports themselves. Points are
    estimates with every possible `fold`.
    """
    # It takes a second to import, which only those who want a picture wait for.
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    clock = float(clock_hz)
    layout = ImageLayout(config, rows, dim)
    states = found.vectors / found.jobs
    weights = rows * layout.padded_dim
    bytes_a_job = found.bytes_read / found.jobs
    ports = config.channels

    def of_memory(model):
        rate = sustained_bytes_per_cycle(model, config.bus_bits, clock_hz, ports, capped=False)
        return states * ports * rate * clock / bytes_a_job

    roofs = {name: of_memory(MemoryModel(dram=DramTiming(DEVICES[name]))) for name in DEVICES}
    bus = states * ports * config.bus_bytes * clock / bytes_a_job
    chosen = None
    if memory.dram is not None:
        chosen = memory.dram.device.name
        count = memory.dram.devices(ports)
        roofs[chosen] = of_memory(memory)
        if count != ports:
            roofs = {f"{count} x {n}" if n == chosen else n: rate for n, rate in roofs.items()}
            chosen = f"{count} x {chosen}"
    points = []
    for fold in FOLDS:
        if fold > config.weights_per_beat:
            break
        folded = found
        if fold != config.fold:
            other = replace(config, fold=fold)
            folded = estimate(
                other,
                rows,
                dim,
                k=k,
                vectors=found.vectors,
                memory=memory,
                clock_hz=clock_hz,
                mask=mask,
                all_logits=all_logits,
            )
        lanes = config.weights_per_beat // fold * ports
        points.append((lanes, folded.tokens_per_s, fold, folded.bound_by))

    most_lanes = config.weights_per_beat * ports
    left, right = most_lanes / 16, most_lanes * 2
    per_lane = states * clock / weights
    rates = [*roofs.values(), bus, *(rate for _, rate, _, _ in points)]
    bottom, top = min(min(rates), per_lane * left) / 1.5, max(*rates, per_lane * right) * 1.25

    figure = Figure(figsize=(9.5, 5.6), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.plot([left, right], [per_lane * left, per_lane * right], color=COMPUTE, linewidth=2)
    labels = [(bus, f"{ports} x {config.bus_bits}-bit port", CHOSEN if chosen is None else OTHER)]
    axes.axhline(bus, color=labels[0][2], linewidth=2)
    for name, rate in roofs.items():
        colour = CHOSEN if name == chosen else OTHER
        style = {"linewidth": 2} if name == chosen else {"linewidth": 1, "linestyle": "--"}
        axes.axhline(rate, color=colour, **style)
        labels.append((rate, name, colour))
    _label_roofs(axes, labels, bottom, top)
    for lanes, rate, fold, bound in points:
        own = fold == config.fold
        axes.plot(
            [lanes],
            [rate],
            marker="*" if own else "o",
            markersize=16 if own else 6,
            color=POINT if own else COMPUTE,
            linestyle="none",
            zorder=5,
        )
        axes.annotate(
            f"fold {fold}: {bound}",
            (lanes, rate),
            xytext=(9, -9),
            textcoords="offset points",
            ha="left",
            va="top",
            fontsize="small",
            fontweight="bold" if own else "normal",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
            zorder=4,
        )
    axes.set_xlabel("lanes: multipliers per state, all ports together")
    axes.set_ylabel("tokens/s")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.4g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(which="major", color="#e8e8e8", zorder=0)
    axes.set_axisbelow(True)
    together = f"{states:g} states a job" if states > 1 else "1 state a job"
    axes.set_title(
        f"{rows:,} x {dim:,} in {config.weight_bits} bits, {together}, {clock / 1e6:.6g} MHz: "
        f"{found.tokens_per_s:,.1f} tokens/s, bound by {found.bound_by}",
        fontsize="medium",
    )
    handles = axes.plot([], [], color=COMPUTE, linewidth=2, label="lanes, one weight a clock each")
    handles += axes.plot([], [], color=CHOSEN, linewidth=2, label="memory in use")
    handles += axes.plot([], [], color=OTHER, linestyle="--", label="other memories, one a port")
    star = {"color": POINT, "marker": "*", "markersize": 12, "linestyle": "none"}
    handles += axes.plot([], [], **star, label="this configuration")
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _label_roofs(axes, labels: list[tuple[float, str, str]], bottom: float, top: float) -> None:
    """Names of the roofs on the right, moved apart where they are close."""
    from math import log

    height = log(top / bottom)
    last = -LEAST_GAP
    for rate, text, colour in sorted(labels):
        place = max(log(rate / bottom) / height, last + LEAST_GAP)
        last = place
        axes.annotate(
            text,
            xy=(1.0, log(rate / bottom) / height),
            xytext=(1.03, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize="small",
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6},
            annotation_clip=False,
        )
