"""The cycles of a job in closed form, for any head, configuration and memory.

Nothing is simulated and nothing counted out: `sim.estimate_stream` and `sim.estimate_tail` say
when each stage is done, from the formulas of `hw`, the rankers' pace of `sim.estimate_rank` and the
bandwidth of `sim.memory.bandwidth`. Rows are taken to come in random order and to be allowed by the
mask. Named constants are clocks of blocks that have no formula of their own; the tests compare with
simulations, which shows if one changes.
"""

from dataclasses import dataclass

from hw.config import HeadConfig, ceil_div
from sim.estimate_bound import Bound, bound_of
from sim.estimate_job import Job, PaperConfig, System
from sim.estimate_stream import channel_flows
from sim.estimate_tail import tail_clocks
from sim.memory import MemoryModel

__all__ = ["Estimate", "PaperConfig", "estimate"]


@dataclass(frozen=True)
class Estimate:
    """What a number of hidden states takes, in jobs that follow each other.

    `start`, `data`, `waiting`, `refused` and `tail` add up to `cycles`; a clock belongs to what the
    slowest channel's reader then does, as in `host.reports.cycles`.
    """

    vectors: int
    """Hidden states."""
    jobs: int
    cycles: int
    """As the hardware's counter `cycles`, of all jobs together."""
    start: int
    """From the acceptance of a job to its first read address."""
    data: int
    """A beat of hidden states or image goes on to the data path."""
    waiting: int
    """Memory has not delivered, or delivers the mask."""
    refused: int
    """The data path is the slower side."""
    tail: int
    """The last rows are ranked, results collected and written."""
    bytes_read: int
    bytes_written: int
    clock_hz: float
    bound: Bound

    @property
    def tokens_per_s(self) -> float:
        """Hidden states per second."""
        return self.vectors * self.clock_hz / self.cycles

    @property
    def bytes_per_s(self) -> float:
        """Read, over all channels."""
        return self.bytes_read * self.clock_hz / self.cycles

    @property
    def bound_by(self) -> str:
        """What binds: "bus", "dram", "latency", "compute", "top-k", "write" or "overhead"."""
        return self.bound.name

    def as_dict(self) -> dict[str, object]:
        """As plain values."""
        names = ("vectors", "jobs", "cycles", "start", "data", "waiting", "refused", "tail")
        values = {name: getattr(self, name) for name in (*names, "bytes_read", "bytes_written")}
        return values | {
            "clock_mhz": self.clock_hz / 1e6,
            "tokens_per_s": self.tokens_per_s,
            "bytes_per_s": self.bytes_per_s,
            "bound_by": self.bound.name,
            "reason": self.bound.reason,
            "remedy": self.bound.remedy,
            "limits": self.bound.limits,
        }


def estimate(
    config: HeadConfig,
    rows: int,
    dim: int,
    *,
    k: int,
    vectors: int | None = None,
    memory: MemoryModel | None = None,
    clock_hz: float = 250e6,
    mask: bool = False,
    all_logits: bool = False,
) -> Estimate:
    """Estimate the cycles of hidden states on an accelerator.

    Parameters
    ----------
    config : HeadConfig
        The accelerator; a `PaperConfig` where hardware cannot have so many channels or states.
    rows, dim : int
        V and d.
    k : int
        Results per state, 1..``config.k``.
    vectors : int, optional
        Hidden states; more than the batch take several jobs. Default: the batch.
    memory : MemoryModel, optional
        Stalls and faults are left out. Default: the ideal memory that `SimDevice` has.
    clock_hz : number
        Of the accelerator.
    mask, all_logits : bool
        The jobs bring masks, have all scores written.

    Raises
    ------
    ValueError
        The accelerator cannot run such a job, or the memory cannot serve so many ports; the
        message names the parameter, the allowed set and the value.
    """
    memory = memory if memory is not None else MemoryModel()
    system = System(memory, clock_hz)
    vectors = config.batch if vectors is None else vectors
    if vectors < 1:
        raise ValueError(f"vectors must be at least 1, got {vectors}")
    whole, rest = divmod(vectors, config.batch)
    runs = [(whole, config.batch), (1, rest)]
    parts = [
        (count, _Run.of(Job(config, rows, dim, k, states, mask, all_logits), system))
        for count, states in runs
        if count and states
    ]

    def total(name):
        return sum(count * getattr(run, name) for count, run in parts)

    names = ("cycles", "start", "data", "waiting", "refused", "bytes_read", "bytes_written")
    values = {name: total(name) for name in names}
    tail = values["cycles"] - sum(values[name] for name in ("start", "data", "waiting", "refused"))
    return Estimate(
        vectors=vectors,
        jobs=ceil_div(vectors, config.batch),
        tail=tail,
        clock_hz=float(clock_hz),
        bound=parts[0][1].bound,
        **values,
    )


@dataclass(frozen=True)
class _Run:
    """One job."""

    cycles: int
    start: int
    data: int
    waiting: int
    refused: int
    bytes_read: int
    bytes_written: int
    bound: Bound

    @classmethod
    def of(cls, job: Job, system: System) -> "_Run":
        config = job.config
        flows = channel_flows(job, system)
        last = max(flows, key=lambda flow: flow.rows_end)
        cycles = round(last.rows_end + tail_clocks(job, system))
        start = last.first_address - 1
        data = last.stream_beats
        span = round(last.stream_end) - start
        refused = max(0, min(span - data, round(last.stream_end - last.arrived)))
        channels = range(config.channels)
        read = job.hidden_beats + job.layout.beats
        written = job.vectors * job.record_beats + job.trailer_beats
        if job.mask:
            read += sum(job.mask_beats(channel) for channel in channels)
        if job.all_logits:
            written += sum(job.logits_beats(channel) for channel in channels)
        return cls(
            cycles=cycles,
            start=start,
            data=data,
            waiting=span - data - refused,
            refused=refused,
            bytes_read=read * config.bus_bytes,
            bytes_written=written * config.bus_bytes,
            bound=bound_of(job, system, last, cycles),
        )
