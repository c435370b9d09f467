"""How long the rows of a job take: from its acceptance until every channel has ranked its last one.

Clocks are numbered from 1, the first that the counter `cycles` counts. All is closed form: each
stage (memory, farm, top-k) would be done at a time of its own if the others were fast, and the last
of these times is the end.
"""

from dataclasses import dataclass
from math import ceil, log

from hw.config import MULTIPLIER_BITS, HeadConfig, ceil_div, is_power_of_two
from hw.dot import DotTiming
from hw.exp2 import Exp2
from hw.hidden import HiddenMemory, slice_bits
from hw.log2 import Log2Scaler
from hw.logsumexp import WINDOW
from hw.mask import mask_word_bits
from hw.multiplier import WideMultiplier
from hw.plan import SerialMultiplier, TilePlan
from hw.reader import MASK_BURST
from hw.stream_control import CHECK_CLOCKS, PLAN_SETTLE_CLOCKS, start_clocks
from hw.topk_engine import engine_levels
from hw.writer import MAX_BURST
from sim.estimate_job import Job, System
from sim.memory.bandwidth import ReadBandwidth, read_bandwidth

FIFO_CLOCKS = 3
"""Through an empty `hw.fifo.StreamFIFO`: also from the pins to the reader's output."""
REQUEST_CLOCKS = 2
"""From a beat that leaves the reader to the ARVALID of the burst that takes its room."""
READER_CLOCKS = REQUEST_CLOCKS + FIFO_CLOCKS - 1
LOAD_CLOCKS = 1
"""From a set of sums at the row queue's output to its first row on offer (`hw.rows`)."""
ACCUMULATE_CLOCKS = 6
"""From the mantissa of a log-sum-exp's last row to its `idle`."""
BURST_GAP_CLOCKS = 1
"""Between the beats of two bursts of `hw.writer.Writer`."""
RELEASE_CLOCKS = 2
"""From a block that leaves the row queue to the first beat of the one that takes its room."""
MASK_COMMAND_CLOCKS = 6
"""From the complete plan to the ARVALID of the first burst of the mask."""
MASK_ROW_CLOCKS = 4
"""From a beat of the mask to the row of its lowest bit (`hw.mask.MaskBuffer`)."""
PARABOLIC_MAXIMUM = 0.996
"""Mean of the maximum of W(t) - t^2, W a two-sided Brownian motion (Groeneboom 1989)."""


@dataclass(frozen=True)
class ChannelFlow:
    """One channel's part of a job."""

    channel: int
    rows: int
    body_beats: int
    stream_beats: int
    """Of hidden states and image."""
    path: ReadBandwidth
    first_address: int
    """Clock of the first ARVALID for hidden states or image."""
    arrived: float
    """When the last beat could leave the reader if nobody refused one."""
    stream_end: float
    """When it leaves."""
    rows_end: float
    """First clock in which all rows are known to be ranked."""


def plan_clock(job: Job) -> int:
    """Clock in which the plan is complete (`hw.plan.TilePlan`)."""
    config, product = job.config, SerialMultiplier.clocks
    # Two clocks for columns and beats.
    clock = CHECK_CLOCKS + 3
    if config.batch > 1:
        clock += product(job.vectors)
    clock += 1 if is_power_of_two(config.tile_rows) else config.max_rows.bit_length() + 1
    if config.channels > 1 or config.mask:
        factor = 1 if is_power_of_two(config.tile_rows) else config.tile_rows
        clock += 1 + product(factor) + 1
        if config.mask:
            clock += 1 + 2 * product(job.vectors)
    last = job.layout.tile(job.layout.tiles - 1).blocks
    return clock + 1 + product(config.tile_blocks) + product(last)


def rows_start_clock(job: Job) -> int:
    """Clock in which the rankers are told to begin."""
    return CHECK_CLOCKS if job.config.channels == 1 else plan_clock(job)


def rankers_ready_clock(job: Job) -> int:
    """Clock from which rows are taken: lists and accumulators are cleared."""
    config = job.config
    slots = 1 << (config.k - 1).bit_length()
    clocks = slots // 2 + 2 * len(engine_levels(config.k)) + 2
    if config.logsumexp:
        clocks = max(clocks, WINDOW * config.ranker_vectors(0) + 1)
    return rows_start_clock(job) + clocks


