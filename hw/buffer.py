"""Buffers that cut the handshake of a stream in two."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class _Buffer(wiring.Component):
    """What the buffers have in common: a stream in, the same stream out, a clock later."""

    LATENCY = 1

    def __init__(self, width: int):
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}")
        self.width = width
        words = stream.Signature(unsigned(width))
        super().__init__({"i": In(words), "o": Out(words)})


class StreamBuffer(_Buffer):
    """Two words in registers; `i.ready` and `o.valid` come from flip-flops.

    A word is on `o` a clock after its transfer on `i`, one a clock. `o.ready` reaches no more than
    three flip-flops, which say what register is next and how many are full: a late one costs
    nothing, however wide the words are.

    Parameters
    ----------
    width : int
        Bits of a word.

    Members
    -------
    i, o : streams of `width` bits
    """

    def elaborate(self, platform):
        m = Module()
        words = [Signal(self.width, name=f"word{n}", reset_less=True) for n in range(2)]
        write_second = Signal()
        read_second = Signal()
        push = Signal()
        pop = Signal()
        empty = Signal(init=1)
        full = Signal()
        m.d.comb += [
            self.i.ready.eq(~full),
            self.o.valid.eq(~empty),
            self.o.payload.eq(Mux(read_second, words[1], words[0])),
            push.eq(self.i.valid & ~full),
            pop.eq(~empty & self.o.ready),
        ]
        # Each register takes what comes until it is its turn to be kept.
        with m.If(~full & ~write_second):
            m.d.sync += words[0].eq(self.i.payload)
        with m.If(~full & write_second):
            m.d.sync += words[1].eq(self.i.payload)
        m.d.sync += [
            write_second.eq(write_second ^ push),
            read_second.eq(read_second ^ pop),
        ]
        with m.If(push & ~pop):
            m.d.sync += [empty.eq(0), full.eq(~empty)]
        with m.Elif(pop & ~push):
            m.d.sync += [full.eq(0), empty.eq(~full)]
        return m


class StreamRegister(_Buffer):
    """One word in registers; `i.ready` and `o.valid` come from a flip-flop.

    A word is on `o` a clock after its transfer on `i`, one every two clocks. Unlike in a
    `StreamBuffer` no multiplexer is spent on the payload.

    Parameters
    ----------
    width : int
        Bits of a word.

    Members
    -------
    i, o : streams of `width` bits
    """

    def elaborate(self, platform):
        m = Module()
        word = Signal(self.width, reset_less=True)
        m.d.comb += [self.i.ready.eq(~self.o.valid), self.o.payload.eq(word)]
        with m.If(~self.o.valid):
            m.d.sync += [word.eq(self.i.payload), self.o.valid.eq(self.i.valid)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m
