"""What can be wrong with the arguments of a job, found before anything is done."""

from functools import reduce
from operator import or_

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data

from hw.axi import bus_size
from hw.config import HeadConfig
from hw.reader import BEATS_BITS
from hw.register_map import Flag, flags
from hw.status import Status


def image_beats(config: HeadConfig, job: data.View, channel: int) -> Value:
    """Beats of a channel's part of the image."""
    return job[f"image{channel}_bytes"] >> bus_size(config.bus_bits)


def asks_for(config: HeadConfig, job: data.View, flag: Flag) -> Value:
    """Whether the job has a flag that the build knows; 0 where it does not."""
    return job.flags[flag.bit_length() - 1] if flag in flags(config) else Const(0)


def find_faults(m: Module, config: HeadConfig, job: data.View) -> dict[Status, Signal]:
    """Flip-flops that say what is wrong with `job`, in the order of codes.

    The size of an image is only checked against the shape of the job where it ends. A channel
    other than the first may have no tile and no byte.

    Parameters
    ----------
    job : View of job_layout(config)
        The flip-flops follow it a clock later.
    """
    size = bus_size(config.bus_bits)
    channels = range(config.channels)

    def misaligned(name):
        return job[name][:size].any()

    def any_of(conditions):
        return reduce(or_, conditions)

    alignment = [misaligned("hidden_address"), misaligned("result_address")]
    lengths = [image_beats(config, job, 0) == 0]
    for channel in channels:
        alignment.append(misaligned(f"image{channel}_address"))
        lengths.append(misaligned(f"image{channel}_bytes"))
        lengths.append((image_beats(config, job, channel) >> BEATS_BITS).any())
        if config.mask:
            mask = asks_for(config, job, Flag.MASK)
            alignment.append(mask & misaligned(f"mask{channel}_address"))
        if config.all_logits:
            logits = asks_for(config, job, Flag.LOGITS)
            alignment.append(logits & misaligned(f"logits{channel}_address"))

    def outside(value, limit):
        return (value == 0) | (value > limit) if limit > 1 else value != 1

    wrong = {
        Status.ROWS: outside(job.rows, config.max_rows),
        Status.DIM: outside(job.dim, config.max_dim),
        Status.K: outside(job.k, config.k),
        Status.VECTORS: outside(job.vectors, config.batch),
        Status.ALIGNMENT: any_of(alignment),
        Status.FORMAT: job.format != config.format_word,
        Status.LENGTH: any_of(lengths),
    }
    if flags(config):
        wrong[Status.FEATURE] = (job.flags & ~int(flags(config)) & 0xFFFF_FFFF).any()
    faults = {}
    for code, condition in wrong.items():
        faults[code] = Signal(name=f"fault_{code.name.lower()}", reset_less=True)
        m.d.sync += faults[code].eq(condition)
    return faults