def pipeline_clocks(config: HeadConfig) -> int:
    """From the last sub-beat that the farm takes of a block to its first row on offer."""
    return HiddenMemory.LATENCY + DotTiming.of(config).score + FIFO_CLOCKS + LOAD_CLOCKS


def term_clocks(config: HeadConfig) -> int:
    """From a row that leaves the queue to the ranker's lists."""
    if not config.terms:
        return 0
    return WideMultiplier.latency_of(MULTIPLIER_BITS + 1) + config.terms + FIFO_CLOCKS


def after_row_clocks(config: HeadConfig) -> int:
    """From a row that leaves the queue to the clock in which it is known to be ranked."""
    clocks = 1 + term_clocks(config)
    if config.logsumexp:
        clocks += Log2Scaler.LATENCY + Exp2.LATENCY + ACCUMULATE_CLOCKS
    return clocks


def judging_clocks(config: HeadConfig) -> int:
    """In which a list takes a row that it does not keep (`hw.topk.TopK`)."""
    # With the longer interval every second clock; all lists in the same ones.
    return 2 if config.insert_interval == 6 else 1


def row_clocks(job: Job) -> float:
    """In which a ranker takes a row that no list keeps, for all of its vectors."""
    clocks = job.slots * judging_clocks(job.config)
    if job.all_logits:
        clocks = max(clocks, job.logits_beats_per_row * (1 + BURST_GAP_CLOCKS / MAX_BURST))
    return clocks


def insertion_clocks(job: Job) -> float:
    """What a row takes besides that if a list keeps it."""
    clocks = job.config.insert_interval
    if job.slots > 1:
        # The next row of that list is not at hand when it is judged.
        clocks += judging_clocks(job.config)
    return max(0, clocks - row_clocks(job))


def rows_kept(job: Job, rows: float) -> float:
    """How many of so many rows in random order enter a list of at least one of their vectors.

    Row v enters each of s lists with a chance of k / v: the sum of ``1 - (1 - k / v)**s``.
    """
    k, slots = job.k, job.slots
    if rows <= k:
        return rows
    least = k / rows
    term = log(1 / least)
    total = k + k * term
    for power in range(1, slots):
        term -= (1 - least) ** power / power
        total += k * term
    return min(rows, total)


def ranking_clocks(job: Job, rows: float) -> float:
    """In which a ranker takes its first `rows` rows if they are always there."""
    if not rows:
        return 0.0
    kept = rows_kept(job, rows)
    if job.slots > 1:
        # A row kept by a later list, and the next row kept by an earlier one, wait together.
        kept -= job.k / 2 * max(0.0, 1 - job.k / rows) ** 2
    return rows * row_clocks(job) + kept * insertion_clocks(job)


def last_row_clocks(job: Job, rows: int) -> float:
    """What of `ranking_clocks` follows the moment in which the last row was taken."""
    chance = 1 - (1 - min(1.0, job.k / rows)) ** job.slots
    return row_clocks(job) - (job.slots - 1) * judging_clocks(job.config) + chance * insertion_clocks(job)


def most_held_up(job: Job, rows: int, spacing: float) -> float:
    """After how many rows the ranker keeps up with one every `spacing` clocks."""
    more = spacing - row_clocks(job)
    extra = insertion_clocks(job)
    if extra <= more:
        return 0.0
    if more <= 0:
        return rows
    # Where the chance that a row is kept has fallen to what there is time for.
    chance = 1 - (1 - more / extra) ** (1 / job.slots)
    return min(rows, job.k / chance)


def delay_by_chance(job: Job, held: float, spacing: float) -> float:
    """What rows in random order delay the ranker more than if they were kept evenly.

    The moment up to which it is behind is where a random walk with a parabolic drift is largest:
    Groeneboom's mean of the maximum of W(t) - t^2 in both directions, scaled.
    """
    extra, more = insertion_clocks(job), spacing - row_clocks(job)
    if not held or more <= 0 or extra <= more:
        return 0.0
    kept = more / extra
    deviation = extra * (kept * (1 - kept)) ** 0.5
    drift = more / (2 * held)
    return PARABOLIC_MAXIMUM * deviation ** (4 / 3) * drift ** (-1 / 3)


