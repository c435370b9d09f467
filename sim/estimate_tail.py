"""How long a job takes once its rows are ranked: results collected, merged and written."""

from hw.config import MULTIPLIER_BITS, ceil_div
from hw.layout import LOGIT_BYTES, LOGITS_BEATS
from hw.logsumexp import WINDOW, LogSumExp
from hw.multiplier import WideMultiplier
from hw.results import RECORD_BYTES
from hw.trees import tree_levels
from hw.writer import PASSAGE_CLOCKS, REQUEST_CLOCKS, longest_write_burst
from sim.estimate_job import Job, System
from sim.estimate_rank import (
    BURST_GAP_CLOCKS,
    after_row_clocks,
    judging_clocks,
    written_beat_clocks,
)
from sim.memory.bandwidth import write_cycles, write_response_cycles

HAND_OVER_CLOCKS = 2
"""From the clock in which all rows are known to be ranked to that of the first `drain`."""
FIRST_ENTRY_CLOCKS = 2
"""From `drain` to the first entry of the list."""
MERGE_CLOCKS = {1: 2, 2: 3}
"""Of an entry in a tree of `hw.entries.EntryMerge`: of one level, of more."""
STORE_CLOCKS = 4
"""From the last entry that `hw.entries.EntryStore` takes to the first one that it gives."""
FIRST_WORD_CLOCKS = 6
"""From a command of the result block's part to its first word of 16 bytes."""
FLUSH_CLOCKS = 6
"""From the clock in which all rows are known to be ranked until the last beats of scores reach the
writer (`hw.logits`, `hw.write_arbiter`)."""
ANSWERED_CLOCKS = 1
"""From a last response until the writer says that it has nothing to do."""
COMMAND_CLOCKS = 2
"""By which a command reaches the writer's pins later than a beat, if there are few."""


def entries_clocks(job: Job) -> int:
    """From `drain` to the clock in which the entries of a vector are there."""
    config = job.config
    clocks = FIRST_ENTRY_CLOCKS + config.insert_interval * (job.k - 1) + 1
    if config.channels > 1:
        clocks += tree_levels(config.channels) + 1
    return clocks


def merge_clocks(job: Job) -> int:
    """From `drain` to the clock in which the log-sum-exp of a vector is there."""
    config = job.config
    if not config.logsumexp:
        return 0
    levels = tree_levels(config.channels)
    return 2 * LogSumExp.READ_LATENCY + config.channels + WINDOW + levels + 4


def record_clocks(job: Job) -> int:
    """Clocks of a record on its way into the result block."""
    config = job.config
    levels = min(2, tree_levels(config.channels))
    clocks = MERGE_CLOCKS[levels] if levels else 1
    if config.bound:
        clocks = max(clocks, WideMultiplier.latency_of(MULTIPLIER_BITS + 1) + 2)
    return clocks


def first_record_wait(job: Job) -> int:
    """Clocks that the first record comes later than the count if results are merged at once."""
    config = job.config
    levels = tree_levels(config.channels)
    clocks = STORE_CLOCKS + MERGE_CLOCKS[1] * levels
    if config.bound:
        clocks += WideMultiplier.latency_of(MULTIPLIER_BITS + 1) + 1
    if levels:
        clocks -= levels + 1
    return max(1, clocks - FIRST_WORD_CLOCKS - 1)


def response_cycles(job: Job, system: System, beats: int) -> float:
    """From the last beat of a burst to its response."""
    return write_response_cycles(system.memory, job.config.bus_bits, system.clock_hz, beats)


def write_clocks(
    job: Job, system: System, beats: int, word_clocks: int, first_wait: int | None = None
) -> float:
    """From the command to write a part of the result block to the clock in which it is answered."""
    bus_bytes = job.config.bus_bytes
    words = max(1, bus_bytes // RECORD_BYTES)
    beat_clocks = max(word_clocks * bus_bytes / RECORD_BYTES, 1)
    pushed = FIRST_WORD_CLOCKS + (words - 1) * word_clocks + (bus_bytes != RECORD_BYTES)
    if first_wait is not None:
        pushed += first_wait - word_clocks
    longest = longest_write_burst(job.config)
    bursts = -(-beats // longest)
    last = beats - (bursts - 1) * longest
    # A burst is requested clocks after its last beat came, and when the one before is sent. Which
    # of the two it is changes at most once from the first burst to the last but one.
    whole = bursts - 1
    sent = longest + BURST_GAP_CLOCKS
    requests = [pushed + (beats - 1) * beat_clocks + REQUEST_CLOCKS]
    if whole:
        first = pushed + (longest - 1) * beat_clocks + REQUEST_CLOCKS
        requests.append(first + whole * sent)
        last_whole = pushed + (whole * longest - 1) * beat_clocks
        requests.append(last_whole + REQUEST_CLOCKS + sent)
        # Or when the memory has taken the beats of all bursts before.
        port = (system.memory, job.config.bus_bits, system.clock_hz, job.config.channels)
        requests.append(first + longest + write_cycles(*port, whole * longest))
    all_sent = max(requests) + max(last, PASSAGE_CLOCKS)
    return all_sent + response_cycles(job, system, last) + ANSWERED_CLOCKS + 1


def write_port_clocks(job: Job, channel: int) -> float:
    """In which a channel's port takes all scores."""
    return job.logits_beats(channel) * written_beat_clocks(job.config)


def flush_clocks(job: Job, system: System, channel: int) -> float:
    """From the clock in which all rows are known to be ranked until their scores are written.

    What is left is the last part of a chunk of each ranker, or a whole one that just became full.
    """
    config = job.config
    rows = job.layout.channel_rows(channel)
    lanes = config.bus_bytes // LOGIT_BYTES
    left = last = 0
    late = FLUSH_CLOCKS
    for vectors, count in job.rankers_by_vectors:
        if not vectors or not count:
            continue
        scores = rows * vectors
        last = ceil_div(scores, lanes) % LOGITS_BEATS
        if not last:
            last = LOGITS_BEATS
            late -= 1
        elif scores % lanes:
            late += 2
        left += count * last
    first_request = late + max(left, COMMAND_CLOCKS)
    all_sent = first_request + max(last, PASSAGE_CLOCKS)
    return all_sent + response_cycles(job, system, last) + ANSWERED_CLOCKS


def last_insertion_clocks(job: Job) -> int:
    """What the first list waits for its last row, if no list is full so that all rows are kept."""
    config = job.config
    if job.layout.channel_rows(0) > job.k or job.all_logits:
        return 0
    judging = judging_clocks(config)
    begun = (job.slots - 1) * judging + after_row_clocks(config)
    return max(0, judging + config.insert_interval - begun - HAND_OVER_CLOCKS - FIRST_ENTRY_CLOCKS)


def tail_clocks(job: Job, system: System) -> float:
    """From the clock in which all rows are known to be ranked to the job's last one."""
    config = job.config
    clocks = HAND_OVER_CLOCKS + config.all_logits
    if job.all_logits:
        used = range(min(config.channels, job.layout.tiles))
        clocks += max(flush_clocks(job, system, channel) for channel in used)
    # Each command comes a clock after what it waited for was seen.
    collect, merge = entries_clocks(job), merge_clocks(job)
    wait = max(1, first_record_wait(job) - max(0, merge - collect))
    vector = max(collect, merge) + 1
    vector += write_clocks(job, system, job.record_beats, record_clocks(job), wait) + 1
    trailer = write_clocks(job, system, job.trailer_beats, 1) + 1
    clocks += last_insertion_clocks(job)
    return clocks + job.vectors * vector + trailer + config.job_queue
