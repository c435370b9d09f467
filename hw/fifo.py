"""A first-in first-out buffer in RAM whose outputs come from flip-flops."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.attributes import KEPT
from hw.ram import MEMORIES, BlockRAM


class StreamFIFO(wiring.Component):
    """A FIFO that takes and gives a word per clock.

    A word is on `o` three clocks after its transfer on `i` when the FIFO was empty. Behind the RAM
    its words pass two registers that move on when the next one does, so a slow RAM output has a
    clock of its own and no multiplexer is spent on the payload.

    `i.ready`, `o.valid` and `o.payload` come straight from flip-flops; `o.ready` only reaches
    flip-flops and the enable of the RAM. The reset clears the state, the words stay in the RAM.

    Parameters
    ----------
    width : int
        Bits of a word, at least 1.
    depth : int
        Words of RAM, at least 1. The FIFO holds up to two more in its output registers.
    memory : "block" or "auto"
        As of `BlockRAM`.
    has_room : bool
        Words only come when there is room for them, which something else sees to: `i.ready` is
        constantly high, and nothing waits for it.

    Members
    -------
    i, o : streams of `width` bits
    level : Out
        Words held, output registers included.
    ready_next : Out
        From a flip-flop: `i.ready` is high in the next clock, whatever comes in this one. Low
        while the RAM has room for two words or fewer.

    Raises
    ------
    TypeError
        `width` or `depth` is not an integer.
    ValueError
        A parameter is out of its range.
    """

    LATENCY = 1 + BlockRAM.LATENCY
    """Clocks of a word through an empty one: into the RAM, and out of it."""

    def __init__(self, width: int, depth: int, memory: str = "block", *, has_room: bool = False):
        for name, value in (("width", width), ("depth", depth)):
            if not isinstance(value, int):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if memory not in MEMORIES:
            raise ValueError(f"memory must be one of {', '.join(MEMORIES)}, got {memory!r}")
        self.width = width
        self.depth = depth
        self.memory = memory
        self.has_room = has_room
        super().__init__(
            {
                "i": In(stream.Signature(unsigned(width))),
                "o": Out(stream.Signature(unsigned(width))),
                "level": Out(range(depth + 3)),
                "ready_next": Out(1, init=int(depth > 2)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # The only word ever read while it is written is one that is not there yet and is dropped.
        m.submodules.ram = ram = BlockRAM(self.width, self.depth, self.memory)

        stored = Signal(range(self.depth + 1))  # words in the RAM, with one just read
        readable = Signal()  # there is a word to read
        writable = Signal(init=1)  # there is room for a word
        fetched = Signal()  # the RAM's output register holds a word
        full = Signal()  # fetched & o.valid, in one flip-flop: it enables RAMs that lie far apart
        write_address = Signal(range(max(2, self.depth)))
        read_address = Signal.like(write_address)
        push = Signal()
        pop = Signal()
        take = Signal()
        advance = Signal()
        fetch = Signal()
        m.d.comb += [
            self.i.ready.eq(1 if self.has_room else writable),
            push.eq(self.i.valid & self.i.ready),
            take.eq(self.o.valid & self.o.ready),
            advance.eq(~self.o.valid | self.o.ready),
            fetch.eq(~full | self.o.ready),
            pop.eq(fetch & readable),
            ram.write_enable.eq(push),
            ram.write_data.eq(self.i.payload),
            ram.write_address.eq(write_address),
            ram.read_enable.eq(fetch),
            ram.read_address.eq(read_address),
            ram.output_enable.eq(advance),
            self.o.payload.eq(ram.read_data),
        ]
        with m.If(push):
            m.d.sync += write_address.eq(self._after(write_address))
        with m.If(pop):
            m.d.sync += read_address.eq(self._after(read_address))

        # `o.ready` comes late, and `pop` with it: the counter learns of it a clock later, and what
        # that makes of the flags is settled before it is known.
        popped = Signal()
        several = stored[2:].any()
        one, two, three = (~several & (stored[:2] == count) for count in (1, 2, 3))
        many_after, one_after, full_after = (Signal(attrs=KEPT) for _ in range(3))
        with m.Switch(Cat(push, popped)):
            with m.Case(0b01):
                m.d.comb += [
                    many_after.eq(stored.any()),
                    one_after.eq(~stored.any()),
                    full_after.eq(stored == self.depth - 1),
                ]
                m.d.sync += stored.eq(stored + 1)
            with m.Case(0b10):
                m.d.comb += [many_after.eq(several | three), one_after.eq(two)]
                m.d.sync += stored.eq(stored - 1)
            with m.Default():
                m.d.comb += [
                    many_after.eq(several | two | three),
                    one_after.eq(one),
                    full_after.eq(stored == self.depth),
                ]
        m.d.sync += [
            popped.eq(pop),
            readable.eq(many_after | (one_after & ~pop)),
            writable.eq(~full_after | pop),
            self.ready_next.eq(stored + 2 < self.depth),
        ]
        with m.If(push & ~take):
            m.d.sync += self.level.eq(self.level + 1)
        with m.Elif(take & ~push):
            m.d.sync += self.level.eq(self.level - 1)

        stays = self.o.valid & ~self.o.ready
        m.d.sync += full.eq(Mux(fetch, readable & (fetched | stays), 1))
        with m.If(fetch):
            m.d.sync += fetched.eq(readable)
        with m.If(advance):
            m.d.sync += self.o.valid.eq(fetched)
        return m

    def _after(self, address):
        """The RAM address after `address`."""
        if self.depth & (self.depth - 1) == 0:
            return address + 1
        return Mux(address == self.depth - 1, 0, address + 1)