class Channel:
    """The times of one channel of a job."""

    def __init__(self, job: Job, system: System, channel: int):
        self.job = job
        self.config = job.config
        self.channel = channel
        self.tiles = job.layout.channel_tiles(channel)
        self.rows = job.layout.channel_rows(channel)
        self.image_beats = job.layout.channel_beats(channel)
        self.blocks = ceil_div(self.rows, self.config.units)
        self.body_beats = self.blocks * job.layout.row_beats
        self.header_beats = self.image_beats - self.body_beats
        first = job.layout.tile(channel) if self.tiles else None
        self.first_header_beats = first.header_beats if first else 0
        self.first_address = 1 + start_clocks(self.config, job.vectors, channel)
        self.path = self._path(system)
        self.first_beat = self.first_address + self.path.latency_cycles + FIFO_CLOCKS

    def _path(self, system: System) -> ReadBandwidth:
        config = self.config
        return read_bandwidth(
            system.memory,
            config.bus_bits,
            system.clock_hz,
            config.channels,
            burst_beats=config.max_burst,
            buffer_beats=config.outstanding_beats,
            reader_cycles=READER_CLOCKS,
            drain_cycles=max(1.0, self.config.fold * self.body_beats / max(1, self.image_beats)),
        )

    def _first_window(self) -> int:
        """Beats requested before the first burst that has to wait for room."""
        window, burst = self.path.window_beats, self.config.max_burst
        hidden = 0 if self.channel else self.job.hidden_beats
        if hidden >= window:
            return window
        # The hidden region ends with a burst of its own.
        room = self.config.outstanding_beats - hidden
        bursts = window // burst - ceil_div(hidden, burst)
        return hidden + min(room // burst, bursts) * burst

    # Hidden states: read by channel 0, and by the others from it.

    @property
    def _state_words(self) -> int:
        """Clocks in which a beat of a hidden state is taken."""
        return max(1, self.config.bus_bits // slice_bits(self.config))

    def hidden_end(self) -> float:
        """Channel 0: the last beat of the hidden region leaves the reader."""
        job = self.job
        arrive = self.first_beat + self.path.cycles(job.hidden_beats) - 1
        words = job.state_beats * self._state_words + job.parameter_beats
        return max(arrive, self.first_beat + job.vectors * words - 1)

    def farm_ready(self, hidden_end: float) -> float:
        """First clock in which the farm may take a beat."""
        converted = slice_bits(self.config) != self.config.bus_bits
        loaded = hidden_end - self.job.parameter_beats + converted + 1
        if self.channel:
            if self.config.has_parameters:
                loaded = max(loaded, hidden_end + 1)
            loaded += 1
        return loaded + 1

    def header_start(self, hidden_end: float) -> float:
        """First clock in which a header beat may leave the reader."""
        planned = plan_clock(self.job)
        if self.channel:
            return max(self.first_beat, planned + 1)
        return hidden_end + 1 if hidden_end > planned else max(hidden_end + 2, planned + 1)

    # Rows.

    def last_rows(self, farm_end: float) -> float:
        """All rows are ranked, after the farm's last sub-beat, if none had to wait before."""
        config = self.config
        rows = self.rows - (self.blocks - 1) * config.units
        last_set = (rows - 1) // config.lane_units
        offered = farm_end + pipeline_clocks(config)
        ends = []
        for first in (0, last_set):
            left = rows - first * config.lane_units
            start = offered - (config.fold_units - 1 - first)
            ends.append(start + left * row_clocks(self.job) - last_row_clocks(self.job, 2**31))
        return max(ends) + after_row_clocks(config)

    def _clocks_left(self, blocks_done: float) -> float:
        """Of the farm for the blocks that are left, with the headers that come between them."""
        config, beat = self.config, self.path.beat_cycles
        blocks = max(0.0, self.blocks - blocks_done)
        tiles_begun = max(1, ceil(blocks_done / config.tile_blocks))
        headers = max(0, self.header_beats - tiles_begun * self.first_header_beats)
        row_beats = self.job.layout.row_beats
        return max(blocks * row_beats * config.fold, (blocks * row_beats + headers) * beat)

    def _row_spacing(self, with_header: bool) -> float:
        """Clocks from a row to the next as the farm makes them."""
        blocks = self.config.tile_blocks
        header = self.first_header_beats / blocks if with_header else 0
        row_beats = self.job.layout.row_beats
        beats = (row_beats + header) * self.path.beat_cycles
        return max(beats, row_beats * self.config.fold) / self.config.units

    def ranked(self, first_block_end: float, rows_ready: float) -> float:
        """All rows are ranked, if the rankers hold up the farm in the beginning.

        They take the first rows at their own pace; from there on the farm is ahead by its queue.
        """
        job, config = self.job, self.config
        ready = first_block_end + pipeline_clocks(config)
        ready = max(ready, rows_ready - term_clocks(config))
        spacing = self._row_spacing(with_header=False)
        held = most_held_up(job, self.rows, spacing)
        if held > config.tile_rows:
            spacing = self._row_spacing(with_header=True)
            held = most_held_up(job, self.rows, spacing)
        taken = ready + ranking_clocks(job, held) + delay_by_chance(job, held, spacing)
        done = held / config.units + config.row_queue_blocks - 1
        taken_all = ready + ranking_clocks(job, self.rows) - last_row_clocks(job, self.rows)
        ends = [taken_all + after_row_clocks(config)]
        if done < self.blocks:
            farm_end = taken + RELEASE_CLOCKS + self._clocks_left(done)
            ends.append(self.last_rows(farm_end))
        return max(ends)

    def mask_ready(self, hidden_end: float) -> float:
        """First clock in which a row may be on offer with its bits of the mask."""
        job, config = self.job, self.config
        if not job.mask:
            return 0.0
        asked = plan_clock(job) + MASK_COMMAND_CLOCKS
        # The bursts of the image that were asked for before come first: as many as there was room
        # for, and room is made until the row queue is full.
        held = (config.row_queue_blocks - 1) * job.layout.row_beats + self.first_header_beats
        passed = min(held, max(0.0, asked - REQUEST_CLOCKS - hidden_end))
        hidden = 0 if self.channel else job.hidden_beats
        if hidden_end < asked:
            passed += hidden
        elif not self.channel:
            passed += max(0.0, asked - REQUEST_CLOCKS - self.first_beat)
        ahead = hidden + self.image_beats
        room = int(passed + config.outstanding_beats - hidden) // config.max_burst
        ahead = min(ahead, hidden + room * config.max_burst)
        first = self.first_address + self.path.latency_cycles + ahead * self.path.beat_cycles
        first = max(first, asked + self.path.latency_cycles)
        words = (job.vectors - 1) * config.tile_rows // mask_word_bits(config)
        return first + FIFO_CLOCKS + MASK_ROW_CLOCKS + words

    def flow(self, hidden_end: float) -> ChannelFlow:
        """The times, given when the last beat of the hidden region leaves channel 0's reader."""
        config, job = self.config, self.job
        header = self.header_start(hidden_end)
        ready = self.farm_ready(hidden_end)
        first_body = max(header + self.first_header_beats, ready)
        beats = job.read_beats(self.channel)
        arrived = self.first_beat + self.path.cycles(beats, self._first_window()) - 1
        if config.fold == 1:
            passed = first_body + self.image_beats - self.first_header_beats - 1
            stream_end = farm_end = max(arrived, passed)
            first_block = first_body + job.layout.row_beats - 1
        else:
            taken = max(first_body + FIFO_CLOCKS, ready)
            first_block = taken + config.fold * job.layout.row_beats - 1
            computed = taken + config.fold * self.body_beats - 1
            buffered = min(self.body_beats, config.body_fifo_beats + 2)
            passed = max(
                header + self.image_beats - 1, computed - config.fold * (buffered + 1)
            )
            stream_end = max(arrived, passed)
            farm_end = max(computed, stream_end + FIFO_CLOCKS + config.fold - 1)
        rows_ready = max(rankers_ready_clock(job), self.mask_ready(hidden_end))
        rows_end = max(self.last_rows(farm_end), self.ranked(first_block, rows_ready))
        held = rows_end - self.last_rows(farm_end)
        return ChannelFlow(
            channel=self.channel,
            rows=self.rows,
            body_beats=self.body_beats,
            stream_beats=job.read_beats(self.channel) - job.mask_beats(self.channel),
            path=self.path,
            first_address=self.first_address,
            arrived=arrived,
            stream_end=stream_end + held,
            rows_end=rows_end,
        )


def channel_flows(job: Job, system: System) -> list[ChannelFlow]:
    """The flows of all channels that have rows."""
    channels = [Channel(job, system, number) for number in range(job.config.channels)]
    hidden_end = channels[0].hidden_end()
    return [channel.flow(hidden_end) for channel in channels if channel.tiles]
