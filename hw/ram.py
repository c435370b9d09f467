"""On-chip memory with a registered output."""

from amaranth.hdl import Cat, ClockSignal, Const, Instance, Module, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hw.config import ceil_div
from hw.family import is_ecp5

_DP16KD_SHAPES = {512: 36, 1024: 18, 2048: 9, 4096: 4, 8192: 2, 16384: 1}
"""Word width of the ECP5's block RAM by its depth."""

LUT_RAM_WORDS = 16
"""Words of the RAM of an ECP5's slice: block RAMs for so few, however wide, are nearly empty."""
LEAST_BLOCK_BITS = 4096
"""Smallest memory that is worth a block RAM."""


def ram_style(width: int, depth: int) -> str:
    """What a memory of `depth` words of `width` bits is made of, as the attribute of that name.

    It is told to synthesis: on its own each tool chooses differently.
    """
    worth = depth > LUT_RAM_WORDS and width * depth >= LEAST_BLOCK_BITS
    return "block" if worth else "distributed"


MEMORIES = ("block", "auto")


class BlockRAM(wiring.Component):
    """One write port, one read port, two clocks from address to data.

    The second clock is a register behind the memory: a block RAM alone takes most of a period to
    deliver its word. Each of the two has an enable; without it, it keeps its word. Reading an
    address in the clock in which it is written gives an undefined word; no block uses such a one.

    Parameters
    ----------
    width : int
        Bits per word.
    depth : int
        Words.
    memory : "block" or "auto"
        Block RAM in any case, or what `ram_style` says.

    Members
    -------
    write_address, write_data, write_enable : In
    read_address : In
    read_enable, output_enable : In
        High unless driven: the memory is read in this clock; its word of the clock before goes
        into the output register.
    read_data : Out
        The word at `read_address` of two clocks ago.

    Raises
    ------
    ValueError
        A parameter is out of its range.
    """

    LATENCY = 2

    def __init__(self, width: int, depth: int, memory: str = "block"):
        if width < 1 or depth < 1:
            raise ValueError(f"width and depth must be at least 1, got {width} and {depth}")
        if memory not in MEMORIES:
            raise ValueError(f"memory must be one of {', '.join(MEMORIES)}, got {memory!r}")
        self.width = width
        self.depth = depth
        self.style = "block" if memory == "block" else ram_style(width, depth)
        super().__init__(
            {
                "write_address": In(range(max(2, depth))),
                "write_data": In(width),
                "write_enable": In(1),
                "read_address": In(range(max(2, depth))),
                "read_enable": In(1, init=1),
                "output_enable": In(1, init=1),
                "read_data": Out(width),
            }
        )

    def elaborate(self, platform):
        m = Module()
        if is_ecp5(platform) and self.style == "block" and self.depth <= max(_DP16KD_SHAPES):
            self._add_dp16kd(m)
            return m
        # `no_rw_check`: no bypass is needed: no word is used that is read while it is written.
        attrs = {"no_rw_check": 1, "ram_style": self.style}
        m.submodules.storage = storage = memory.Memory(
            shape=unsigned(self.width), depth=max(2, self.depth), init=[], attrs=attrs
        )
        write = storage.write_port()
        read = storage.read_port()
        output = Signal(self.width, reset_less=True)
        m.d.comb += [
            write.addr.eq(self.write_address),
            write.data.eq(self.write_data),
            write.en.eq(self.write_enable),
            read.addr.eq(self.read_address),
            read.en.eq(self.read_enable),
            self.read_data.eq(output),
        ]
        with m.If(self.output_enable):
            m.d.sync += output.eq(read.data)
        return m

    def _add_dp16kd(self, m: Module) -> None:
        """The ECP5's block RAM with its output register (Lattice FPGA-TN-02204), which Yosys does
        not use: 5.8 ns from the clock to the word become 0.6 ns behind a register outside.

        Port A writes and port B reads; words of 36 bits take the data pins of both.
        """
        depth = min(shape for shape in _DP16KD_SHAPES if shape >= self.depth)
        word = _DP16KD_SHAPES[depth]
        low = 14 - (depth - 1).bit_length()
        bytes_enabled = 4 if word == 36 else 2 if word == 18 else 0
        for part in range(ceil_div(self.width, word)):
            bits = slice(part * word, min(self.width, (part + 1) * word))
            given = Cat(self.write_data[bits], Const(0, 36 - (bits.stop - bits.start)))
            taken = Signal(36, name=f"taken{part}")
            m.d.comb += self.read_data[bits].eq(taken[: bits.stop - bits.start])
            write = Cat(Const(0, low), self.write_address, Const(0, 14))
            write = Cat(Const((1 << bytes_enabled) - 1, bytes_enabled), write[bytes_enabled:14])
            read = Cat(Const(0, low), self.read_address, Const(0, 14))[:14]
            ports = {}
            for bit in range(14):
                ports |= {f"i_ADA{bit}": write[bit], f"i_ADB{bit}": read[bit]}
            for bit in range(18):
                ports |= {f"i_DIA{bit}": given[bit], f"i_DIB{bit}": given[18 + bit]}
                first, second = ("A", "B") if word == 36 else ("B", "A")
                ports |= {
                    f"o_DO{first}{bit}": taken[bit],
                    f"o_DO{second}{bit}": taken[18 + bit],
                }
            for port in "AB":
                ports |= {f"i_CS{port}{bit}": Const(0) for bit in range(3)}
                ports |= {
                    f"p_DATA_WIDTH_{port}": word,
                    f"p_REGMODE_{port}": "OUTREG",
                    f"p_CSDECODE_{port}": "0b000",
                    f"p_WRITEMODE_{port}": "NORMAL",
                    f"i_CLK{port}": ClockSignal(),
                    f"i_OCE{port}": self.output_enable,
                    f"i_RST{port}": Const(0),
                }
            m.submodules[f"part{part}"] = Instance(
                "DP16KD",
                **ports,
                p_RESETMODE="SYNC",
                p_ASYNC_RESET_RELEASE="SYNC",
                p_GSR="AUTO",
                i_CEA=self.write_enable,
                i_WEA=Const(1),
                i_CEB=self.read_enable,
                i_WEB=Const(0),
            )
