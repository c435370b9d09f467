"""How long the rows of a job take: from its acceptance until every channel has ranked its last one.

Clocks are numbered from 1, the first that the counter `cycles` counts. All is closed form: each
stage (memory, farm, top-k) would be done at a time of its own if the others were fast, and the last
of these times is the end.
"""

from dataclasses import dataclass
from math import ceil

from hw.buffer import StreamBuffer
from hw.config import HeadConfig, ceil_div, is_power_of_two
from hw.dot import DotTiming
from hw.fifo import StreamFIFO
from hw.hidden import HiddenMemory, loading_clocks, slice_bits
from hw.logsumexp import WINDOW
from hw.mask import mask_word_bits
from hw.plan import SerialMultiplier
from hw.reader import READ_LATENCY, ROOM_CLOCKS
from hw.stream_control import CHECK_CLOCKS, start_clocks
from hw.terms import OUTPUT_ROWS
from hw.topk_engine import engine_levels
from sim.estimate_job import Job, System
from sim.estimate_rank import (
    after_row_clocks,
    delay_by_chance,
    last_row_clocks,
    most_held_up,
    ranking_clocks,
    row_clocks,
    term_clocks,
)
from sim.memory.bandwidth import ReadBandwidth, read_bandwidth

REQUEST_CLOCKS = ROOM_CLOCKS - READ_LATENCY + 1
"""From a beat that leaves the reader to the ARVALID of the burst that takes its room."""
FIFO_CLOCKS = StreamFIFO.LATENCY
LOAD_CLOCKS = 1
"""From a set of sums at the row queue's output to its first row on offer (`hw.rows`)."""
QUEUE_CLOCKS = 2
"""Of a block's place in the row queue besides its way there: until another may have it."""
RELEASE_CLOCKS = 2
"""From a block that leaves the row queue to the first beat of the one that takes its room."""
SETUP_CYCLES = 208
"""Register accesses of a driver from reset to the start of its first job, about."""
MASK_COMMAND_CLOCKS = 6
"""From the complete plan to the ARVALID of the first burst of the mask."""
MASK_ROW_CLOCKS = 4
"""From a beat of the mask to the row of its lowest bit (`hw.mask.MaskBuffer`)."""


