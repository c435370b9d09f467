"""The log-sum-exp of scores as they stream: an exact accumulator for each power of two.

`sim.golden_logsumexp` states its arithmetic in full; nothing is rounded after a row's own term.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import MULTIPLIER_BITS, SHIFT_BITS, HeadConfig, log2
from hw.exp2 import FRACTION_BITS, MANTISSA_BITS, Exp2
from hw.log2 import LOGARITHM_BITS, Log2Scaler
from hw.ram import BlockRAM

EXPONENT_BITS = LOGARITHM_BITS - FRACTION_BITS
WINDOW = 64
"""Accumulators of a vector: the powers of two from the largest one down that can matter."""
WINDOW_BITS = log2(WINDOW)
TAG_BITS = EXPONENT_BITS - WINDOW_BITS

TOP_LAYOUT = data.StructLayout({"exponent": signed(EXPONENT_BITS), "valid": 1})
"""The largest exponent that a row of a vector had, if there was a row."""


def accumulator_bits(config: HeadConfig) -> int:
    """Width of a sum of the mantissas of all rows."""
    return MANTISSA_BITS + config.max_rows.bit_length()


def _offset(exponent):
    """The exponent in offset binary: ordered like the signed one."""
    return Cat(exponent[:-1], ~exponent[-1])


class LogSumExp(wiring.Component):
    """Adds up the exponentials of the scores of some vectors.

    A row becomes a mantissa and an exponent, and the mantissa is added to the accumulator of its
    exponent. An exponent shares its accumulator with those that differ by a multiple of `WINDOW`:
    the largest that comes takes it over, what comes below is dropped. Of an accumulator within
    the window below the largest exponent nothing is ever lost, so the order of rows is of no
    account, nor is over how many units they are spread.

    One row a clock, whatever its slot and exponent. Clearing takes `WINDOW` clocks per vector;
    rows wait meanwhile.

    Parameters
    ----------
    config : HeadConfig
    vectors : int
        Vectors, at least 1; each has a slot.

    Members
    -------
    start : In
        One clock: begin a job. What was is dropped, a row taken in this clock too.
    i : In(stream)
        ``{score, slot}`` of rows that take part, in any order; taken once the accumulators are
        cleared.
    multiplier, shift : In(ArrayLayout)
        Arguments of each slot, stable while there are rows.
    idle : Out
        Cleared, and all rows taken before the last clock edge are accumulated. Meanwhile the
        following may be read.
    read_slot : In
    top : Out(TOP_LAYOUT)
        Of `read_slot`, `READ_LATENCY` clocks later.
    read_exponent : In
        From the window below the largest exponent, wrapping around.
    read_sum : Out
        The accumulator of `read_slot` and `read_exponent`, `READ_LATENCY` clocks later; 0 if no
        row had that exponent.

    Raises
    ------
    ValueError
        There are no vectors.
    """

    READ_LATENCY = BlockRAM.LATENCY + 2

    def __init__(self, config: HeadConfig, vectors: int):
        if vectors < 1:
            raise ValueError(f"vectors must be at least 1, got {vectors}")
        self.config = config
        self.vectors = vectors
        row = data.StructLayout(
            {"score": signed(config.score_bits), "slot": range(max(2, vectors))}
        )
        super().__init__(
            {
                "start": In(1),
                "i": In(stream.Signature(row)),
                "multiplier": In(data.ArrayLayout(MULTIPLIER_BITS, vectors)),
                "shift": In(data.ArrayLayout(SHIFT_BITS, vectors)),
                "idle": Out(1),
                "read_slot": In(range(max(2, vectors))),
                "top": Out(TOP_LAYOUT),
                "read_exponent": In(signed(EXPONENT_BITS)),
                "read_sum": Out(unsigned(accumulator_bits(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        slot_bits = (self.vectors - 1).bit_length()
        address_bits = WINDOW_BITS + slot_bits

        # Clearing writes zeros: tag 0 is the lowest one, so what is there gives way or adds 0.
        clearing = Signal(init=1)
        clear_address = Signal(range(max(2, WINDOW * self.vectors)))
        with m.If(clearing):
            m.d.sync += clear_address.eq(clear_address + 1)
            with m.If(clear_address == WINDOW * self.vectors - 1):
                m.d.sync += [clearing.eq(0), clear_address.eq(0), self.i.ready.eq(1)]

        # From a score to its exponent and mantissa, clocks counted from the row on `i`.
        scaled = 1 + Log2Scaler.LATENCY
        finished = scaled + Exp2.LATENCY
        valid = Signal(finished)
        m.d.sync += valid.eq(Cat(self.i.valid & self.i.ready, valid))
        slots = [self.i.payload.slot if slot_bits else Const(0, 0)]
        for clock in range(finished):
            later = slots[-1]
            if slot_bits:
                later = Signal(slot_bits, name=f"slot{clock}", reset_less=True)
                m.d.sync += later.eq(slots[-1])
            slots.append(later)

        m.submodules.scaler = scaler = Log2Scaler(config.score_bits)
        score = Signal(signed(config.score_bits), reset_less=True)
        shift = Signal(SHIFT_BITS, reset_less=True)
        multiplier = Signal(MULTIPLIER_BITS, reset_less=True)
        m.d.sync += [
            score.eq(self.i.payload.score),
            shift.eq(self._of(self.shift, slots[0])),
            multiplier.eq(self._of(self.multiplier, slots[Log2Scaler.MULTIPLIER_DELAY])),
        ]
        m.d.comb += [
            scaler.score.eq(score),
            scaler.shift.eq(shift),
            scaler.multiplier.eq(multiplier),
        ]
        m.submodules.exp2 = exp2 = Exp2()
        m.d.comb += exp2.fraction.eq(scaler.logarithm[:FRACTION_BITS])
        exponent = _offset(scaler.logarithm[FRACTION_BITS:])
        for clock in range(scaled, finished):
            later = Signal(EXPONENT_BITS, name=f"exponent{clock}", reset_less=True)
            m.d.sync += later.eq(exponent)
            exponent = later

        row = {"valid": valid[-1], "slot": slots[-1], "exponent": exponent}
        self._keep_top(m, row)
        adding = self._accumulate(m, row, exp2.mantissa, clearing, clear_address, address_bits)

        m.d.sync += self.idle.eq(
            ~(clearing | (self.i.valid & self.i.ready) | valid.any() | adding.any())
        )
        with m.If(self.start):
            m.d.sync += [
                self.i.ready.eq(0),
                clearing.eq(1),
                clear_address.eq(0),
                valid.eq(0),
                adding.eq(0),
                self.idle.eq(0),
            ]
        return m

    def _of(self, values, slot):
        """The value of a slot."""
        return values[slot] if self.vectors > 1 else values[0]

    def _keep_top(self, m, row):
        """Keeps the largest exponent of every slot, in offset binary with a leading one."""
        tops = Signal(data.ArrayLayout(1 + EXPONENT_BITS, self.vectors))
        exponent = Cat(row["exponent"], 1)
        with m.If(row["valid"] & (exponent > self._of(tops, row["slot"]))):
            m.d.sync += self._of(tops, row["slot"]).eq(exponent)
        with m.If(self.start):
            m.d.sync += tops.eq(0)
        read = self._of(tops, self.read_slot)
        m.d.sync += [
            self.top.exponent.eq(_offset(read[:-1])),
            self.top.valid.eq(read[-1]),
        ]

    def _accumulate(self, m, row, mantissa, clearing, clear_address, address_bits):
        """Adds a row a clock to its accumulator; the valid bits of its pipeline.

        Stages, with a row's address in stage 0: read in 0 and 1, the RAM's word and the tag's fate
        in 2, the sum in 3, the write in 4. A row therefore sees the writes of rows five clocks
        ahead of it; those of one to four it takes from the stages they have reached. A tag is
        settled a stage before its sum, so that either loop has a clock of its own.
        """
        sum_bits = accumulator_bits(self.config)
        word = data.StructLayout({"sum": sum_bits, "tag": TAG_BITS})
        m.submodules.accumulators = ram = BlockRAM(word.size, 1 << address_bits)

        valid = Signal(5)
        m.d.sync += valid.eq(Cat(row["valid"], valid))

        def delayed(value, stages, name):
            """`value` in stage 0 and those that follow."""
            line = []
            for stage in range(stages):
                later = Signal(len(value), name=f"{name}{stage}", reset_less=True)
                m.d.sync += later.eq(value)
                line.append(later)
                value = later
            return line

        # Without a row, what is read is of the reader's choice.
        read_exponent = _offset(self.read_exponent)
        low = slice(0, WINDOW_BITS)
        addresses = delayed(
            Mux(
                row["valid"],
                Cat(row["exponent"][low], row["slot"]),
                Cat(read_exponent[low], self.read_slot),
            ),
            4,
            "address",
        )
        tags = delayed(row["exponent"][WINDOW_BITS:], 3, "tag")
        mantissas = delayed(mantissa, 3, "mantissa")
        write_address = Signal(address_bits, reset_less=True)
        # same[n]: the row n + 1 clocks ahead has the same accumulator.
        ahead = [*addresses[1:], write_address]
        same = Cat(
            valid[stage + 1] & (address == addresses[0]) for stage, address in enumerate(ahead)
        )
        same = delayed(same, 2, "same")[1]

        # Stage 2: which exponent has the accumulator.
        stored = word(ram.read_data)
        settled = [Signal(TAG_BITS, name=f"settled{n}", reset_less=True) for n in range(4)]
        tag = stored.tag
        for n in reversed(range(4)):
            tag = Mux(same[n], settled[n], tag)
        above = Signal(reset_less=True)
        below = Signal(reset_less=True)
        m.d.sync += [
            above.eq(tags[2] > tag),
            below.eq(tags[2] < tag),
            settled[0].eq(Mux(tags[2] > tag, tags[2], tag)),
        ]
        m.d.sync += [later.eq(early) for early, later in zip(settled, settled[1:], strict=False)]

        # Stage 3: its sum.
        sums = [Signal(sum_bits, name=f"sum{n}", reset_less=True) for n in range(3)]
        base = Signal(sum_bits, reset_less=True)
        before = stored.sum
        for n in reversed(range(3)):
            before = Mux(same[n + 1], sums[n], before)
        last = Signal(reset_less=True)
        term = Signal(MANTISSA_BITS, reset_less=True)
        m.d.sync += [base.eq(before), last.eq(same[0]), term.eq(mantissas[2])]
        kept = Mux(last, sums[0], base) & ~above.replicate(sum_bits)
        m.d.sync += sums[0].eq(kept + (term & ~below.replicate(MANTISSA_BITS)))
        m.d.sync += [later.eq(early) for early, later in zip(sums, sums[1:], strict=False)]

        # Stage 4 writes, or clears.
        write = Signal()
        m.d.sync += [write.eq(valid[3] | clearing), write_address.eq(addresses[3])]
        with m.If(clearing):
            m.d.sync += [write_address.eq(clear_address), sums[0].eq(0), settled[1].eq(0)]
        m.d.comb += [
            ram.read_address.eq(addresses[0]),
            ram.write_address.eq(write_address),
            ram.write_data.eq(Cat(sums[0], settled[1])),
            ram.write_enable.eq(write),
        ]

        # The reader's way: its tag arrives with the RAM's word.
        read_tag = delayed(read_exponent[WINDOW_BITS:], 3, "read_tag")[2]
        read_sum = Signal(sum_bits, reset_less=True)
        m.d.sync += read_sum.eq(Mux(read_tag == stored.tag, stored.sum, 0))
        m.d.comb += self.read_sum.eq(read_sum)
        return valid
