"""What an estimate is made for: a head, which need not be one that hardware can have, and a job."""

from dataclasses import dataclass
from functools import cached_property

from hw.config import HeadConfig, ceil_div, is_power_of_two
from hw.counters import CHANNEL_COUNTERS, JOB_COUNTERS
from hw.layout import LOGIT_BYTES, ImageLayout
from hw.parameters import parameter_beats
from hw.plan import hidden_beats, state_beats
from hw.results import RECORD_BYTES, TRAILER_MULTIPLE
from sim.memory import MemoryModel

MOST_CHANNELS = 1024
MOST_BATCH = 4096


class PaperConfig(HeadConfig):
    """A `HeadConfig` for the estimate alone: any power of two of channels, a batch up to 4096.

    All other limits are those of the hardware.
    """

    def _check_choice(self, name, allowed):
        if name != "channels":
            super()._check_choice(name, allowed)
        elif not is_power_of_two(self.channels) or self.channels > MOST_CHANNELS:
            raise ValueError(
                f"channels must be a power of two in 1..{MOST_CHANNELS}, got {self.channels}"
            )

    def _check_range(self, name, low, high):
        super()._check_range(name, low, MOST_BATCH if name == "batch" else high)


@dataclass(frozen=True)
class Job:
    """One job of a head.

    Parameters
    ----------
    config : HeadConfig
    rows, dim : int
        V and d of the image.
    k, vectors : int
        Results per hidden state, hidden states.
    mask, all_logits : bool
        The job brings a mask, has all scores written.
    """

    config: HeadConfig
    rows: int
    dim: int
    k: int
    vectors: int
    mask: bool = False
    all_logits: bool = False

    def __post_init__(self):
        for name, limit in (("k", self.config.k), ("vectors", self.config.batch)):
            value = getattr(self, name)
            if not 1 <= value <= limit:
                raise ValueError(f"{name} must be in 1..{limit}, got {value}")
        for name, limit in (("rows", self.config.max_rows), ("dim", self.config.max_dim)):
            value = getattr(self, name)
            if not 1 <= value <= limit:
                raise ValueError(f"{name} must be in 1..{limit}, got {value}")
        for name in ("mask", "all_logits"):
            if getattr(self, name) and not getattr(self.config, name):
                raise ValueError(f"{name} must be False, since the head is built without it")

    @cached_property
    def layout(self) -> ImageLayout:
        return ImageLayout(self.config, self.rows, self.dim)

    @property
    def state_beats(self) -> int:
        """Of one hidden state."""
        return state_beats(self.config, self.dim)

    @property
    def parameter_beats(self) -> int:
        """Behind one hidden state."""
        return parameter_beats(self.config)

    @property
    def hidden_beats(self) -> int:
        """Of all hidden states and their parameters."""
        return hidden_beats(self.config, self.dim, self.vectors)

    def mask_beats(self, channel: int) -> int:
        return self.layout.mask_beats(channel, self.vectors) if self.mask else 0

    def read_beats(self, channel: int) -> int:
        """Beats that a channel reads."""
        hidden = 0 if channel else self.hidden_beats
        return hidden + self.layout.channel_beats(channel) + self.mask_beats(channel)

    @property
    def slots(self) -> int:
        """Vectors that a ranker has, the one with most."""
        return ceil_div(self.vectors, self.config.rankers)

    @property
    def trailer_beats(self) -> int:
        # `hw.results.trailer_beats` counts names, of which a thousand channels have thousands.
        names = len(JOB_COUNTERS) + self.config.channels * len(CHANNEL_COUNTERS)
        words = ceil_div(names + 1, TRAILER_MULTIPLE) * TRAILER_MULTIPLE
        return words * 8 // self.config.bus_bytes

    @property
    def record_beats(self) -> int:
        """Of the results of one vector."""
        return ceil_div((1 + self.k) * RECORD_BYTES, self.config.bus_bytes)

    @property
    def logits_beats_per_row(self) -> float:
        """Beats of scores that a channel writes for a row."""
        return self.vectors * LOGIT_BYTES / self.config.bus_bytes

    def logits_beats(self, channel: int) -> int:
        """Beats of scores that a channel writes."""
        if not self.all_logits:
            return 0
        rows = self.layout.channel_rows(channel)
        lanes = self.config.bus_bytes // LOGIT_BYTES
        return sum(
            count * ceil_div(rows * vectors, lanes) for vectors, count in self.rankers_by_vectors
        )

    @property
    def rankers_by_vectors(self) -> list[tuple[int, int]]:
        """Vectors of a ranker, and how many rankers of a channel have so many."""
        rankers = self.config.rankers
        fewest, more = divmod(self.vectors, rankers)
        return [(fewest + 1, more), (fewest, rankers - more)]


@dataclass(frozen=True)
class System:
    """The memory of a head and its clock."""

    memory: MemoryModel
    clock_hz: float
