"""The configuration of the accelerator: every width and size follows from `HeadConfig`."""

import operator
from dataclasses import dataclass, fields

from hw.family import WIDEST_DSP_BITS, pair_operand_bits

WHOLE_ROW = 0
"""`group` value for one scale per row."""

BUS_BITS = (64, 128, 256, 512)
WEIGHT_BITS = (4, 8, 16)
SCALE_BITS = (8, 16)
GROUPS = (32, 64, 128, WHOLE_ROW)
HIDDEN_BITS = (8, 16)
FOLDS = (1, 2, 4, 8)
INSERT_INTERVALS = (4, 6)
CHANNELS = (1, 2, 4, 8)
MAX_BATCH = 16
MAX_K = 256
MAX_TILE_ROWS = 32768
AXI_MAX_BURST = 256
AXI_BOUNDARY_BYTES = 4096
TERM_BITS = 16
"""Width of a row term as stored, two's complement."""
MULTIPLIER_BITS = 32
"""Width of a multiplier of a row term or of the log-sum-exp, unsigned."""
SHIFT_BITS = 7
"""Width of the log-sum-exp's shift."""
MAX_MASK_BITS = 1 << 16
"""Most mask bits of one tile, all vectors together: they are buffered on chip."""

IMAGE_FIELDS = (
    "bus_bits",
    "weight_bits",
    "scale_bits",
    "scale_signed",
    "group",
    "width",
    "tile_rows",
    "channels",
    "bias",
    "bound",
)
"""The fields that decide where every bit of a packed image lies."""


def is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def log2(value: int) -> int:
    """Exponent of a power of two."""
    return value.bit_length() - 1


def ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _spare_bits(bound: int) -> int:
    """Width of a signed value up to `bound` in magnitude.

    One wider than the worst case needs at its ends, so that neither the lowest nor the highest
    code is a value: the top-k uses them as its empty and full marks.
    """
    return (bound + 1).bit_length() + 1


