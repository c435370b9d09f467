"""What limits a job, and what would help."""

from dataclasses import dataclass, replace

from sim.estimate_job import Job, System
from sim.estimate_rank import ranking_clocks, row_clocks
from sim.estimate_stream import ChannelFlow
from sim.estimate_tail import write_port_clocks
from sim.memory.bandwidth import DRAM, OUTSTANDING

MOST_OVERHEAD = 0.5
"""Share of a job's cycles up to which what is no data does not count as what limits it."""


@dataclass(frozen=True)
class Bound:
    """What limits a job."""

    name: str
    """ "bus", "dram", "latency", "compute", "top-k", "write" or "overhead"."""
    reason: str
    remedy: str
    limits: dict[str, float]
    """Cycles that each of these alone needs for its part of the job."""


def bound_of(job: Job, system: System, flow: ChannelFlow, cycles: int) -> Bound:
    """What limits a job whose slowest channel is `flow`."""
    path = flow.path
    beats = job.read_beats(flow.channel)
    memory = {DRAM: "dram", OUTSTANDING: "latency"}.get(path.limited_by, "bus")
    limits = {"bus": float(beats)}
    limits[memory] = path.cycles(beats)
    limits["compute"] = flow.farm_clocks
    limits["top-k"] = ranking_clocks(replace(job, all_logits=False), flow.rows)
    if job.all_logits:
        limits["write"] = write_port_clocks(job, flow.channel)
    name = max(limits, key=limits.get)
    limits["overhead"] = cycles - limits[name]
    if limits["overhead"] > MOST_OVERHEAD * cycles:
        name = "overhead"
    reason, remedy = _words(job, system, flow, limits)[name]
    return Bound(name, reason, remedy, limits)


def _words(job: Job, system: System, flow: ChannelFlow, limits) -> dict[str, tuple[str, str]]:
    """Reason and remedy for everything that may bind."""
    config, path = job.config, flow.path
    more_states = "" if job.slots > 1 else "more states a job (--batch), "
    under_way = path.window_beats * config.bus_bytes
    dram = system.memory.dram
    rate = f"{path.bytes_per_cycle:.2f} of {config.bus_bytes} bytes a clock"
    return {
        "bus": (
            f"a port carries {config.bus_bytes} bytes a clock and has {limits['bus']:,.0f} "
            "beats to read",
            f"{more_states}more or wider ports, fewer bits a weight",
        ),
        "dram": (
            f"{dram.device.name if dram else 'memory'} gives a port {rate}",
            f"{more_states}more DRAM, fewer bits a weight",
        ),
        "latency": (
            f"{under_way:,} bytes at most are under way for a round trip of "
            f"{path.latency_cycles:,.0f} clocks: {rate}",
            "more --outstanding-bytes",
        ),
        "compute": (
            f"{config.lanes} lanes take {flow.farm_clocks / flow.body_beats:.3g} clocks for each "
            f"of {flow.body_beats:,} beats of weights",
            "a smaller --fold" if config.fold > 1 else "rows of more beats",
        ),
        "top-k": (
            f"a list takes {limits['top-k'] / flow.rows:.2f} clocks a row",
            "more --rankers" if row_clocks(job) > 2 else "rows of more beats, fewer results",
        ),
        "write": (
            f"the scores of a row are {job.logits_beats_per_row:.2f} beats to write",
            "more or wider ports, fewer states with all logits",
        ),
        "overhead": (
            f"{limits['overhead']:,.0f} clocks go by without data: start, first data, results",
            f"{more_states}larger images, fewer results",
        ),
    }
