"""The AXI4-Lite register file: job control, arguments, identification and counters.

The table of `hw.register_map` decides which words exist and which can be written; this file adds
what they do.
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.axi import lite_slave_members
from hw.config import HeadConfig
from hw.control_registers import ControlRegisters
from hw.counters import COUNTER_BITS, counter_names
from hw.lite import LiteReadPort, LiteWritePort
from hw.register_map import (
    ADDRESS_BITS,
    OFFSETS,
    STATUS_BITS,
    WORD_BITS,
    WORD_BYTES,
    Access,
    Control,
    Error,
    Event,
    flags,
    identification,
    registers,
)

BANK_SIZE = 4
"""Counters that share a word of the read multiplexer's first stage."""


def job_layout(config: HeadConfig) -> data.StructLayout:
    """Arguments of a job, as copied when it is accepted, in the order of the argument registers.

    ``flags`` are bits of `hw.register_map.Flag`; members of a channel are numbered.
    """
    members = {"rows": 32, "dim": 32, "k": 32, "vectors": 32, "format": 32}
    if flags(config):
        members["flags"] = 32
    members |= {"hidden_address": 64, "result_address": 64}
    for channel in range(config.channels):
        members |= {f"image{channel}_address": 64, f"image{channel}_bytes": 64}
    for channel in range(config.channels):
        if config.mask:
            members[f"mask{channel}_address"] = 64
        if config.all_logits:
            members[f"logits{channel}_address"] = 64
    return data.StructLayout(members)


def _word(name):
    """Word address of a register."""
    return OFFSETS[name] // WORD_BYTES


def _argument_groups(arguments) -> list[int]:
    """The aligned groups of four words that hold arguments, as word addresses without the low
    bits.
    """
    return sorted({_word(register.name) >> 2 for register in arguments})


def _multiplexer(values, word):
    """The one of `values`, by register name, at a word address; anything for other addresses.

    A tree over the bits of the address that tell the registers apart.
    """

    def tree(entries, bit):
        if len(entries) == 1:
            return entries[0][1]
        halves = [[entry for entry in entries if entry[0] >> bit & 1 == side] for side in (0, 1)]
        if not all(halves):
            return tree(entries, bit - 1)
        low, high = (tree(half, bit - 1) for half in halves)
        return Mux(word[bit], high, low)

    return tree([(_word(name), value) for name, value in values.items()], len(word) - 1)


def _argument_slot(m, groups, word):
    """Where the copy of an argument is: the words of `groups` one after the other."""
    group = Signal(range(len(groups)))
    bits = groups[-1].bit_length()
    with m.Switch(word[2 : 2 + bits]):
        for index, value in enumerate(groups):
            with m.Case(value):
                m.d.comb += group.eq(index)
    return Cat(word[:2], group)


