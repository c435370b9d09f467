"""Stands in for everything around the job control, and keeps a record of what it does."""

import random

from hw.axi import bus_size
from hw.counters import write_ports
from hw.register_map import Flag, flags
from hw.registers import job_layout
from hw.status import Status


class Delay:
    """A condition that is false after `start` for a number of clocks."""

    def __init__(self):
        self.left = 0

    def start(self, clocks):
        self.left = clocks

    def step(self):
        self.left -= self.left > 0

    @property
    def over(self):
        return self.left == 0


class Machine:
    """Readers, data path, rankers, result buffer and writers as far as the control sees them.

    Each takes a random number of clocks, `slowness` at most. Events go to `log`, in order.

    Parameters
    ----------
    dut : JobControl
    seed : int
    tiles : sequence of bool, optional
        Which channels have a tile. Default: all.

    Attributes
    ----------
    log : list of tuples
        ("begin",), ("read", channel, address, beats), ("mask", channel, address, beats),
        ("clear",), ("hand over", bank), ("drain", vector, bank, k), ("clear finish",),
        ("write", "records" or "trailer", address, beats), ("flush",), ("done", status),
        ("reset done",).
    errors : dict
        What to do wrong next: "read", "write" or "logits" (an error in their answer), "excess" or
        "short" (image too long or short), each with the channel. Taken out when it has happened.
    """

    HIDDEN_BEATS = 40
    MASK_BEATS = 3
    RECORD_BEATS = 5

    def __init__(self, dut, seed=0, slowness=12, tiles=None):
        self.dut = dut
        self.config = dut.config
        self.rng = random.Random(seed)
        self.slowness = slowness
        self.channels = self.config.channels
        self.tiles = tiles or [True] * self.channels
        self.log = []
        self.errors = {}
        self.plan = Delay()
        self.hidden = Delay()
        self.reads = [Delay() for _ in range(self.channels)]
        self.pending = [[] for _ in range(self.channels)]
        self.unpacked = [True] * self.channels
        self.excess = 0
        self.rows = Delay()
        self.rows_begun = True
        self.ready = [Delay(), Delay()]  # of the top-ks in either bank
        self.collect = Delay()
        self.merge = Delay()
        self.logits = Delay()
        self.writes = [Delay() for _ in range(write_ports(self.config))]
        self.failing_write = None
        self.commanded = None  # place in the log
        self.failing_logits = None
        self.flushed = False

    def _time(self):
        return self.rng.randint(1, self.slowness)

    def happened(self, kind):
        return [event for event in self.log if event[0] == kind]

    async def run(self, ctx):
        """A background testbench."""
        dut, config, rng = self.dut, self.config, self.rng
        segments = {f"read{c}": (f"read{c}", "read", c) for c in range(self.channels)}
        if config.mask:
            segments |= {
                f"mask_read{c}": (f"mask_read{c}", "mask", c) for c in range(self.channels)
            }
        for channel in range(self.channels):
            ctx.set(dut.plan[channel].hidden_beats, self.HIDDEN_BEATS)
            if config.mask:
                beats = self.MASK_BEATS if self.tiles[channel] else 0
                ctx.set(dut.plan[channel].mask_beats, beats)
        ctx.set(dut.record_beats, self.RECORD_BEATS)
        while True:
            self._drive(ctx)
            readies = {}
            for name in [*segments, "write"]:
                readies[name] = rng.random() < 0.5 or ctx.get(dut.read_abort)
                ctx.set(getattr(dut, name).ready, readies[name])
            self._watch(ctx, segments, readies)
            await ctx.tick()

    def _drive(self, ctx):
        """Set all inputs for this clock."""
        dut, config = self.dut, self.config
        for delay in (
            self.plan,
            self.hidden,
            *self.reads,
            self.rows,
            *self.ready,
            self.collect,
            self.merge,
            self.logits,
            *self.writes,
        ):
            delay.step()
        ctx.set(dut.plan_ready, self.plan.over)
        ctx.set(dut.hidden_ready, self.hidden.over)
        read_error = 0
        for channel in range(self.channels):
            idle = self.reads[channel].over
            if self.reads[channel].left == 1 and self.errors.get("read") == channel:
                del self.errors["read"]
                read_error |= 1 << channel
            if idle and self.pending[channel]:
                if self.errors.get("excess") == channel and len(self.pending[channel]) == 2:
                    del self.errors["excess"]
                    self.excess |= 1 << channel
                last = len(self.pending[channel]) == (2 if channel == 0 else 1)
                if last:
                    if self.errors.get("short") == channel:
                        del self.errors["short"]
                    else:
                        self.unpacked[channel] = True
                    self.pending[channel] = []
            if not self.tiles[channel] and self.plan.over and self.rows_begun:
                self.unpacked[channel] = True
        ctx.set(dut.read_error, read_error)
        ctx.set(dut.excess, self.excess)
        ctx.set(dut.unpacked, sum(done << c for c, done in enumerate(self.unpacked)))
        ctx.set(dut.read_idle, sum(read.over << c for c, read in enumerate(self.reads)))
        ctx.set(dut.image_idle, sum(read.over << c for c, read in enumerate(self.reads)))
        if not all(self.unpacked):
            self.rows.start(self._time())
        ctx.set(dut.rows_done, self.rows.over)
        ctx.set(dut.drain_ready, self.ready[ctx.get(dut.drain_bank)].over)
        ctx.set(dut.collected, self.collect.over)
        if config.logsumexp:
            ctx.set(dut.merged, self.merge.over)
        write_error = 0
        if self.failing_write is not None and self.writes[0].left == 1:
            write_error |= 1
            self.failing_write = None
        if self.failing_logits is not None and self.writes[self.failing_logits].left == 1:
            write_error |= 1 << self.failing_logits
            self.failing_logits = None
        ctx.set(dut.write_error, write_error)
        ctx.set(dut.write_idle, sum(write.over << n for n, write in enumerate(self.writes)))
        if config.all_logits:
            done = self.flushed and self.logits.over
            ctx.set(dut.logits_done, (1 << self.channels) - 1 if done else 0)

    def _watch(self, ctx, segments, readies):
        """Record what this clock's edge does and let the blocks begin."""
        dut, config, log = self.dut, self.config, self.log
        if ctx.get(dut.clear):
            log.append(("clear",))
            if config.all_logits and ctx.get(dut.write_logits):
                assert ctx.get(dut.write_abort)
            self.pending = [[] for _ in range(self.channels)]
            self.unpacked = [True] * self.channels
            self.excess = 0
        if ctx.get(dut.clear_finish):
            log.append(("clear finish",))
            # Nothing may reach a writer from what is being reset.
            if config.job_queue:
                assert ctx.get(dut.write_abort)
            self.collect.start(0)
            self.merge.start(0)
        if ctx.get(dut.begin):
            log.append(("begin",))
        if ctx.get(dut.start_plan):
            self.plan.start(1 + 4 * self._time())
            if config.batch > 1:
                self.hidden.start(self._time())
            self.ready[ctx.get(dut.bank)].start(20 * self._time())
            self.rows_begun = False
            self.flushed = False
            self.rows.start(self._time())
        if ctx.get(dut.start_data):
            assert self.hidden.left <= 1
            self.unpacked = [False] * self.channels
            self.rows_begun = True
        aborting = ctx.get(dut.read_abort)
        for name, kind, channel in segments.values():
            port = getattr(dut, name)
            if ctx.get(port.valid) and readies[name] and not aborting:
                if kind == "mask":
                    assert self.plan.left <= 1
                address, beats = ctx.get(port.payload.address), ctx.get(port.payload.beats)
                assert beats
                log.append((kind, channel, address, beats))
                if kind == "read":
                    self.pending[channel].append(beats)
                self.reads[channel].start(max(self.reads[channel].left, 1 + 3 * self._time()))
        if ctx.get(dut.hand_over):
            log.append(("hand over", ctx.get(dut.bank)))
        if ctx.get(dut.drain):
            assert self.ready[ctx.get(dut.drain_bank)].over
            log.append(
                ("drain", ctx.get(dut.drain_vector), ctx.get(dut.drain_bank), ctx.get(dut.drain_k))
            )
            self.collect.start(1 + self._time())
            if config.logsumexp:
                self.merge.start(1 + self._time())
        if config.all_logits and ctx.get(dut.logits_flush) and not self.flushed:
            log.append(("flush",))
            self.flushed = True
            self.logits.start(self._time())
            for number, write in enumerate(self.writes):
                write.start(self.logits.left + self._time())
                if self.errors.get("logits") == number:
                    del self.errors["logits"]
                    self.failing_logits = number
        # What was commanded is sent a clock later.
        records, trailer = ctx.get(dut.send_records), ctx.get(dut.send_trailer)
        assert records + trailer == (self.commanded is not None)
        if self.commanded is not None:
            log[self.commanded] = (
                "write",
                "records" if records else "trailer",
                *log[self.commanded][2:],
            )
            self.commanded = None
        if ctx.get(dut.write.valid) and readies["write"] and not ctx.get(dut.write_abort):
            address = ctx.get(dut.write.payload.address)
            beats = ctx.get(dut.write.payload.beats)
            assert self.collect.over and self.merge.over and self.writes[0].over
            self.commanded = len(log)
            log.append(("write", None, address, beats))
            self.writes[0].start(1 + self._time())
            if "write" in self.errors:
                del self.errors["write"]
                self.failing_write = True
        if ctx.get(dut.done):
            log.append(("done", Status(ctx.get(dut.status))))
        if ctx.get(dut.reset_done):
            log.append(("reset done",))


