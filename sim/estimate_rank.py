"""How fast a ranker takes rows: those its lists keep, and those they do not.

Rows come in random order, so that row v enters a list of the best k with a chance of k / v.
"""

from math import log

from hw.buffer import StreamBuffer
from hw.config import MULTIPLIER_BITS, HeadConfig
from hw.exp2 import Exp2
from hw.fifo import StreamFIFO
from hw.log2 import Log2Scaler
from hw.multiplier import WideMultiplier
from hw.writer import longest_write_burst
from sim.estimate_job import Job

ACCUMULATE_CLOCKS = 6
"""From the mantissa of a log-sum-exp's last row to its `idle`."""
BURST_GAP_CLOCKS = 1
"""Between the beats of two bursts of `hw.writer.Writer`."""
PARABOLIC_MAXIMUM = 0.996
"""Mean of the maximum of W(t) - t^2, W a two-sided Brownian motion (Groeneboom 1989)."""


def term_clocks(config: HeadConfig) -> int:
    """From a row that leaves the queue to the ranker's lists."""
    if not config.terms:
        return StreamBuffer.LATENCY
    product = WideMultiplier.latency_of(MULTIPLIER_BITS + 1)
    return 2 * StreamBuffer.LATENCY + product + config.terms + StreamFIFO.LATENCY


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


def written_beat_clocks(config: HeadConfig) -> float:
    """Of a beat that is written among many, with its part of the gap between bursts."""
    return 1 + BURST_GAP_CLOCKS / longest_write_burst(config)


def row_clocks(job: Job) -> float:
    """In which a ranker takes a row that no list keeps, for all of its vectors."""
    clocks = job.slots * judging_clocks(job.config)
    if job.all_logits:
        clocks = max(clocks, job.logits_beats_per_row * written_beat_clocks(job.config))
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
    begun = (job.slots - 1) * judging_clocks(job.config)
    return row_clocks(job) - begun + chance * insertion_clocks(job)


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
