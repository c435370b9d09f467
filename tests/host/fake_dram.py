"""LiteDRAM's registers with a DRAM behind them whose byte lanes have to be levelled, in Python."""

from dataclasses import dataclass

LANES = 2
TRANSFERS = 8
PHASE_BITS = 64
LOADS = {2: 0x200, 3: 0, 1: 0x6, 0: 0x320}
"""Mode registers and what is to be loaded, in this order."""

_STEPS = [
    {"control": 0xC, "delay": 500},
    {"control": 0xE, "delay": 100},
    *({"command": 0xF, "bank": bank, "address": value} for bank, value in LOADS.items()),
    {"command": 0x3, "address": 0x400, "delay": 20},
]
CONSTANTS = {
    "sdram_phases": 2,
    "sdram_rdphase": 0,
    "sdram_wrphase": 1,
    "sdram_databits": 8 * LANES,
    "sdram_bitslips": 4,
    "sdram_delays": 8,
    "sdram_init_steps": len(_STEPS),
} | {
    f"sdram_init{index}_{name}": step.get(name, 0)
    for index, step in enumerate(_STEPS)
    for name in ("address", "bank", "control", "command", "delay")
}


@dataclass
class Lane:
    """A byte lane: where it reads right and sees the strobe, and where it is set."""

    bitslip: int
    delays: range
    strobes: range = range(8)
    set_bitslip: int = 3
    set_delay: int = 5

    def read(self, data: bytes) -> bytes:
        slipped = (self.set_bitslip - self.bitslip) % 4
        seen = (data + b"\xa5\xa5\xa5")[slipped:][:TRANSFERS]
        if self.set_delay not in self.delays:
            seen = bytes(byte ^ 0xFF for byte in seen)
        return seen


class FakeDram:
    """See `host.litex.levelling.Csr`."""

    name = "board"

    def __init__(self, lanes: list[Lane]):
        self.lanes = lanes
        self.values = {}
        self.loads = []
        self.waited = []
        self.cell = bytes(LANES * TRANSFERS)
        self.found = bytes(LANES * TRANSFERS)
        self.row_open = False
        self.strobed = 0

    def constant(self, name: str) -> int:
        return CONSTANTS[name]

    def wait(self, cycles: int) -> None:
        self.waited.append((cycles, self.values.get("sdram_dfii_control")))

    def read(self, name: str) -> int:
        if name == "ddrphy_burstdet_seen":
            return self.strobed
        phase = int(name.removeprefix("sdram_dfii_pi").removesuffix("_rddata"))
        return int.from_bytes(self.found, "little") >> PHASE_BITS * phase & (1 << PHASE_BITS) - 1

    def write(self, name: str, value: int) -> None:
        self.values[name] = value
        selected = self.values.get("ddrphy_dly_sel", 0)
        for index, lane in enumerate(self.lanes):
            if not selected >> index & 1:
                continue
            match name:
                case "ddrphy_rdly_dq_rst":
                    lane.set_delay = 0
                case "ddrphy_rdly_dq_inc":
                    lane.set_delay = (lane.set_delay + 1) % 8
                case "ddrphy_rdly_dq_bitslip_rst":
                    lane.set_bitslip = 0
                case "ddrphy_rdly_dq_bitslip":
                    lane.set_bitslip = (lane.set_bitslip + 1) % 4
        if name == "ddrphy_burstdet_clr":
            self.strobed = 0
        if name.endswith("_command_issue"):
            self._issue(name.removesuffix("_command_issue"))

    def _issue(self, port: str) -> None:
        command = self.values[f"{port}_command"]
        assert command & 1, "a command without chip select"
        match command & 0xF:
            case 0xF:
                self.loads.append((self.values[f"{port}_baddress"], self.values[f"{port}_address"]))
            case 0x9:
                self.row_open = True
            case 0xB:
                self.row_open = False
            case 0x7 if port == "sdram_dfii_pi1" and command & 0x10 and self.row_open:
                data = self.values["sdram_dfii_pi1_wrdata"] << PHASE_BITS
                data |= self.values["sdram_dfii_pi0_wrdata"]
                self.cell = data.to_bytes(LANES * TRANSFERS, "little")
            case 0x5 if port == "sdram_dfii_pi0" and command & 0x20 and self.row_open:
                self._read()

    def _read(self) -> None:
        found = bytearray(LANES * TRANSFERS)
        for index, lane in enumerate(self.lanes):
            found[index::LANES] = lane.read(self.cell[index::LANES])
            self.strobed |= (lane.set_delay in lane.strobes) << index
        # Stopped lanes, or wrong mode registers, give nothing.
        stopped = self.values.get("ddrphy_dly_sel", 0)
        ready = self.loads[-4:] == list(LOADS.items())
        self.found = bytes(found) if ready and not stopped else bytes(LANES * TRANSFERS)
