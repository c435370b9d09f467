"""Runs the reader against a Python memory; addresses and sizes in bytes."""

from amaranth.hdl import Const

from hw.config import HeadConfig
from hw.reader import Reader

from .axi_memory import ReadMemory, expected_bursts, pattern
from .streams import HandshakeChecker, StreamMonitor, receiver, sender, simulate, stalls

HIGH = 0x1_2345_6000
"""An address above 4 GiB."""
MASK = 0x100_0000_0000
"""The mask's segments are the only ones from here on."""
MASK_END = 0x200_0000_0000


def is_mask(address):
    return MASK <= address < MASK_END


def config(bus_bits=64, max_burst=16, outstanding_beats=64, mask=False):
    return HeadConfig(
        bus_bits=bus_bits,
        max_burst=max_burst,
        outstanding_bytes=outstanding_beats * bus_bits // 8,
        max_dim=64,
        mask=mask,
    )


def expected_beats(segments, bus_bits):
    step = bus_bits // 8
    return [
        pattern(address + beat * step, bus_bits)
        for address, beats in segments
        for beat in range(beats)
    ]


class Recount:
    """Counts every event of a reader anew from its pins, each clock.

    Attributes
    ----------
    most_reserved, most_mask_reserved : int
        Most beats requested and not yet taken, of either stream.
    masks : list of (int, int, int)
        Of each burst of the mask the clocks in which ARVALID rose, its address was accepted and
        its last beat came.
    """

    def __init__(self, reader):
        self.reader = reader
        self.most_reserved = self.most_mask_reserved = 0
        self.data = self.refused = self.waiting = self.active = self.errors = 0
        self.masks = []

    def _stream_pins(self, command, output):
        reader = self.reader
        if not hasattr(reader, command):
            return [Const(0)] * 6
        command, output = getattr(reader, command), getattr(reader, output)
        return [
            command.valid,
            command.ready,
            command.payload.beats,
            output.valid,
            output.ready,
            output.payload,
        ]

    async def run(self, ctx):
        reader = self.reader
        checkers = HandshakeChecker("o"), HandshakeChecker("mask_o")
        commanded, requested, taken = [0, 0], [0, 0], [0, 0]
        expected = []  # of every beat that is outstanding whether it is the mask's
        was_requested = begun = False
        pins = [
            reader.arvalid,
            reader.arready,
            reader.arlen,
            reader.araddr,
            reader.rvalid,
            reader.rresp,
            reader.outstanding_beats,
            reader.idle,
            reader.active,
            reader.beat,
            reader.address,
            reader.address_wait,
            reader.error,
            *self._stream_pins("command", "o"),
            *self._stream_pins("mask_command", "mask_o"),
        ]
        cycle = 0
        async for _, _, *sample in ctx.tick().sample(*pins):
            ar_valid, ar_ready, ar_len, ar_address, r_valid, r_resp = sample[:6]
            outstanding, idle, active = sample[6:9]
            streams = sample[13:19], sample[19:]
            masked = is_mask(ar_address)
            if ar_valid and not was_requested:
                requested[masked] += ar_len + 1
                if masked:
                    assert all(len(clocks) == 3 for clocks in self.masks), f"two in {cycle}"
                    self.masks.append([cycle])
            was_requested = ar_valid and not ar_ready
            begun |= bool(ar_valid) and not masked
            self.most_reserved = max(self.most_reserved, requested[0] - taken[0])
            self.most_mask_reserved = max(self.most_mask_reserved, requested[1] - taken[1])
            assert self.most_reserved <= reader.config.outstanding_beats, f"credits in {cycle}"
            assert self.most_mask_reserved <= 32, f"credits of the mask in {cycle}"
            assert outstanding == len(expected)
            assert idle == (commanded == taken)
            assert active == (begun and commanded[0] > taken[0]), f"active in {cycle}"
            events = (r_valid, ar_valid and ar_ready, ar_valid and not ar_ready, r_valid and r_resp)
            assert tuple(sample[9:13]) == tuple(bool(event) for event in events)
            begun = bool(active)
            _, _, _, o_valid, o_ready, _ = streams[0]
            self.active += active
            if active:
                self.data += o_valid and o_ready
                self.refused += o_valid and not o_ready
                self.waiting += not o_valid
            self.errors += bool(events[3])
            if r_valid and expected.pop(0) and not any(expected):
                self.masks[-1].append(cycle)
            if ar_valid and ar_ready:
                expected += [masked] * (ar_len + 1)
                if masked:
                    self.masks[-1].append(cycle)
            for number, (c_valid, c_ready, beats, *output) in enumerate(streams):
                commanded[number] += beats if c_valid and c_ready else 0
                taken[number] += checkers[number].step(cycle, *output)
            cycle += 1


def commands_of(segments):
    return [{"address": address, "beats": beats} for address, beats in segments]


def run(
    settings, segments, latency=8, kind="none", responses=None, masks=(), mask_go=None, **options
):
    """Read `segments` and those of the mask, all channels stalled in the same manner.

    Returns the memory, the streams that came out and the recount.
    """
    reader = Reader(settings)
    memory = ReadMemory(
        reader,
        settings.bus_bits,
        latency,
        address_go=stalls(kind, 1),
        data_go=stalls(kind, 2),
        responses=responses,
    )
    outputs = [StreamMonitor(reader.o)]
    recount = Recount(reader)
    benches = [
        sender(reader.command, commands_of(segments), stalls(kind, 3)),
        receiver(reader.o, sum(beats for _, beats in segments), stalls(kind, 4)),
    ]
    if settings.mask:
        outputs.append(StreamMonitor(reader.mask_o))
        go = stalls(kind, 6) if mask_go is None else mask_go
        benches += [
            sender(reader.mask_command, commands_of(masks), stalls(kind, 5)),
            receiver(reader.mask_o, sum(beats for _, beats in masks), go),
        ]
    simulate(
        reader,
        *benches,
        background=[memory.run, recount.run, *(output.run for output in outputs)],
        **options,
    )
    limits = settings.max_burst, min(16, settings.max_burst)
    for number, stream_segments in enumerate((segments, masks)):
        if stream_segments:
            expected = expected_beats(stream_segments, settings.bus_bits)
            assert outputs[number].words == expected
        bursts = [
            burst
            for address, beats in stream_segments
            for burst in expected_bursts(address, beats, settings.bus_bytes, limits[number])
        ]
        requested = [b for b in memory.bursts if is_mask(b.address) == bool(number)]
        assert [(burst.address, burst.beats) for burst in requested] == bursts
    return memory, outputs, recount


def no_new_request(reader):
    """A testbench that checks that no ARVALID rises while abort is high."""

    async def watch(ctx):
        allowed = True
        pins = ctx.tick().sample(reader.arvalid, reader.arready, reader.abort)
        async for _, _, valid, ready, abort in pins:
            assert allowed or not valid
            allowed = not abort or (valid and not ready)

    return watch
