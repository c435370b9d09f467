"""Recounts the counters of a job from the pins and from the readers' output streams alone."""

import cocotb
from cocotb.triggers import RisingEdge

from hw.register_map import OFFSETS, Control
from tests.cosim.jobs import Job

START_EDGES = 3
"""Edges from the end of the write of START to the one at which the job is accepted."""
INTERRUPT_EDGES = 2
"""Edges from the one at which the job ends to the first at which the interrupt is seen."""

# Bits of `simulation.watched`: those of all channels, and those of one.
INTERRUPT, LITE_AW, LITE_W = 1 << 0, 1 << 1, 1 << 2
SHARED_BITS = 3
ARVALID, ARREADY, RVALID, RREADY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
WVALID, WREADY, STREAM_VALID, STREAM_READY = 1 << 4, 1 << 5, 1 << 6, 1 << 7
CHANNEL_BITS = 8


class ChannelMonitor:
    """Watches the memory port and the reader of one channel.

    Parameters
    ----------
    dut
        The module ``simulation``.
    number : int
        The channel.
    mask : range
        Addresses of its mask, whose bursts are no part of the reader's output stream.
    """

    def __init__(self, dut, number: int, mask: range):
        self._araddr = getattr(dut, f"m_axi_gmem{number}_araddr")
        self._arlen = getattr(dut, f"m_axi_gmem{number}_arlen")
        self.mask = mask
        self.first_address = None
        self.first_data = None
        self.beats = 0
        self.written = 0
        self.address_waits = 0
        self.outstanding = 0
        self.most_outstanding = 0
        self.bursts = []
        # From the stream's first ARVALID on: [beats, refused, waits], and the same as of its last
        # beat.
        self.stream = None
        self.stream_at_last = [0, 0, 0]
        self.rready_low = 0

    def clock(self, edge: int, now: int) -> None:
        """A clock edge, and the channel's bits of `watched` before it."""
        if not now & RREADY:
            self.rready_low += 1
        if now & ARVALID:
            if self.stream is None and int(self._araddr.value) not in self.mask:
                self.stream = [0, 0, 0]
            if now & ARREADY:
                length = int(self._arlen.value) + 1
                self.bursts.append((int(self._araddr.value), length))
                self.outstanding += length
                if self.first_address is None:
                    self.first_address = edge
            else:
                self.address_waits += 1
        if now & RVALID and now & RREADY:
            self.beats += 1
            self.outstanding -= 1
            if self.first_data is None:
                self.first_data = edge
        self.most_outstanding = max(self.most_outstanding, self.outstanding)
        if now & WVALID and now & WREADY:
            self.written += 1
        if self.stream is not None:
            if not now & STREAM_VALID:
                self.stream[2] += 1
            elif not now & STREAM_READY:
                self.stream[1] += 1
            else:
                self.stream[0] += 1
                self.stream_at_last = list(self.stream)

    def counters(self, bus_bytes: int) -> dict[str, int]:
        latency = 0 if self.first_data is None else self.first_data - self.first_address
        beats, refused, waits = self.stream_at_last
        return {
            "data_beats": self.beats,
            "stream_beats": beats,
            "refused_cycles": refused,
            "wait_cycles": waits,
            "address_wait_cycles": self.address_waits,
            "first_data_latency_cycles": latency,
            "max_outstanding_bytes": self.most_outstanding * bus_bytes,
        }


class Monitor:
    """Watches one job, from before its start until its interrupt; one that has not ended yet must
    not write at the same time.
    """

    def __init__(self, device, job: Job):
        self.dut = device.dut
        self.bus_bytes = device.config.bus_bytes
        self.started = None
        self.ended = None
        self.channels = []
        for number in range(device.config.channels):
            mask = range(0)
            if job.allowed is not None:
                start = job.argument(f"MASK{number}_ADDR")
                mask = range(start, start + len(job.mask_bytes(number)))
            self.channels.append(ChannelMonitor(self.dut, number, mask))
        self.ports = device.ports
        for port in self.ports:
            port.record(1, 1)
        self._task = cocotb.start_soon(self._watch())

    async def _watch(self):
        dut = self.dut
        edge = 0
        offset = data = None
        clock = RisingEdge(dut.ap_clk)
        while self.ended is None:
            await clock
            edge += 1
            now = int(dut.watched.value)
            if now & LITE_AW:
                offset = int(dut.s_axi_control_awaddr.value)
            if now & LITE_W:
                data = int(dut.s_axi_control_wdata.value)
            if offset is not None and data is not None:
                if offset == OFFSETS["CONTROL"] and data & Control.START:
                    self.started = edge + START_EDGES
                offset = data = None
            if now & INTERRUPT:
                self.ended = edge - INTERRUPT_EDGES
            now >>= SHARED_BITS
            for channel in self.channels:
                channel.clock(edge, now)
                now >>= CHANNEL_BITS

    async def check(self, job: Job, counted: dict[str, int]) -> None:
        """The accelerator's counters of a job that succeeded are what was seen."""
        expected = await self.counters()
        expected |= {"rows": job.head.layout.rows * job.count, "insertions": job.insertions()}
        wrong = {
            name: (value, counted[name])
            for name, value in expected.items()
            if counted[name] != value
        }
        assert expected.keys() == counted.keys()
        assert not wrong, f"counters that differ (expected, counted): {wrong}"
        for channel, port in zip(self.channels, self.ports, strict=True):
            totals = port.recording().totals
            recorded = [
                totals[name] for name in ("data", "write_beats", "address_waiting", "refused")
            ]
            assert recorded == [channel.beats, channel.written, channel.address_waits, 0]

    async def counters(self) -> dict[str, int]:
        """The counters as they should be, but for those of the top-k."""
        await self._task
        counters = {
            "cycles": self.ended - self.started,
            "bytes_written": sum(channel.written for channel in self.channels) * self.bus_bytes,
        }
        for number, channel in enumerate(self.channels):
            for name, value in channel.counters(self.bus_bytes).items():
                counters[f"{name}{number}"] = value
        return counters