def arguments(config, rng, tiles=None, **changes) -> dict[str, int]:
    """The arguments of a good job, with `changes`."""
    size = bus_size(config.bus_bits)
    job = {
        "rows": rng.randint(1, config.max_rows),
        "dim": rng.randint(1, config.max_dim),
        "k": rng.randint(1, config.k),
        "vectors": rng.randint(1, config.batch),
        "format": config.format_word,
    }
    if flags(config):
        job["flags"] = rng.choice([flag for flag in range(4) if not flag & ~flags(config)])
    for name in job_layout(config).members:
        if name.endswith("_address"):
            job[name] = rng.getrandbits(64 - size) << size
        elif name.endswith("_bytes"):
            job[name] = rng.randint(1, 1000) << size
    for channel, has_tile in enumerate(tiles or []):
        if not has_tile:
            job[f"image{channel}_bytes"] = 0
    return job | changes


def expected_reads(config, job, tiles=None) -> dict:
    """What a job reads, per channel: its commands and, apart, those of the mask."""
    size = bus_size(config.bus_bits)
    mask = config.mask and job["flags"] & Flag.MASK
    reads = {}
    for channel in range(config.channels):
        image = job[f"image{channel}_address"], job[f"image{channel}_bytes"] >> size
        hidden = [(job["hidden_address"], Machine.HIDDEN_BEATS)] if channel == 0 else []
        reads["read", channel] = hidden + ([image] if image[1] else [])
        wanted = mask and (tiles is None or tiles[channel])
        reads["mask", channel] = (
            [(job[f"mask{channel}_address"], Machine.MASK_BEATS)] if wanted else []
        )
    return reads
