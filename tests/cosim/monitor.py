"""Recounts the counters of a job from the pins and from the reader's output stream alone."""

import cocotb
from cocotb.triggers import RisingEdge

from hw.register_map import OFFSETS, Control

START_EDGES = 3
"""Edges from the end of the write of START to the one at which the job is accepted."""
INTERRUPT_EDGES = 2
"""Edges from the one at which the job ends to the first at which the interrupt is seen."""

# Bits of `simulation.watched`.
ARVALID, ARREADY, RVALID, RREADY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
WVALID, WREADY, STREAM_VALID, STREAM_READY = 1 << 4, 1 << 5, 1 << 6, 1 << 7
INTERRUPT, LITE_AW, LITE_W = 1 << 8, 1 << 9, 1 << 10


class Monitor:
    """Watches one job, from before its start until its interrupt."""

    def __init__(self, device):
        self.dut = device.dut
        self.bus_bytes = device.config.bus_bytes
        self.started = None
        self.ended = None
        self.first_address = None
        self.first_data = None
        self.beats = 0
        self.written = 0
        self.address_waits = 0
        self.outstanding = 0
        self.most_outstanding = 0
        self.bursts = []
        # From the first ARVALID on: [beats, refused, waits], and the same as of the last beat.
        self.stream = None
        self.stream_at_last = [0, 0, 0]
        self.rready_low = 0
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
            self._memory(edge, now)

    def _memory(self, edge, now):
        if not now & RREADY:
            self.rready_low += 1
        if now & ARVALID:
            if self.stream is None:
                self.stream = [0, 0, 0]
            if now & ARREADY:
                length = int(self.dut.m_axi_gmem0_arlen.value) + 1
                self.bursts.append((int(self.dut.m_axi_gmem0_araddr.value), length))
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

    async def counters(self) -> dict[str, int]:
        """The counters as they should be, but for those of the top-k."""
        await self._task
        latency = 0 if self.first_data is None else self.first_data - self.first_address
        beats, refused, waits = self.stream_at_last
        return {
            "cycles": self.ended - self.started,
            "data_beats": self.beats,
            "stream_beats": beats,
            "refused_cycles": refused,
            "wait_cycles": waits,
            "address_wait_cycles": self.address_waits,
            "first_data_latency_cycles": latency,
            "max_outstanding_bytes": self.most_outstanding * self.bus_bytes,
            "bytes_written": self.written * self.bus_bytes,
        }
