"""Lets several sources of results share one writer, a segment at a time."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.data import View
from amaranth.lib.wiring import In, Out

from hw.burst import segment_layout
from hw.config import HeadConfig
from hw.writer import BEATS_BITS

MAX_CLIENTS = 64


class WriteArbiter(wiring.Component):
    """Passes the segments of its clients on in turn, and behind each exactly its beats.

    A client offers a command only when all beats of the segment will come without waiting for
    another client. Its command is passed on two clocks after it was offered at best, and the next
    one is taken while its beats go by: of segments of four beats or more that follow each other a
    beat goes by in every clock. Beats pass within a clock.

    Who is next: the first client with a command after the one that was last, round robin. A
    single client is wired through.

    Parameters
    ----------
    config : HeadConfig
        ``bus_bits``.
    clients : int
        1..64.

    Members
    -------
    command{n}, i{n} : In
        Client n's stream of segments, as `Writer.command`, and of their beats.
    command, o : Out
        Streams for the writer.
    idle : Out
        No segment is under way. It does not tell of commands that wait; of a single client it is
        always high.

    Raises
    ------
    TypeError
        `clients` is no integer.
    ValueError
        It is out of its range.
    """

    def __init__(self, config: HeadConfig, clients: int):
        if not isinstance(clients, int):
            raise TypeError(f"clients must be an integer, got {clients!r}")
        if not 1 <= clients <= MAX_CLIENTS:
            raise ValueError(f"clients must be in 1..{MAX_CLIENTS}, got {clients}")
        self.config = config
        self.clients = clients
        commands = stream.Signature(segment_layout(BEATS_BITS))
        beats = stream.Signature(unsigned(config.bus_bits))
        super().__init__(
            {f"command{n}": In(commands) for n in range(clients)}
            | {f"i{n}": In(beats) for n in range(clients)}
            | {"command": Out(commands), "o": Out(beats), "idle": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        commands = [getattr(self, f"command{n}") for n in range(self.clients)]
        inputs = [getattr(self, f"i{n}") for n in range(self.clients)]
        if self.clients == 1:
            wiring.connect(m, wiring.flipped(commands[0]), wiring.flipped(self.command))
            wiring.connect(m, wiring.flipped(inputs[0]), wiring.flipped(self.o))
            m.d.comb += self.idle.eq(1)
            return m

        # A choice is made when the last command has gone and its beats have begun to pass, a clock
        # before the command is taken: it is one-hot and from flip-flops, as is the owner of the
        # beats, since both drive multiplexers of the width of the bus.
        chosen = Signal(self.clients)
        behind = Signal(self.clients)  # the clients after the one that was last
        segment = Signal(self.command.payload.shape(), reset_less=True)
        queued = Signal()  # `next_owner` has beats to pass
        next_owner = Signal(self.clients, reset_less=True)
        next_left = Signal(BEATS_BITS, reset_less=True)
        moving = Signal()  # `owner` has
        owner = Signal(self.clients, reset_less=True)
        left = Signal(BEATS_BITS, reset_less=True)  # beats after the one that is next

        transfer = Signal()
        m.d.comb += [
            self.o.valid.eq(moving & _select(owner, [each.valid for each in inputs])),
            self.o.payload.eq(_select(owner, [each.payload for each in inputs])),
            transfer.eq(self.o.valid & self.o.ready),
        ]
        for n, each in enumerate(inputs):
            m.d.comb += each.ready.eq(moving & owner[n] & self.o.ready)
        with m.If(transfer):
            m.d.sync += left.eq(left - 1)
        with m.If(~moving | (transfer & (left == 0))):
            m.d.sync += [moving.eq(queued), queued.eq(0), owner.eq(next_owner), left.eq(next_left)]

        offers = Cat(command.valid for command in commands)
        taken = View(self.command.payload.shape(), _select(chosen, [c.payload for c in commands]))
        for n, command in enumerate(commands):
            m.d.comb += command.ready.eq(chosen[n])
        m.d.comb += self.command.payload.eq(segment)
        with m.If(self.command.ready):
            m.d.sync += self.command.valid.eq(0)
        with m.If(chosen.any()):
            m.d.sync += [
                chosen.eq(0),
                behind.eq(Cat(chosen[:n].any() for n in range(self.clients))),
                self.command.valid.eq(1),
                segment.eq(taken),
                queued.eq(1),
                next_owner.eq(chosen),
                next_left.eq(taken.beats - 1),
            ]
        with m.Elif(~queued & (~self.command.valid | self.command.ready)):
            first, any_behind = _lowest(offers), (offers & behind).any()
            m.d.sync += chosen.eq(Mux(any_behind, _lowest(offers & behind), first))
        m.d.comb += self.idle.eq(~(self.command.valid | moving | queued | chosen.any()))
        return m


def _select(one_hot, values):
    """The bits of the one of `values` whose bit in `one_hot` is set."""
    pairs = zip(one_hot, values, strict=True)
    return reduce(or_, (Mux(bit, Value.cast(value), 0) for bit, value in pairs))


def _lowest(word):
    """One-hot, the lowest bit that is set in `word`."""
    return word & (~word + 1)[: len(word)]