class Registers(wiring.Component):
    """The register file behind the AXI4-Lite port, and the state of the job hand-over.

    Writes and reads are independent, one of each at a time. AW and W may come in either order; a
    write acts at the second clock edge after the one that takes the later of the two, and BVALID
    rises with it. RVALID rises at the third edge after that of AR; the state read is that of the
    second clock in between, so a read whose AR is taken one clock after a write to a control
    register sees its effect. Byte strobes are honoured; the two low address bits are ignored.
    SLVERR answers, without effect, any access to an unmapped word, a write to a read-only
    register, and a write to an argument while START is set (the job on offer must not change).

    An idle accelerator accepts a job at the third clock edge after the one that takes the later of
    AW and W of the START write. `interrupt` is a flip-flop that rises at the first edge after that
    of DONE.

    Arguments keep their values through resets: they are data, not state, and a small RAM holds a
    copy for reading back because a multiplexer of their registers would cost five times more.

    Parameters
    ----------
    config : HeadConfig

    Members
    -------
    awaddr ... rready
        The AXI4-Lite pins of `hw.axi.lite_slave_members`; xPROT is ignored.
    interrupt : Out(1)
        High while GIE is set and ISR is not zero.
    start : Out(stream.Signature(job_layout(config)))
        The job on offer: while START is set, none runs, DONE is clear and no soft reset is on; with
        ``config.job_queue`` while START is set and no soft reset is on. Only a soft reset withdraws
        it. The transfer clears START.
    done : In(1)
        The job that was taken has ended with `status` (one clock).
    status : In(8)
        A code of `hw.status.Status`.
    hold : Out(1)
        DONE is set: the next job must not end.
    idle : In(1)
        The accelerator has nothing to do. It may lag behind `start` and `done`.
    soft_reset : Out(1)
        High from the write of RESET to `reset_done`.
    reset_done : In(1)
        All bursts are drained and the accelerator is reset (one clock). A job that was taken and
        has not ended by then, the last one at most, ends now with status RESET; a job on offer is
        dropped.
    jobs : Out(32)
        Jobs ended so far.
    counters : In(ArrayLayout(64, len(counter_names(config))))
    """

    def __init__(self, config: HeadConfig):
        self.config = config
        self._map = registers(config)
        self._groups = _argument_groups(self._map.arguments)
        super().__init__(
            lite_slave_members(ADDRESS_BITS)
            | {
                "interrupt": Out(1),
                "start": Out(stream.Signature(job_layout(config))),
                "done": In(1),
                "status": In(STATUS_BITS),
                "hold": Out(1),
                "idle": In(1),
                "soft_reset": Out(1),
                "reset_done": In(1),
                "jobs": Out(WORD_BITS),
                "counters": In(data.ArrayLayout(COUNTER_BITS, len(counter_names(config)))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.write_port = write_port = LiteWritePort()
        m.submodules.read_port = read_port = LiteReadPort()
        m.submodules.control = control = ControlRegisters(self.config.job_queue)
        for port in (write_port, read_port):
            for name, member in lite_slave_members(ADDRESS_BITS).items():
                if name in port.signature.members:
                    inner, outer = getattr(port, name), getattr(self, name)
                    m.d.comb += inner.eq(outer) if member.flow is In else outer.eq(inner)

        for name in ("done", "status", "idle", "reset_done"):
            m.d.comb += getattr(control, name).eq(getattr(self, name))
        for name in ("soft_reset", "interrupt", "jobs", "hold"):
            m.d.comb += getattr(self, name).eq(getattr(control, name))

        job = Signal(job_layout(self.config), reset_less=True)
        m.d.comb += [
            self.start.payload.eq(job),
            self.start.valid.eq(control.offer),
            control.accept.eq(self.start.valid & self.start.ready),
        ]
        m.submodules.arguments = arguments = memory.Memory(
            shape=WORD_BITS,
            depth=4 * len(self._groups),
            init=[],
            attrs={"ram_style": "distributed"},
        )
        self._elaborate_write(m, write_port, control, job, arguments.write_port(granularity=8))
        self._elaborate_read(m, read_port, control, arguments.read_port(domain="comb"))
        return m

    def _elaborate_write(self, m, port, control, job, copy):
        """Decode writes: `control` bits, `job` arguments and their `copy` for reading."""
        selected = {}
        for register in self._map.all:
            if register.access is not Access.READ:
                select = Signal(name=f"select_{register.name.lower()}", reset_less=True)
                m.d.sync += select.eq(port.word == _word(register.name))
                selected[register.name] = select
        arguments = [selected[register.name] for register in self._map.arguments]
        # From flip-flops of their own, as the selects are: they reach all of these.
        is_argument = Signal(reset_less=True)
        is_writable = Signal(reset_less=True)
        m.d.sync += [
            is_argument.eq(port.word.matches(*(_word(each.name) for each in self._map.arguments))),
            is_writable.eq(port.word.matches(*map(_word, selected))),
        ]
        m.d.comb += port.error.eq(~is_writable | (is_argument & control.waiting))

        strobe = Signal(WORD_BYTES)
        with m.If(port.write & ~control.waiting):
            m.d.comb += strobe.eq(port.strobe)
        for index, select in enumerate(arguments):
            word = job.as_value().word_select(index, WORD_BITS)
            for byte in range(WORD_BYTES):
                with m.If(select & strobe[byte]):
                    m.d.sync += word.word_select(byte, 8).eq(port.data.word_select(byte, 8))
        m.d.comb += [
            copy.addr.eq(_argument_slot(m, self._groups, port.word)),
            copy.data.eq(port.data),
            copy.en.eq(Mux(is_argument, strobe, 0)),
        ]

        def written(name, bits):
            """The low `bits` bits of what is written to a register, bytes not written as zero."""
            mask = Cat(port.strobe[bit // 8] for bit in range(bits))
            return Mux(port.write & selected[name], port.data[:bits] & mask, 0)

        low_byte = port.write & port.strobe[0]
        control_bits = written("CONTROL", len(Control))
        m.d.comb += [
            control.start_write.eq((control_bits & Control.START).any()),
            control.continue_write.eq((control_bits & Control.CONTINUE).any()),
            control.reset_write.eq(written("RESET", 1)),
            control.gie_write.eq(low_byte & selected["GIE"]),
            control.ier_write.eq(low_byte & selected["IER"]),
            control.data.eq(port.data),
            control.isr_toggle.eq(written("ISR", len(Event))),
            control.errors_clear.eq(written("ERRORS", len(Error))),
        ]

    def _elaborate_read(self, m, port, control, copy):
        """The read multiplexer: decode, one word from each of few banks, then OR.

        A bank's word is zero unless it has what is read. Counters are in banks of four, the size
        of multiplexer that wastes no part of a LUT; everything else, which has few bits, is in one.
        """
        state = {
            "CONTROL": control.control,
            "GIE": control.gie,
            "IER": control.ier,
            "ISR": control.isr,
            "RESET": control.soft_reset,
            "STATUS": control.last_status,
            "ERRORS": control.errors,
            "JOBS": control.jobs,
        }
        constants = {
            name: Const(value, WORD_BITS) for name, value in identification(self.config).items()
        }
        counters = {
            register.name: value
            for register, value in zip(self._map.counters[::2], self.counters, strict=True)
        }
        held = Signal(COUNTER_BITS - WORD_BITS, reset_less=True)
        argument = Signal(WORD_BITS, reset_less=True)
        m.d.comb += copy.addr.eq(_argument_slot(m, self._groups, port.word))
        m.d.sync += argument.eq(copy.data)

        def decoded(names, label):
            select = Signal(name=f"is_{label}", reset_less=True)
            m.d.sync += select.eq(port.word.matches(*map(_word, names)))
            return select

        is_state = decoded(state, "state")
        is_constant = decoded(constants, "constant")
        is_argument = decoded((register.name for register in self._map.arguments), "argument")
        is_high = decoded((register.name for register in self._map.counters[1::2]), "counter_high")
        banks = [
            Mux(is_state, _multiplexer(state, port.word), 0)
            | Mux(is_constant, _multiplexer(constants, port.word), 0)
            | Mux(is_argument, argument, 0)
            | Mux(is_high, held, 0)
        ]
        is_counter = []
        for first in range(0, len(counters), BANK_SIZE):
            bank = dict(list(counters.items())[first : first + BANK_SIZE])
            is_counter.append(decoded(bank, f"bank{len(banks)}"))
            banks.append(Mux(is_counter[-1], _multiplexer(bank, port.word), 0))

        words = []
        for bank in banks:
            words.append(word := Signal(COUNTER_BITS, name=f"word{len(words)}", reset_less=True))
            m.d.sync += word.eq(bank)
        merged = reduce(or_, words)
        is_counter = Cat(is_counter).any()
        mapped = Signal(reset_less=True)
        hold = Signal()
        m.d.sync += [
            mapped.eq(is_state | is_constant | is_argument | is_high | is_counter),
            hold.eq(port.select & is_counter),
        ]
        with m.If(hold):
            m.d.sync += held.eq(merged[WORD_BITS:])
        m.d.comb += [port.data.eq(merged), port.error.eq(~mapped)]
