"""The accelerator's registers by name."""

from host.device import Device
from hw.register_map import OFFSETS, counter_registers

STATUS_REGISTERS = ("CONTROL", "ISR", "RESET", "STATUS", "ERRORS", "JOBS")


class Registers:
    """Registers of a device, by the names of `hw.register_map`."""

    def __init__(self, device: Device):
        self.device = device

    def read(self, name: str) -> int:
        """A register of 32 bits."""
        return self.device.read_register(OFFSETS[name])

    def write(self, name: str, value: int) -> None:
        """Write a register of 32 bits."""
        self.device.write_register(OFFSETS[name], int(value))

    def write_wide(self, name: str, value: int) -> None:
        """Write the pair of registers of a value of 64 bits."""
        self.write(f"{name}_LO", value & 0xFFFF_FFFF)
        self.write(f"{name}_HI", value >> 32)

    def read_counter(self, name: str) -> int:
        """A counter of 64 bits."""
        low, high = counter_registers(name)
        # The high word is latched by the read of the low one.
        value = self.read(low)
        return value | self.read(high) << 32

    def status_line(self) -> str:
        """The status registers as text for messages."""
        return ", ".join(f"{name} {self.read(name):#x}" for name in STATUS_REGISTERS)
