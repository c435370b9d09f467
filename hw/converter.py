"""A stream of words of one width made from words of another."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out


class WidthConverter(wiring.Component):
    """Cuts words into narrower ones or joins them to wider ones, least significant part first.

    Narrowing gives a word per clock without gaps. A beat is taken into a register and its words
    follow, the first one a clock later; the next beat is taken together with the last of them.
    With `with_first` a beat has no register: its first word is on `o` one clock after the beat is
    offered, and the beat is taken when its last one is about to follow. Widening takes a word per
    clock and offers the wide word in the clock after its last part was taken; while that one
    waits, nothing is taken. Equal widths are wired through.

    Parameters
    ----------
    in_bits, out_bits : int
        Widths of the words; one is the other times a power of two.
    with_first : bool
        When narrowing, the beats say where their valid words begin.
    tells_ready : bool
        When narrowing without `with_first`: `o.ready` is told a clock ahead, and `i.ready` comes
        from a flip-flop.

    Members
    -------
    i : In
        Stream of `in_bits`; when narrowing of ``{data: in_bits, words: range(ratio)}``, where
        `words` is the number of valid narrow words in this beat minus one. Those past it are
        dropped and cost no clock. With `with_first` there is a member ``first: range(ratio)`` as
        well; `words` still counts from the least significant word, but those before number `first`
        are dropped likewise.
    o : Out
        Stream of `out_bits`.
    ready_next : In
        With `tells_ready`: `o.ready` of the next clock.

    Raises
    ------
    TypeError
        A width is not an integer.
    ValueError
        A width is below 1, their ratio is no power of two, or `with_first` or `tells_ready` is not
        for them.
    """

    def __init__(
        self, in_bits: int, out_bits: int, *, with_first: bool = False, tells_ready: bool = False
    ):
        for name, value in (("in_bits", in_bits), ("out_bits", out_bits)):
            if not isinstance(value, int):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        wide, narrow = max(in_bits, out_bits), min(in_bits, out_bits)
        self.ratio = wide // narrow
        if wide % narrow or self.ratio & (self.ratio - 1):
            raise ValueError(
                f"out_bits must be in_bits times or divided by a power of two, "
                f"got {in_bits} to {out_bits}"
            )
        if tells_ready and (with_first or in_bits <= out_bits):
            raise ValueError("tells_ready is for narrowing without with_first")
        if with_first and in_bits <= out_bits:
            raise ValueError("with_first is for narrowing")
        self.in_bits = in_bits
        self.out_bits = out_bits
        self.with_first = with_first
        self.tells_ready = tells_ready
        shape = unsigned(in_bits)
        if in_bits > out_bits:
            members = {"data": unsigned(in_bits), "words": range(self.ratio)}
            if with_first:
                members["first"] = range(self.ratio)
            shape = data.StructLayout(members)
        ports = {
            "i": In(stream.Signature(shape)),
            "o": Out(stream.Signature(unsigned(out_bits))),
        }
        if tells_ready:
            ports["ready_next"] = In(1)
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        if self.ratio == 1:
            m.d.comb += [
                self.o.valid.eq(self.i.valid),
                self.o.payload.eq(self.i.payload),
                self.i.ready.eq(self.o.ready),
            ]
        elif self.in_bits > self.out_bits:
            self._narrow(m)
        else:
            self._widen(m)
        return m

    def _narrow(self, m):
        if self.with_first:
            self._narrow_from_first(m)
            return
        # The words are shifted out of a register, so that few flip-flops say whether the next beat
        # is wanted: `ready` reaches far.
        words = Signal(self.in_bits, reset_less=True)
        left = Signal(range(self.ratio), reset_less=True)
        last = Signal(reset_less=True)  # left == 0
        m.d.comb += self.o.payload.eq(words[: self.out_bits])
        if self.tells_ready:
            ready = Signal(init=1)
            m.d.comb += self.i.ready.eq(ready)
            m.d.sync += ready.eq(self.ready_next & last)
        else:
            m.d.comb += self.i.ready.eq(~self.o.valid | (self.o.ready & last))
        with m.If(self.i.ready):
            m.d.sync += [
                self.o.valid.eq(self.i.valid),
                words.eq(self.i.payload.data),
                left.eq(self.i.payload.words),
                last.eq(self.i.payload.words == 0),
            ]
            if self.tells_ready:
                one = self.i.payload.words == 0
                m.d.sync += ready.eq(~self.i.valid | (self.ready_next & one))
        with m.Elif(self.o.ready):
            m.d.sync += [
                words.eq(words >> self.out_bits),
                left.eq(left - 1),
                last.eq(left == 1),
            ]
            if self.tells_ready:
                m.d.sync += ready.eq(self.ready_next & (left == 1))

    def _narrow_from_first(self, m):
        index = Signal(range(self.ratio))
        last = Signal()
        advance = Signal()
        begun = Signal()
        output = Signal(self.out_bits, reset_less=True)
        word = Signal.like(index)
        m.d.comb += [
            word.eq(Mux(begun, index, self.i.payload.first)),
            last.eq(word == self.i.payload.words),
            advance.eq(~self.o.valid | self.o.ready),
            self.i.ready.eq(last & advance),
            self.o.payload.eq(output),
        ]
        with m.If(advance & self.i.valid):
            m.d.sync += begun.eq(~last)
        with m.If(advance):
            m.d.sync += [
                self.o.valid.eq(self.i.valid),
                output.eq(self.i.payload.data.word_select(word, self.out_bits)),
            ]
            with m.If(self.i.valid):
                m.d.sync += index.eq(word + 1)
                with m.If(last):
                    m.d.sync += index.eq(0)

    def _widen(self, m):
        index = Signal(range(self.ratio))
        output = Signal(self.out_bits, reset_less=True)
        m.d.comb += [
            self.i.ready.eq(~self.o.valid | self.o.ready),
            self.o.payload.eq(output),
        ]
        with m.If(self.i.ready):
            m.d.sync += self.o.valid.eq(self.i.valid & (index == self.ratio - 1))
            # What is no word is overwritten by the next one.
            m.d.sync += output.word_select(index, self.in_bits).eq(self.i.payload)
            with m.If(self.i.valid):
                m.d.sync += index.eq(index + 1)
