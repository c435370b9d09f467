"""The shape of a job: what follows from V, d and the number of vectors, computed at its start."""

from contextlib import contextmanager

from amaranth.hdl import Const, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from hw.config import TERM_BITS, HeadConfig, ceil_div, is_power_of_two, log2
from hw.parameters import parameter_beats


def state_beats(config: HeadConfig, dim: int) -> int:
    """Bus beats of one quantised hidden state, padded to whole beats."""
    return ceil_div(config.padded_dim(dim) * config.hidden_bits, config.bus_bits)


def hidden_beats(config: HeadConfig, dim: int, vectors: int) -> int:
    """Bus beats of the hidden region of a job: the states, each with its parameters."""
    return vectors * (state_beats(config, dim) + parameter_beats(config))


def row_words(config: HeadConfig, groups: int) -> int:
    """Scales per row in a header, its terms counted as if they were scales of the same size."""
    return groups + config.terms * (TERM_BITS // config.scale_bits)


def header_words(config: HeadConfig, blocks: int, dim: int) -> int:
    """Words of `lane_units` scales in the header of a tile of `blocks` blocks, terms included."""
    return blocks * config.fold_units * row_words(config, config.groups(dim))


def most_tiles(config: HeadConfig) -> int:
    """Tiles of a channel at the largest vocabulary."""
    return ceil_div(ceil_div(config.max_rows, config.tile_rows), config.channels)


def most_mask_beats(config: HeadConfig) -> int:
    """Mask beats of a channel at the largest vocabulary and batch."""
    return ceil_div(most_tiles(config) * config.batch * config.tile_rows, config.bus_bits)


class PlanLayout(data.StructLayout):
    """What the blocks of a channel need to know of a job.

    Members: `hidden_beats` of all vectors, parameters included; `state_beats` of one hidden state;
    `row_beats`, body beats per block of rows; of this channel its `tiles` and `rows`, and of full
    tiles and of its last one the `blocks` of rows and the `words` of the header (see
    `header_words`); where masks are built, `mask_beats`.
    """

    def __init__(self, config: HeadConfig):
        words = header_words(config, config.tile_blocks, config.max_dim)
        members = {
            "hidden_beats": range(hidden_beats(config, config.max_dim, config.batch) + 1),
            "state_beats": range(state_beats(config, config.max_dim) + 1),
            "row_beats": range(config.row_beats(config.max_dim) + 1),
            "tiles": range(most_tiles(config) + 1),
            "rows": range(config.max_rows + 1),
            "full_blocks": range(config.tile_blocks + 1),
            "full_words": range(words + 1),
            "last_blocks": range(config.tile_blocks + 1),
            "last_words": range(words + 1),
        }
        if config.mask:
            members["mask_beats"] = range(most_mask_beats(config) + 1)
        super().__init__(members)


class SerialMultiplier:
    """Multiplies in states of a finite state machine, one product at a time.

    Parameters
    ----------
    largest_factor, largest_product : int
    """

    @staticmethod
    def clocks(factor: int) -> int:
        """Clocks of a product, that in which it may be used included."""
        return factor.bit_length() + 2

    def __init__(self, largest_factor: int, largest_product: int):
        self._factor = Signal(range(largest_factor + 1), name="factor")
        self._addend = Signal(range(2 * largest_product + 1), name="addend")
        self._product = Signal(range(largest_product + 1), name="product")

    def begin(self, m: Module, factor: ValueLike, addend: ValueLike, state: str) -> None:
        """Go on with `state`, which multiplies."""
        m.d.sync += [self._factor.eq(factor), self._addend.eq(addend), self._product.eq(0)]
        m.next = state

    @contextmanager
    def product(self, m: Module, state: str):
        """State `state`, and the one behind it, where the product may be used for a clock."""
        with m.State(state):
            m.d.sync += [
                self._factor.eq(self._factor >> 1),
                self._addend.eq(self._addend << 1),
                self._product.eq(self._product + Mux(self._factor[0], self._addend, 0)),
            ]
            with m.If(self._factor == 0):
                m.next = f"{state}_STORE"
        with m.State(f"{state}_STORE"):
            yield self._product


class Share:
    """Registers for what a channel's part of a job differs in from that of others.

    Attributes
    ----------
    tiles, rows, mask_beats : Signal
    more_tiles : Signal
        The channel has one tile more than ``tiles // channels``.
    more_rows : Signal, signed
        Rows it has more than those: of that tile, less what the last one lacks.
    has_last : Signal
        The last tile is this channel's.
    """

    def __init__(self, config: HeadConfig, channel: int):
        self.channel = channel
        self.tiles = Signal(range(most_tiles(config) + 1), name=f"tiles{channel}")
        self.rows = Signal(range(config.max_rows + 1), name=f"rows{channel}")
        self.mask_beats = Signal(range(most_mask_beats(config) + 1), name=f"mask_beats{channel}")
        self.more_tiles = Signal(name=f"more_tiles{channel}")
        rows = range(-config.tile_rows, config.tile_rows + 1)
        self.more_rows = Signal(rows, name=f"more_rows{channel}")
        self.has_last = Signal(name=f"has_last{channel}")

    def divide(self, m: Module, config: HeadConfig, tiles: Value, missing: Value) -> None:
        """Give `tiles` out to the channels in turn; all but the last one, which lacks `missing`
        rows, are full. Two clocks.
        """
        # The channel of the last tile is the one before the first that has a tile fewer.
        fewer = tiles[: log2(config.channels)]
        last = self.channel == config.channels - 1
        extra = Mux(self.more_tiles, config.tile_rows, 0)
        m.d.sync += [
            self.tiles.eq((tiles + config.channels - 1 - self.channel) >> log2(config.channels)),
            self.more_tiles.eq(0 if last else fewer > self.channel),
            self.has_last.eq(fewer == (self.channel + 1) % config.channels),
            self.more_rows.eq(extra - Mux(self.has_last, missing, 0)),
        ]


class TilePlan(wiring.Component):
    """Computes the plan of a job for all channels with one divider and one multiplier, both serial.

    `state_beats` and `row_beats` are right two clocks after `start`. `hidden_beats` is right three
    clocks after `start`, with a batch of two or more when `hidden_ready` is high as well; the
    `tiles` and `rows` of a channel are right with it if there are several, `rows` at once if not.
    The rest is right when `ready` rises, at most `longest` clocks after `start`.
    Memories take about as long to answer with the hidden state, and no header is looked at before.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    start : In
        One clock; `rows`, `dim` and `vectors` are in their ranges and stable from then on.
    rows, dim, vectors : In
        V, d and the number of hidden vectors.
    plan : Out(ArrayLayout of PlanLayout)
        By channel.
    hidden_ready : Out
        What the hidden region needs is known; low from the clock after `start` if ever.
    ready : Out
        The plan is complete; low from the clock after `start`.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "rows": In(range(config.max_rows + 1)),
                "dim": In(range(config.max_dim + 1)),
                "vectors": In(range(config.batch + 1)),
                "plan": Out(data.ArrayLayout(PlanLayout(config), config.channels)),
                "hidden_ready": Out(1),
                "ready": Out(1),
            }
        )

    @staticmethod
    def longest(config: HeadConfig) -> int:
        """Most clocks from `start` to `ready`."""
        clocks = config.id_bits + 2 * config.tile_blocks.bit_length() + 10
        vectors = config.batch.bit_length() + 2
        if config.batch > 1:
            clocks += vectors
        if config.channels > 1 or config.mask:
            clocks += config.tile_rows.bit_length() + 4
        if config.mask:
            clocks += 1 + 2 * vectors
        return clocks

    @classmethod
    def hidden_ready_clocks(cls, config: HeadConfig, vectors: int) -> int:
        """Clocks from that of `start` to the first with `hidden_ready` high, where that falls."""
        product = SerialMultiplier.clocks
        clocks = 3
        if config.batch > 1:
            clocks += product(vectors)
        if config.channels > 1:
            steps = 0 if is_power_of_two(config.tile_rows) else config.max_rows.bit_length()
            clocks += steps + 3 + product(cls._row_factor(config))
        return clocks

    def _multiplier(self) -> SerialMultiplier:
        config = self.config
        words = row_words(config, config.groups(config.max_dim))
        factors, products = [config.tile_blocks], [config.tile_blocks * words]
        if config.batch > 1:
            factors.append(config.batch)
            products.append(hidden_beats(config, config.max_dim, config.batch))
        if config.channels > 1 or config.mask:
            factors.append(self._row_factor(config))
            products.append(most_tiles(config) * config.tile_rows)
        if config.mask:
            factors.append(config.batch)
            products.append(most_tiles(config) * config.tile_rows * config.batch)
        return SerialMultiplier(max(factors), max(products))

    @staticmethod
    def _row_factor(config: HeadConfig) -> int:
        """What the multiplier makes rows of tiles with; powers of two are shifts."""
        return 1 if is_power_of_two(config.tile_rows) else config.tile_rows

    def elaborate(self, platform):
        m = Module()
        config = self.config
        states = Signal(range(state_beats(config, config.max_dim) + 1))
        row_beats = Signal(range(config.row_beats(config.max_dim) + 1))
        words = Signal(range(row_words(config, config.groups(config.max_dim)) + 1))
        columns = Signal(range(config.padded_dim(config.max_dim) + 1))
        multiple = log2(config.column_multiple)
        hidden_bits = columns << log2(config.hidden_bits)
        groups = columns >> log2(config.group) if config.group else 1
        m.d.sync += [
            columns.eq(((self.dim + config.column_multiple - 1) >> multiple) << multiple),
            row_beats.eq(columns >> log2(config.width)),
            states.eq((hidden_bits + config.bus_bits - 1) >> log2(config.bus_bits)),
            words.eq(row_words(config, groups)),
        ]

        hidden = Signal(range(hidden_beats(config, config.max_dim, config.batch) + 1))
        hidden_ready = Signal(init=1)
        vector_beats = states + parameter_beats(config)
        if config.batch == 1:
            domain = m.d.sync if config.has_parameters else m.d.comb
            domain += hidden.eq(vector_beats)
        quotient = Signal(range(config.max_rows + 1))
        remainder = Signal(range(config.tile_rows + 1))
        blocks = (remainder + config.units - 1) >> log2(config.units)
        tiles = Signal(range(ceil_div(config.max_rows, config.tile_rows) + 1))
        last_blocks = Signal(range(config.tile_blocks + 1))
        full_words = Signal.like(self.plan[0].full_words)
        last_words = Signal.like(self.plan[0].last_words)
        multiplier = self._multiplier()

        m.d.comb += self.hidden_ready.eq(hidden_ready)
        for plan in self.plan:
            m.d.comb += [
                plan.hidden_beats.eq(hidden),
                plan.state_beats.eq(states),
                plan.row_beats.eq(row_beats),
                plan.full_blocks.eq(config.tile_blocks),
                plan.full_words.eq(full_words),
            ]
        shares = [Share(config, channel) for channel in range(config.channels)]
        for plan, share in zip(self.plan, shares, strict=True):
            if config.channels == 1:
                m.d.comb += [
                    plan.tiles.eq(tiles),
                    plan.rows.eq(self.rows),
                    plan.last_blocks.eq(last_blocks),
                    plan.last_words.eq(last_words),
                ]
            else:
                missing = Mux(remainder == 0, 0, config.tile_rows - remainder)
                share.divide(m, config, tiles, missing)
                m.d.comb += [
                    plan.tiles.eq(share.tiles),
                    plan.rows.eq(share.rows),
                    plan.last_blocks.eq(Mux(share.has_last, last_blocks, config.tile_blocks)),
                    plan.last_words.eq(Mux(share.has_last, last_words, full_words)),
                ]
            if config.mask:
                m.d.comb += plan.mask_beats.eq(share.mask_beats)

        with m.FSM(name="plan"):
            with m.State("IDLE"), m.If(self.start):
                m.d.sync += self.ready.eq(0)
                if config.batch > 1 or config.channels > 1:
                    m.d.sync += hidden_ready.eq(0)
                m.next = "COLUMNS"
            with m.State("COLUMNS"):
                m.next = "BEATS"
            with m.State("BEATS"):
                m.next = "DIVIDE"
                if config.batch > 1:
                    multiplier.begin(m, self.vectors, vector_beats, "HIDDEN")
            if config.batch > 1:
                with multiplier.product(m, "HIDDEN") as product:
                    m.d.sync += hidden.eq(product)
                    if config.channels == 1:
                        m.d.sync += hidden_ready.eq(1)
                    m.next = "DIVIDE"
            self._divide(m, quotient, remainder)
            with m.State("LAST"):
                # Rows of the last tile: the remainder, or a full tile where there is none.
                with m.If(remainder == 0):
                    m.d.sync += [tiles.eq(quotient), last_blocks.eq(config.tile_blocks)]
                with m.Else():
                    m.d.sync += [tiles.eq(quotient + 1), last_blocks.eq(blocks)]
                if config.channels > 1 or config.mask:
                    m.next = "TILES"
                else:
                    multiplier.begin(m, config.tile_blocks, words, "FULL_WORDS")
            if config.channels > 1 or config.mask:
                self._count_rows(m, multiplier, tiles, shares, hidden_ready)
                with m.State("WORDS"):
                    multiplier.begin(m, config.tile_blocks, words, "FULL_WORDS")
            with multiplier.product(m, "FULL_WORDS") as product:
                m.d.sync += full_words.eq(product << log2(config.fold_units))
                multiplier.begin(m, last_blocks, words, "LAST_WORDS")
            with multiplier.product(m, "LAST_WORDS") as product:
                m.d.sync += [last_words.eq(product << log2(config.fold_units)), self.ready.eq(1)]
                m.next = "IDLE"
        return m

    def _count_rows(self, m, multiplier, tiles, shares, hidden_ready):
        """States from TILES to WORDS: the rows of the channels and the beats of their masks."""
        config = self.config
        common = Signal(range(most_tiles(config) * config.tile_rows + 1))
        with m.State("TILES"):
            factor = self._row_factor(config)
            shift = log2(config.tile_rows) if factor == 1 else 0
            tiles_each = tiles >> log2(config.channels)
            multiplier.begin(m, factor, tiles_each << shift, "ROWS")
        with multiplier.product(m, "ROWS") as product:
            m.d.sync += [common.eq(product), hidden_ready.eq(1)]
            m.d.sync += [share.rows.eq(product + share.more_rows) for share in shares]
            m.next = "MASK_BITS" if config.mask else "WORDS"
        if not config.mask:
            return
        bits = Signal(range(most_mask_beats(config) * config.bus_bits + 1))
        with m.State("MASK_BITS"):
            multiplier.begin(m, self.vectors, common, "MASK")
        with multiplier.product(m, "MASK") as product:
            m.d.sync += bits.eq(product)
            multiplier.begin(m, self.vectors, config.tile_rows, "EXTRA_MASK")
        with multiplier.product(m, "EXTRA_MASK") as product:
            for share in shares:
                whole = bits + Mux(share.more_tiles, product, 0) + config.bus_bits - 1
                m.d.sync += share.mask_beats.eq(whole >> log2(config.bus_bits))
            m.next = "WORDS"

    def _divide(self, m, quotient, remainder):
        """State DIVIDE: quotient and remainder of rows / tile_rows, then LAST."""
        config = self.config
        if is_power_of_two(config.tile_rows):
            with m.State("DIVIDE"):
                m.d.sync += [
                    quotient.eq(self.rows >> log2(config.tile_rows)),
                    remainder.eq(self.rows[: log2(config.tile_rows)]),
                ]
                m.next = "LAST"
            return
        step = Signal(range(len(quotient) + 1))
        shifted = Signal(range(2 * config.tile_rows))
        fits = shifted >= Const(config.tile_rows)
        m.d.comb += shifted.eq((remainder << 1) | quotient[-1])
        with m.State("DIVIDE"):
            # Restoring division; the dividend leaves `quotient` as the quotient enters it.
            with m.If(step == 0):
                m.d.sync += [quotient.eq(self.rows), remainder.eq(0), step.eq(len(quotient))]
            with m.Else():
                m.d.sync += [
                    remainder.eq(Mux(fits, shifted - config.tile_rows, shifted)),
                    quotient.eq((quotient << 1) | fits),
                    step.eq(step - 1),
                ]
                with m.If(step == 1):
                    m.next = "LAST"