@dataclass(frozen=True)
class ChannelFlow:
    """One channel's part of a job."""

    channel: int
    rows: int
    body_beats: int
    farm_clocks: float
    """In which the farm takes them."""
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
    queue = FIFO_CLOCKS + StreamBuffer.LATENCY
    return HiddenMemory.LATENCY + DotTiming.of(config).score + queue + LOAD_CLOCKS


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
        self.most_outstanding = system.memory.max_outstanding
        self.first_beat = self.first_address + self.path.latency_cycles + READ_LATENCY

    def _path(self, system: System) -> ReadBandwidth:
        config, job = self.config, self.job
        drain = max(1.0, config.fold * self.body_beats / max(1, self.image_beats))
        # What the farm's queue takes at once; it keeps the beat that is at work.
        queue = config.body_fifo_beats + 1 if drain > 1 else 0
        written = job.logits_beats(self.channel) / max(1, job.read_beats(self.channel))
        return read_bandwidth(
            system.memory,
            config.bus_bits,
            system.clock_hz,
            config.channels,
            burst_beats=config.max_burst,
            buffer_beats=config.outstanding_beats,
            reader_cycles=ROOM_CLOCKS + (FIFO_CLOCKS if drain > 1 else 0),
            drain_cycles=drain,
            drained_beats=queue,
            written_share=written,
        )

    def _first_window(self) -> int:
        """Beats requested before the first burst that has to wait for room."""
        window, burst = self.path.window_beats, self.config.max_burst
        hidden = 0 if self.channel else self.job.hidden_beats
        beats = hidden + self.image_beats
        if self.path.waits_for_room and beats <= self.config.outstanding_beats:
            return self.job.read_beats(self.channel)
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
        # Parameters need not wait for the words of the state's last beat.
        last = (job.state_beats - 1) * self._state_words + 1 + job.parameter_beats
        words = max(last, job.state_beats * self._state_words)
        return max(arrive, self.first_beat + (job.vectors - 1) * words + last - 1)

    def farm_ready(self, hidden_end: float) -> float:
        """First clock in which the farm may take a beat."""
        loaded = hidden_end - self.job.parameter_beats + loading_clocks(self.config)
        if self.channel:
            if self.config.has_parameters:
                loaded = max(loaded, hidden_end + 1)
            loaded += 1
        return loaded + 1

    def header_start(self, hidden_end: float) -> float:
        """First clock in which a header beat may leave the reader."""
        # The unpackers see it a clock late.
        planned = plan_clock(self.job) + 1
        if self.channel:
            return max(self.first_beat, planned + 1)
        return hidden_end + 1 if hidden_end >= planned else max(hidden_end + 2, planned + 1)

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

    def _clocks_left(self, blocks_done: float, beat: float, buffered: int) -> float:
        """Of the farm for the blocks that are left, with the headers that come between them.

        Parameters
        ----------
        blocks_done : float
        beat : float
            Clocks in which a beat comes.
        buffered : int
            Beats that have come before.
        """
        config = self.config
        blocks = max(0.0, self.blocks - blocks_done)
        tiles_begun = max(1, ceil(blocks_done / config.tile_blocks))
        headers = max(0, self.header_beats - tiles_begun * self.first_header_beats)
        weights = blocks * self.job.layout.row_beats
        beats = max(0.0, weights + headers - buffered)
        return max(blocks * self._block_clocks, weights * config.fold, beats * beat)

    def _row_spacing(self, beat: float, with_header: bool) -> float:
        """Clocks from a row to the next as the farm makes them, at a beat in so many clocks."""
        blocks = self.config.tile_blocks
        header = self.first_header_beats / blocks if with_header else 0
        row_beats = self.job.layout.row_beats
        return max((row_beats + header) * beat, self._block_clocks) / self.config.units

    def _held_up(self, ready: float, beat: float, buffered: int) -> float:
        """All rows are ranked, if the rankers hold up beats that then come in so many clocks each.

        They take the first rows at their own pace; from there on the farm is ahead by its queue.
        """
        job, config = self.job, self.config
        spacing = self._row_spacing(beat, with_header=False)
        held = most_held_up(job, self.rows, spacing)
        if held > config.tile_rows:
            spacing = self._row_spacing(beat, with_header=True)
            held = most_held_up(job, self.rows, spacing)
        taken = ready + ranking_clocks(job, held) + delay_by_chance(job, held, spacing)
        done = held / config.units + config.row_queue_blocks - 1
        if config.terms:
            done += OUTPUT_ROWS / job.slots / config.units
        if done >= self.blocks:
            return 0.0
        left = self._clocks_left(done, beat, buffered)
        return self.last_rows(taken + RELEASE_CLOCKS + left)

    def ranked(self, first_block_end: float, rows_ready: float) -> float:
        """All rows are ranked, if the rankers hold up the farm in the beginning.

        The farm then goes on with beats that have come meanwhile, one a clock; if the memory is
        slower, it was held up by what did not fit into the reader's buffer alone.
        """
        job, config = self.job, self.config
        ready = first_block_end + pipeline_clocks(config)
        ready = max(ready, rows_ready - term_clocks(config))
        taken_all = ready + ranking_clocks(job, self.rows) - last_row_clocks(job, self.rows)
        beat = self.path.beat_cycles
        return max(
            taken_all + after_row_clocks(config),
            self._held_up(ready, 1.0, 0),
            self._held_up(ready, beat, config.outstanding_beats if beat > 1 else 0),
        )

    @property
    def _block_clocks(self) -> float:
        """Of the farm for a block of rows.

        Short ones are under way to the row queue longer than they take; each holds a place there.
        """
        config = self.config
        clocks = self.job.layout.row_beats * config.fold
        under_way = clocks + pipeline_clocks(config) - LOAD_CLOCKS + QUEUE_CLOCKS
        # One that begins is counted a clock later, so one place stays free.
        return max(clocks, under_way / (config.row_queue_blocks - 1))

    def _beats_before_body(self) -> int:
        """Before the first beat of weights."""
        hidden = 0 if self.channel else self.job.hidden_beats
        return hidden + self.first_header_beats

    def _computed_late(self, beats: int, window: int) -> float:
        """A folded farm's last sub-beat if it waits for what comes behind the first window.

        It has little work in the first window, which begins with hidden states and a header.
        """
        config, path = self.config, self.path
        if window + config.max_burst > config.outstanding_beats:
            freed = window + config.max_burst - config.outstanding_beats
            resumed = freed + path.latency_cycles + ROOM_CLOCKS
        else:
            freed = min(self.job.hidden_beats or config.max_burst, config.max_burst)
            resumed = freed + path.latency_cycles
        early = min(self.body_beats, max(0, window - self._beats_before_body()))
        work = config.fold * (self.body_beats - early)
        if path.pause_cycles:
            windows, left = divmod(beats - 1 - window, path.window_beats)
            period = path.window_beats * path.drain_cycles + path.pause_cycles
            work = max(work, windows * period + (left + 1) * path.drain_cycles)
        return self.first_beat + resumed + FIFO_CLOCKS + work - 1

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
        burst = config.max_burst
        late = ceil_div(hidden, burst) + ceil_div(ahead - hidden, burst) - self.most_outstanding
        if late >= 0:
            # The mask's address waits until the memory takes it.
            before = (hidden or burst) + late * burst
            asked = max(asked, self.first_address + self.path.latency_cycles + before)
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
        window = self._first_window()
        # A first job comes soon after the memory's reset, which its first refresh counts from.
        elapsed = SETUP_CYCLES + self.first_beat
        arrived = self.first_beat + self.path.cycles(beats, window, elapsed) - 1
        if config.fold == 1:
            passed = first_body + self.image_beats - self.first_header_beats - 1
            passed = max(passed, first_body + (self.blocks - 1) * self._block_clocks)
            stream_end = farm_end = max(arrived, passed)
            first_block = first_body + job.layout.row_beats - 1
        else:
            taken = max(first_body + FIFO_CLOCKS, ready)
            first_block = taken + config.fold * job.layout.row_beats - 1
            computed = taken + self.blocks * self._block_clocks - 1
            buffered = min(self.body_beats, config.body_fifo_beats + 2)
            passed = max(header + self.image_beats - 1, computed - config.fold * (buffered + 1))
            stream_end = max(arrived, passed)
            farm_end = max(computed, stream_end + FIFO_CLOCKS + config.fold - 1)
            if beats > window:
                farm_end = max(farm_end, self._computed_late(beats, window))
                stream_end = max(stream_end, farm_end - config.fold * (buffered + 1))
        rows_ready = max(rankers_ready_clock(job), self.mask_ready(hidden_end))
        rows_end = max(self.last_rows(farm_end), self.ranked(first_block, rows_ready))
        held = rows_end - self.last_rows(farm_end)
        return ChannelFlow(
            channel=self.channel,
            rows=self.rows,
            body_beats=self.body_beats,
            farm_clocks=self.blocks * self._block_clocks,
            stream_beats=job.read_beats(self.channel) - job.mask_beats(self.channel),
            path=self.path,
            first_address=self.first_address,
            arrived=arrived,
            stream_end=stream_end + held,
            rows_end=rows_end,
        )


def channel_flows(job: Job, system: System) -> list[ChannelFlow]:
    """The flows of the channels, of those that are alike only the first."""
    first = Channel(job, system, 0)
    hidden_end = first.hidden_end()
    # Channels have their tiles in turn. The first one reads the hidden states, the second is the
    # longest of the others, and the last tile may be short.
    used = min(job.config.channels, job.layout.tiles)
    last = (job.layout.tiles - 1) % job.config.channels
    others = [Channel(job, system, number) for number in sorted({1, last}) if 0 < number < used]
    return [channel.flow(hidden_end) for channel in (first, *others)]
