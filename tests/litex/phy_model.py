"""A stand-in for LiteDRAM's PHY of the ECP5, with registers that have to be levelled.

LiteDRAM's model of the SDRAM (`SDRAMPHYModel`) answers always. This one puts in front of it what
the host has to get right: read data are those of the memory only while the mode registers hold what
the initialisation sequence loads, and, for each byte lane, only at the bitslip and the delays that
the simulation plants.
"""

from litedram.init import cmds, get_sdram_phy_init_sequence
from litedram.phy import dfi
from litedram.phy.model import SDRAMPHYModel
from litex.gen import LiteXModule
from litex.soc.interconnect.csr import CSR, CSRStatus, CSRStorage
from migen import Array, Cat, If, Mux, Replicate, Signal

TRANSFERS = 8
LOST = 0xA5
"""A byte that was shifted in from beyond the burst."""


class Windows(LiteXModule):
    """Where a byte lane reads right, as inputs."""

    def __init__(self):
        self.bitslip = Signal(2)
        self.first = Signal(3)
        self.last = Signal(3)
        self.strobe_first = Signal(3)
        self.strobe_last = Signal(3)


class _Lane(LiteXModule):
    """Bitslip and delay of a byte lane, and what they do to the data."""

    def __init__(self, phy, index: int, windows: Windows):
        self.i = [Signal(8) for _ in range(TRANSFERS)]
        self.o = [Signal(8) for _ in range(TRANSFERS)]
        self.strobed = Signal()

        selected = phy._dly_sel.storage[index]
        bitslip, delay = Signal(2), Signal(3)
        self.sync += [
            If(selected & phy._rdly_dq_bitslip.re, bitslip.eq(bitslip + 1)),
            If(selected & phy._rdly_dq_bitslip_rst.re, bitslip.eq(0)),
            If(selected & phy._rdly_dq_inc.re, delay.eq(delay + 1)),
            If(selected & phy._rdly_dq_rst.re, delay.eq(0)),
        ]
        # Wrong by 1 to 3 transfers.
        slipped, right = Signal(2), Signal()
        self.comb += [
            slipped.eq(bitslip - windows.bitslip),
            right.eq((delay >= windows.first) & (delay <= windows.last) & ~selected),
            self.strobed.eq((delay >= windows.strobe_first) & (delay <= windows.strobe_last)),
        ]
        stream = Array([*self.i, *(LOST for _ in range(3))])
        for transfer, byte in enumerate(self.o):
            shifted = Signal(8)
            self.comb += [
                shifted.eq(stream[transfer + slipped]),
                byte.eq(Mux(right, shifted, ~shifted)),
            ]


class LevelledPhy(LiteXModule):
    """The registers of `ECP5DDRPHY` in front of the SDRAM model.

    Parameters
    ----------
    settings : litedram.common.PhySettings
        Of `ECP5DDRPHY`.
    module : litedram.modules.SDRAMModule
    windows : list of Windows
        By byte lane.
    """

    def __init__(self, settings, module, windows):
        lanes = settings.databits // 8
        self._dly_sel = CSRStorage(lanes)
        self._rdly_dq_rst = CSR()
        self._rdly_dq_inc = CSR()
        self._rdly_dq_bitslip_rst = CSR()
        self._rdly_dq_bitslip = CSR()
        self._burstdet_clr = CSR()
        self._burstdet_seen = CSRStatus(lanes)

        self.settings = settings
        self.model = model = SDRAMPHYModel(module, settings)
        self.dfi = dfi.Interface(
            len(model.dfi.p0.address),
            len(model.dfi.p0.bank),
            settings.nranks,
            settings.dfi_databits,
            settings.nphases,
        )
        phases = self.dfi.phases
        self.comb += self.dfi.connect(model.dfi)

        # Data are written and read only where the commands say so, which the model does not need.
        write, read = Signal(), Signal()
        self.comb += [
            write.eq(_any(phase.wrdata_en for phase in phases)),
            read.eq(_any(phase.rddata_en for phase in phases)),
        ]
        writes = self._delayed(write, settings.write_latency)
        valid = self._delayed(read, settings.read_latency)
        ready = self._initialised(phases[0], module)
        found = Cat(*(phase.rddata for phase in model.dfi.phases))
        self.lanes = []
        given = [Signal(settings.databits) for _ in range(TRANSFERS)]
        for index in range(lanes):
            lane = _Lane(self, index, windows[index])
            self.add_module(f"lane{index}", lane)
            for transfer in range(TRANSFERS):
                byte = slice(8 * index, 8 * index + 8)
                start = settings.databits * transfer + 8 * index
                self.comb += [
                    lane.i[transfer].eq(found[start : start + 8]),
                    given[transfer][byte].eq(lane.o[transfer]),
                ]
            self.sync += [
                If(self._burstdet_clr.re, self._burstdet_seen.status[index].eq(0)),
                If(valid & ready & lane.strobed, self._burstdet_seen.status[index].eq(1)),
            ]
        bits = Cat(*given)
        width = settings.dfi_databits
        for number, phase in enumerate(phases):
            mask = model.dfi.phases[number].wrdata_mask
            self.comb += [
                phase.rddata_valid.eq(valid),
                phase.rddata.eq(Mux(ready, bits[number * width : (number + 1) * width], 0)),
                mask.eq(phase.wrdata_mask | Replicate(~writes, len(mask))),
            ]

    def _delayed(self, signal, cycles):
        for _ in range(cycles):
            later = Signal()
            self.sync += later.eq(signal)
            signal = later
        return signal

    def _initialised(self, phase, module):
        """Whether clock enable is on and the mode registers hold what they should."""
        sequence, _ = get_sdram_phy_init_sequence(self.settings, module.timing_settings)
        wanted = {bank: value for _, value, bank, command, _ in sequence
                  if command == cmds["MODE_REGISTER"]}  # fmt: skip
        right = []
        for bank, value in wanted.items():
            loaded = Signal()
            load = ~phase.cs_n & ~phase.ras_n & ~phase.cas_n & ~phase.we_n & phase.cke
            self.sync += If(load & (phase.bank == bank), loaded.eq(phase.address == value))
            right.append(loaded)
        ready = Signal()
        # In hardware control the controller drives CKE itself.
        self.comb += ready.eq(_all(right))
        return ready


def _any(signals):
    result = 0
    for signal in signals:
        result = result | signal
    return result


def _all(signals):
    result = 1
    for signal in signals:
        result = result & signal
    return result