@dataclass(frozen=True)
class HeadConfig:
    """Build parameters of one accelerator.

    A body beat holds `units` rows x `width` columns of weights, so
    ``bus_bits == units * width * weight_bits``; `units` follows from the others. A body beat is
    computed in `fold` cycles on ``units * width / fold`` lanes (multipliers) per channel and
    vector. Units are folded first, then columns, so that folding saves scale multipliers and
    accumulators as well.

    Parameters
    ----------
    bus_bits : 64, 128, 256 or 512
        Data width of the AXI4 master.
    weight_bits : 4, 8 or 16
        Width of a weight, two's complement, full range.
    scale_bits : 8 or 16
        Width of a stored scale.
    scale_signed : bool
        Scales are two's complement instead of unsigned.
    group : 32, 64, 128 or 0
        Consecutive columns that share a scale; 0 (`WHOLE_ROW`) for one scale per row.
    hidden_bits : 8 or 16
        Width of a quantised hidden value, two's complement.
    width : int, optional
        Columns per body beat, a power of two that divides the group. Default: as many as a beat
        holds, up to 32.
    fold : 1, 2, 4 or 8
        Cycles per body beat.
    tile_rows : int, optional
        Rows per tile of the image, a multiple of `units`. Default: 64, or `units` if larger.
    max_dim : int
        Largest hidden width d.
    max_rows : int
        Largest vocabulary V.
    k : 1..256
        Results per vector.
    batch : 1..16
        Hidden vectors of a job; they share every weight that is read.
    channels : 1, 2, 4 or 8
        AXI4 masters, each with a part of the tiles and a farm of its own.
    bias, bound : bool
        Row terms in the image: a bias is part of the score, a bound only of the rank.
    mask : bool
        A job may bring a bit per row and vector that says whether the row takes part.
    all_logits : bool
        A job may have all scores written to memory.
    logsumexp : bool
        The logarithm of the sum of exponentials of a vector's scores comes with its results.
    job_queue : bool
        The next job streams while the results of the one before are collected and written.
    dsp_pairs : bool
        A DSP block multiplies two factors by one that they share: the weights of two rows by a
        hidden value where weights are narrower, otherwise the hidden values of two vectors by a
        weight. Results are the same; each score comes a clock later. For weights of 4 bits, and
        for batches of weights and hidden values of 8; see `Family` for what its blocks take.
    rankers : int, optional
        Stages per channel that take the scored rows one after the other, a power of two up to
        `batch`. Default: as many as keep up with a row of half of `max_dim`.
    insert_interval : 4 or 6, optional
        Cycles between two insertions into the top-k; 6 splits its comparisons for a faster clock.
        Rows that follow each other faster wait. Default: 6 where a row of half of `max_dim` takes
        that long, otherwise 4.
    max_burst : 1..256
        Largest AXI burst, beats; a burst holds at most 4096 bytes.
    outstanding_bytes : int, optional
        Read data that may be under way or buffered, a power of two, at least one largest burst
        and 8 beats, at most 1 MiB. Default: 256 beats.

    Raises
    ------
    TypeError
        A parameter is of the wrong kind.
    ValueError
        A parameter is out of its range; the message names it, the allowed set and the value.
    """

    bus_bits: int = 512
    weight_bits: int = 8
    scale_bits: int = 16
    scale_signed: bool = False
    group: int = 32
    hidden_bits: int = 16
    width: int | None = None
    fold: int = 1
    tile_rows: int | None = None
    max_dim: int = 1024
    max_rows: int = 65536
    k: int = 64
    batch: int = 1
    channels: int = 1
    bias: bool = False
    bound: bool = False
    mask: bool = False
    all_logits: bool = False
    logsumexp: bool = False
    job_queue: bool = False
    dsp_pairs: bool = False
    rankers: int | None = None
    insert_interval: int | None = None
    max_burst: int | None = None
    outstanding_bytes: int | None = None

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is bool or field.type == "bool":
                if not isinstance(value, bool):
                    raise TypeError(f"{field.name} must be a bool, got {value!r}")
                continue
            if value is None and field.default is None:
                continue
            try:
                self._set(field.name, operator.index(value))
            except TypeError:
                raise TypeError(f"{field.name} must be an integer, got {value!r}") from None
        self._check_choice("bus_bits", BUS_BITS)
        self._check_choice("weight_bits", WEIGHT_BITS)
        self._check_choice("scale_bits", SCALE_BITS)
        self._check_choice("group", GROUPS)
        self._check_choice("hidden_bits", HIDDEN_BITS)
        self._check_choice("fold", FOLDS)
        self._check_choice("channels", CHANNELS)
        self._check_range("batch", 1, MAX_BATCH)
        self._check_range("max_dim", 1, 65536)
        self._check_range("max_rows", 1, 2**31 - 1)
        self._check_range("k", 1, MAX_K)
        self._resolve_beat_shape()
        self._check_pairs()
        self._resolve_interval()
        self._resolve_rankers()
        self._resolve_bursts()
        if self.rank_bits > 64:
            raise ValueError(
                f"a score with its row terms must fit in 64 bits, got {self.rank_bits} for max_dim "
                f"{self.max_dim}"
            )
        if self.mask and self.batch * self.tile_rows > MAX_MASK_BITS:
            raise ValueError(
                f"batch * tile_rows must be at most {MAX_MASK_BITS} with a mask, "
                f"got {self.batch} * {self.tile_rows}"
            )

    def _set(self, name, value):
        object.__setattr__(self, name, value)

    def _check_choice(self, name, allowed):
        value = getattr(self, name)
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}, got {value}")

    def _check_range(self, name, low, high):
        value = getattr(self, name)
        if not low <= value <= high:
            raise ValueError(f"{name} must be in {low}..{high}, got {value}")

    def _resolve_beat_shape(self):
        beat = self.bus_bits // self.weight_bits
        widest = min(beat, self.group) if self.group else beat
        if self.width is None:
            self._set("width", min(widest, 32))
        if not is_power_of_two(self.width) or self.width > widest:
            raise ValueError(f"width must be a power of two in 1..{widest}, got {self.width}")
        if self.tile_rows is None:
            self._set("tile_rows", max(64, self.units))
        if self.tile_rows % self.units or not 1 <= self.tile_rows <= MAX_TILE_ROWS:
            raise ValueError(
                f"tile_rows must be a multiple of units ({self.units}) in "
                f"{self.units}..{MAX_TILE_ROWS}, got {self.tile_rows}"
            )
        if self.fold > self.weights_per_beat:
            raise ValueError(
                f"fold must be at most the {self.weights_per_beat} weights of a beat, "
                f"got {self.fold}"
            )

    def _check_pairs(self):
        if not self.dsp_pairs:
            return
        if self.pair_bits > WIDEST_DSP_BITS:
            raise ValueError(
                f"dsp_pairs must be off for weight_bits {self.weight_bits} and hidden_bits "
                f"{self.hidden_bits}: two products take a multiplier with a port of "
                f"{self.pair_bits} bits, DSP blocks have at most {WIDEST_DSP_BITS}"
            )
        if self.lane_units < self.paired_rows:
            raise ValueError(
                f"dsp_pairs must be off for weight_bits {self.weight_bits} and hidden_bits "
                f"{self.hidden_bits} unless two rows or more are computed at once, got width "
                f"{self.width} and fold {self.fold} of {self.weights_per_beat} weights per beat"
            )
        if self.batch < self.paired_vectors:
            raise ValueError(
                f"dsp_pairs must be off for weight_bits {self.weight_bits} and hidden_bits "
                f"{self.hidden_bits} unless batch is 2 or more, got {self.batch}"
            )

    def _resolve_interval(self):
        if self.insert_interval is None:
            slow = self.max_dim // 2 * self.fold >= max(INSERT_INTERVALS) * self.weights_per_beat
            self._set("insert_interval", max(INSERT_INTERVALS) if slow else min(INSERT_INTERVALS))
        self._check_choice("insert_interval", INSERT_INTERVALS)

    def _resolve_rankers(self):
        if self.rankers is None:
            clocks = max(1, self.max_dim // 2 * self.fold // self.width)
            rankers = 1
            while rankers < self.batch and ceil_div(self.batch, rankers) * self.units > clocks:
                rankers *= 2
            self._set("rankers", min(rankers, 1 << log2(self.batch)))
        if not is_power_of_two(self.rankers) or self.rankers > self.batch:
            raise ValueError(
                f"rankers must be a power of two in 1..{self.batch}, got {self.rankers}"
            )

    def _resolve_bursts(self):
        longest = min(AXI_MAX_BURST, AXI_BOUNDARY_BYTES // self.bus_bytes)
        if self.max_burst is None:
            self._set("max_burst", min(64, longest))
        self._check_range("max_burst", 1, longest)
        if self.outstanding_bytes is None:
            self._set("outstanding_bytes", 256 * self.bus_bytes)
        least = max(8, self.max_burst) * self.bus_bytes
        if (
            not is_power_of_two(self.outstanding_bytes)
            or not least <= self.outstanding_bytes <= 2**20
        ):
            raise ValueError(
                f"outstanding_bytes must be a power of two in {least}..{2**20}, "
                f"got {self.outstanding_bytes}"
            )

    # The beat and its folding.

    @property
    def bus_bytes(self) -> int:
        return self.bus_bits // 8

    @property
    def weights_per_beat(self) -> int:
        return self.bus_bits // self.weight_bits

    @property
    def units(self) -> int:
        """Rows per body beat."""
        return self.weights_per_beat // self.width

    @property
    def fold_units(self) -> int:
        """Sub-beats a body beat's units are spread over."""
        return min(self.fold, self.units)

    @property
    def fold_width(self) -> int:
        """Sub-beats a body beat's columns are spread over."""
        return self.fold // self.fold_units

    @property
    def lane_units(self) -> int:
        """Rows computed at once."""
        return self.units // self.fold_units

    @property
    def lane_width(self) -> int:
        """Columns of one row computed at once."""
        return self.width // self.fold_width

    @property
    def lanes(self) -> int:
        """Multipliers of the farm."""
        return self.lane_units * self.lane_width

    @property
    def paired_rows(self) -> int:
        """Rows that share a DSP block: 2 where pairs share a hidden value."""
        return 2 if self.dsp_pairs and self.weight_bits < self.hidden_bits else 1

    @property
    def paired_vectors(self) -> int:
        """Vectors that share a DSP block: 2 where pairs share a weight."""
        return 2 if self.dsp_pairs and self.weight_bits >= self.hidden_bits else 1

    @property
    def pair_bits(self) -> int:
        """Port of a DSP block that two products take."""
        narrow, wide = sorted((self.weight_bits, self.hidden_bits))
        return pair_operand_bits(narrow, wide)

    # Rows, columns and tiles.

    @property
    def column_multiple(self) -> int:
        """Columns are padded with zeros to a multiple of this."""
        return self.group or self.width

    def padded_dim(self, dim: int) -> int:
        return ceil_div(dim, self.column_multiple) * self.column_multiple

    def groups(self, dim: int) -> int:
        """Scales per row."""
        return ceil_div(dim, self.group) if self.group else 1

    def row_beats(self, dim: int) -> int:
        """Body beats per block of `units` rows."""
        return self.padded_dim(dim) // self.width

    @property
    def tile_blocks(self) -> int:
        """Blocks of `units` rows in a full tile."""
        return self.tile_rows // self.units

    def header_beats(self, blocks: int, dim: int) -> int:
        """Beats of the header of a tile of `blocks` blocks."""
        row_bits = self.terms * TERM_BITS + self.groups(dim) * self.scale_bits
        return ceil_div(blocks * self.units * row_bits, self.bus_bits)

    # Row terms and vectors.

    @property
    def terms(self) -> int:
        """Row terms stored in the image: the bias first, then the bound."""
        return self.bias + self.bound

    @property
    def has_parameters(self) -> bool:
        """Every hidden vector in memory is followed by a block of parameters."""
        return bool(self.terms) or self.logsumexp

    def ranker_vectors(self, ranker: int) -> int:
        """Vectors of a ranker: vector b belongs to ranker ``b % rankers``, at slot
        ``b // rankers``.
        """
        return ceil_div(self.batch - ranker, self.rankers)

    @property
    def format_word(self) -> int:
        """The image format as the 32-bit word that hardware and image compare.

        Bits 15:0 tile_rows, 18:16 log2 width, 22:20 log2 group (0 = whole row), 23 and 19
        log2(channels), 25:24 log2(weight_bits) - 2, 26 scale_bits is 16, 27 scale_signed, 29:28
        log2(bus_bits) - 6, 30 bias, 31 bound.
        """
        log2_group = log2(self.group) if self.group else 0
        log2_channels = log2(self.channels)
        return (
            self.tile_rows
            | log2(self.width) << 16
            | log2_group << 20
            | (log2_channels & 1) << 19
            | (log2_channels >> 1) << 23
            | (log2(self.weight_bits) - 2) << 24
            | (self.scale_bits == 16) << 26
            | self.scale_signed << 27
            | (log2(self.bus_bits) - 6) << 28
            | self.bias << 30
            | self.bound << 31
        )

    def image_fields(self) -> dict[str, int | bool]:
        """The parameters that decide the layout of an image."""
        return {name: getattr(self, name) for name in IMAGE_FIELDS}

    # Widths, computed for the worst case of full-range weights, scales and hidden values.

    @property
    def id_bits(self) -> int:
        return max(1, (self.max_rows - 1).bit_length())

    @property
    def group_columns(self) -> int:
        """Columns of the largest group."""
        return self.group or self.padded_dim(self.max_dim)

    @property
    def dot_bound(self) -> int:
        """Largest magnitude of the dot product over one group."""
        return self.group_columns << (self.weight_bits - 1 + self.hidden_bits - 1)

    @property
    def dot_bits(self) -> int:
        return self.dot_bound.bit_length() + 1

    @property
    def scale_bound(self) -> int:
        """Largest magnitude of a stored scale."""
        return 1 << self.scale_bits - 1 if self.scale_signed else (1 << self.scale_bits) - 1

    @property
    def scaled_bits(self) -> int:
        """Width of a signed product of a group's dot product and its scale."""
        return (self.dot_bound * self.scale_bound).bit_length() + 1

    @property
    def sum_bound(self) -> int:
        """Largest magnitude of a row's sum over its groups, without terms."""
        return self.groups(self.max_dim) * self.dot_bound * self.scale_bound

    @property
    def sum_bits(self) -> int:
        """Width of a signed sum over the groups of a row."""
        return _spare_bits(self.sum_bound)

    @property
    def term_bound(self) -> int:
        """Largest magnitude of a row term times its multiplier."""
        return (1 << TERM_BITS - 1) * ((1 << MULTIPLIER_BITS) - 1)

    @property
    def score_bits(self) -> int:
        """Width of a signed score: the row's sum and its bias."""
        return _spare_bits(self.sum_bound + self.bias * self.term_bound)

    @property
    def rank_bits(self) -> int:
        """Width of the signed value that rows are ranked by: the score and the bound."""
        return _spare_bits(self.sum_bound + self.terms * self.term_bound)

    # Buffers.

    @property
    def outstanding_beats(self) -> int:
        return self.outstanding_bytes // self.bus_bytes

    @property
    def max_header_beats(self) -> int:
        return self.header_beats(self.tile_blocks, self.max_dim)

    @property
    def body_fifo_beats(self) -> int:
        """Body beats buffered before the lanes, so that a header passes while they compute.

        Without folding the lanes take a beat a clock and there is nothing to pass.
        """
        return ceil_div(self.max_header_beats, self.fold) + 8 if self.fold > 1 else 0

    @property
    def row_queue_blocks(self) -> int:
        """Blocks of finished rows that may wait for the top-k or be under way to it."""
        return max(4, 16 // self.lane_units)
