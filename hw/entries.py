"""The entries of the top-k on their way into a result block: kept, merged, made records."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import MULTIPLIER_BITS, TERM_BITS, HeadConfig
from hw.multiplier import WideMultiplier
from hw.ram import BlockRAM
from hw.topk import EntryLayout

FEW_ENTRIES = 32
"""So many need no block RAM."""


class RecordLayout(data.StructLayout):
    """What a record of the result block says."""

    def __init__(self, config: HeadConfig):
        super().__init__(
            {
                "score": signed(config.score_bits),
                "id": unsigned(config.id_bits),
                "occupied": 1,
            }
        )


class EntryStore(wiring.Component):
    """Turns the entries of one list around: worst first in, best first out.

    The first entry is on `o` four clocks after the last one was taken, then one follows a clock.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    collect : In
        One clock: the next `k` entries on `i` are those of a new list.
    k : In
        Stable from `collect` to the last entry.
    i : In(stream of EntryLayout)
        Worst first, slots without a row before all others.
    complete : Out
        All `k` entries are here; high until `collect`.
    count : Out
        Rows among the entries taken so far.
    o : Out(stream of EntryLayout)
        While complete: the entries, best first, those without a row all zeros. What follows the
        k-th is meaningless.
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "collect": In(1),
                "k": In(range(config.k + 1)),
                "i": In(stream.Signature(EntryLayout(config))),
                "complete": Out(1),
                "count": Out(range(config.k + 1)),
                "o": Out(stream.Signature(EntryLayout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        # Entries are read when all are written: there is no collision.
        m.submodules.entries = entries = BlockRAM(
            EntryLayout(config).size, config.k, "block" if config.k > FEW_ENTRIES else "auto"
        )

        # The worst goes to address k - 1, the best comes last and goes to address 0. An entry is
        # written a clock after it was taken, when `left` is its address.
        left = Signal(range(config.k + 1))
        wanted = Signal()  # left != 0, from a flip-flop: it reaches the keys of the top-k
        taken = Signal()
        entry = Signal(EntryLayout(config), reset_less=True)
        m.d.comb += [
            self.i.ready.eq(wanted),
            self.complete.eq(~wanted & ~taken),
            entries.write_address.eq(left),
            entries.write_data.eq(entry),
            entries.write_enable.eq(taken),
        ]
        m.d.sync += [
            taken.eq(self.i.valid & self.i.ready),
            entry.eq(Mux(self.i.payload.occupied, self.i.payload.as_value(), 0)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [left.eq(left - 1), wanted.eq(left != 1)]
        with m.If(taken):
            m.d.sync += self.count.eq(self.count + entry.occupied)

        # The memory's output is slow, so nothing but a register follows it.
        fetched = Signal()
        advance = Signal()
        fetch = Signal()
        address = Signal.like(entries.read_address)
        m.d.comb += [
            advance.eq(~self.o.valid | self.o.ready),
            fetch.eq(self.complete & (~fetched | advance)),
            entries.read_enable.eq(fetch),
            entries.read_address.eq(address),
            entries.output_enable.eq(advance),
            self.o.payload.eq(entries.read_data),
        ]
        with m.If(fetch):
            m.d.sync += [fetched.eq(1), address.eq(address + 1)]
        with m.If(advance):
            m.d.sync += self.o.valid.eq(fetched)
        with m.If(self.collect):
            m.d.sync += [
                left.eq(self.k),
                wanted.eq(1),
                taken.eq(0),
                self.count.eq(0),
                fetched.eq(0),
                address.eq(0),
                self.o.valid.eq(0),
            ]
        return m


class EntryMerge(wiring.Component):
    """Merges two lists that come best first; an entry every three clocks.

    The comparison and the move have a clock each, and no path leads from one stream's handshake to
    another's: of such blocks a tree may be built.

    Members
    -------
    clear : In
        One clock: drop what is on the way.
    i0, i1 : In(stream of EntryLayout)
    o : Out(stream of EntryLayout)
        Higher rank first, then lower id, then slots without a row.
    """

    def __init__(self, config: HeadConfig):
        entries = stream.Signature(EntryLayout(config))
        super().__init__({"clear": In(1), "i0": In(entries), "i1": In(entries), "o": Out(entries)})

    def elaborate(self, platform):
        m = Module()
        first, second = self.i0, self.i1
        judged = Signal()
        first_leads = Signal(reset_less=True)
        move = Signal()
        output = Signal.like(self.o.payload, reset_less=True)

        def key(entry):
            rank = Cat(entry.rank[:-1], ~entry.rank[-1])
            return Cat(~entry.id, rank, entry.occupied)

        # In the clock after a move `o` is full: what was judged by then is of the new entries.
        m.d.comb += [
            move.eq(judged & ~self.o.valid),
            first.ready.eq(move & first_leads),
            second.ready.eq(move & ~first_leads),
            self.o.payload.eq(output),
        ]
        m.d.sync += [
            first_leads.eq(key(first.payload) > key(second.payload)),
            judged.eq(first.valid & second.valid),
        ]
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(move):
            m.d.sync += [
                self.o.valid.eq(1),
                output.eq(Mux(first_leads, first.payload, second.payload)),
            ]
        with m.If(self.clear):
            m.d.sync += [judged.eq(0), self.o.valid.eq(0)]
        return m


class BoundRemover(wiring.Component):
    """Makes entries records: takes the bound out of the rank again.

    A record takes ``WideMultiplier.latency_of(33) + 2`` clocks, during which its entry waits.

    Parameters
    ----------
    config : HeadConfig
        With `bound`.

    Members
    -------
    multiplier : In
        The bound's multiplier of the vector, stable while there are entries.
    i : In(stream of EntryLayout)
    o : Out(stream of RecordLayout)
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        super().__init__(
            {
                "multiplier": In(MULTIPLIER_BITS),
                "i": In(stream.Signature(EntryLayout(config))),
                "o": Out(stream.Signature(RecordLayout(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        m.submodules.bound = bound = WideMultiplier(MULTIPLIER_BITS + 1, TERM_BITS)
        score = Signal(signed(config.score_bits), reset_less=True)
        # Clocks that the entry has been there for, one bit each.
        age = Signal(WideMultiplier.latency_of(MULTIPLIER_BITS + 1) + 1)
        m.d.comb += [
            bound.a.eq(self.multiplier),
            bound.b.eq(self.i.payload.term),
            self.i.ready.eq(self.o.valid & self.o.ready),
            self.o.valid.eq(age[-1]),
            self.o.payload.score.eq(score),
            self.o.payload.id.eq(self.i.payload.id),
            self.o.payload.occupied.eq(self.i.payload.occupied),
        ]
        m.d.sync += [
            score.eq(self.i.payload.rank - bound.product),
            age.eq(Cat(self.i.valid, age)),
        ]
        with m.If(~self.i.valid | self.i.ready):
            m.d.sync += age.eq(0)
        return m
