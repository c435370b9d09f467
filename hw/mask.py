"""The mask of a channel: from beats, a vector after the other, to bits, row by row."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.config import HeadConfig
from hw.ram import ram_style

LEAST_DEPTH = 16
"""Least words buffered per vector: as many as the smallest LUT RAM holds."""


def mask_word_bits(config: HeadConfig) -> int:
    """Width of the words that a mask is handled in: they divide a vector's bits of a tile.

    A word is distributed per clock, so twice as many bits as there are vectors let the mask of a
    tile be there before the rows of the one before have gone, at a row per clock.
    """
    wanted = max(8, 1 << (2 * config.batch - 1).bit_length())
    divides = config.tile_rows & -config.tile_rows
    return min(divides, config.bus_bits, wanted)


class MaskBuffer(wiring.Component):
    """Brings the mask of a channel into the order in which its rows are ranked.

    Beats are cut into words of `mask_word_bits`; those of each vector go to a RAM of its own,
    which holds two tiles or more. The vectors of a ranker are read side by side and shifted out a
    bit per row. The rankers take their rows at their own pace, a tile apart or more. While beats
    come every ranker can take a row per clock, also from tile to tile, as long as there are no
    more vectors than bits in a word.

    The first row is on `o{p}` four clocks after the beat with its last vector's bit was taken, if
    that is in the lowest word. Of the last beats, which may be padding alone, some may be taken
    after the last row: whoever reads the mask waits for its own end.

    Parameters
    ----------
    config : HeadConfig
        ``bus_bits``, ``tile_rows``, ``batch``, ``rankers``.

    Members
    -------
    start : In
        One clock, before the first beat of a job is asked for: what is left of another job, such
        as the bits past its last row, is dropped. In this clock nothing is taken from `o{p}`.
    enable : In
        The job has a mask. If low, all bits are 1 and no beats are needed. Stable from `start` on.
    vectors : In
        Vectors of the job, 1..batch, likewise.
    i : In
        Stream of beats, as `hw.layout.ImageLayout.mask` lays them out.
    o{p} : Out
        For ranker p a stream of words with a bit per slot, one word per row. The bits of slots
        beyond the job's vectors mean nothing, and a ranker that has no vector gets any number.

    Raises
    ------
    ValueError
        The configuration has no mask.
    """

    def __init__(self, config: HeadConfig):
        if not config.mask:
            raise ValueError("mask must be True in the configuration of a mask buffer, got False")
        self.config = config
        super().__init__(
            {
                "start": In(1),
                "enable": In(1),
                "vectors": In(range(config.batch + 1)),
                "i": In(stream.Signature(unsigned(config.bus_bits))),
            }
            | {
                f"o{p}": Out(stream.Signature(unsigned(config.ranker_vectors(p))))
                for p in range(config.rankers)
            }
        )

    def elaborate(self, platform):
        m = Module()
        config = self.config
        word_bits = mask_word_bits(config)
        tile_words = config.tile_rows // word_bits
        depth = max(LEAST_DEPTH, 1 << (2 * tile_words - 1).bit_length())

        # The beat shifts down by a word per clock. It is taken when the last word of the one
        # before goes, so that what is left here at the end of a job is padding.
        beat = Signal(config.bus_bits, reset_less=True)
        beat_words = config.bus_bits // word_bits
        words_left = Signal(range(beat_words))  # after the lowest one
        is_last_word = Signal()  # words_left == 0
        held = Signal()
        write = Signal()
        m.d.comb += self.i.ready.eq(~held | (write & is_last_word))
        with m.If(write):
            m.d.sync += [
                words_left.eq(words_left - 1),
                is_last_word.eq(words_left == 1),
                beat.eq(beat >> word_bits),
            ]
        with m.If(self.i.ready):
            m.d.sync += [
                held.eq(self.i.valid),
                beat.eq(self.i.payload),
                words_left.eq(beat_words - 1),
                is_last_word.eq(0),
            ]

        # Where the lowest word goes: tile by tile, vector by vector. A tile is begun when every
        # ranker has room for all of it.
        vector = Signal(range(max(2, config.batch)))
        is_last_vector = Signal()
        base = Signal(range(depth))  # of the tile
        address = Signal(range(depth))
        tile_left = Signal(range(max(2, tile_words)), init=tile_words - 1)  # after this word
        begun = Signal()
        has_room = Signal()
        m.d.comb += [
            is_last_vector.eq(vector + 1 == self.vectors),
            write.eq(held & (begun | has_room)),
        ]
        with m.If(write):
            m.d.sync += [begun.eq(1), address.eq(address + 1), tile_left.eq(tile_left - 1)]
            with m.If(tile_left == 0):
                m.d.sync += [tile_left.eq(tile_words - 1), vector.eq(vector + 1), address.eq(base)]
                with m.If(is_last_vector):
                    m.d.sync += [
                        begun.eq(0),
                        vector.eq(0),
                        base.eq(address + 1),
                        address.eq(address + 1),
                    ]
        with m.If(self.start):
            m.d.sync += [
                held.eq(0),
                vector.eq(0),
                begun.eq(0),
                tile_left.eq(tile_words - 1),
                base.eq(0),
                address.eq(0),
            ]

        rankers = []
        for number in range(config.rankers):
            slots = config.ranker_vectors(number)
            ranker = _RankerRows(slots, word_bits, depth, tile_words)
            m.submodules[f"ranker{number}"] = ranker
            rankers.append(ranker)
            m.d.comb += [
                ranker.start.eq(self.start),
                ranker.write.eq(
                    Cat(write & (vector == s * config.rankers + number) for s in range(slots))
                ),
                ranker.complete.eq(write & is_last_vector),
                ranker.address.eq(address),
                ranker.word.eq(beat[:word_bits]),
            ]
            # A ranker without a vector takes no part: it would never make room.
            m.d.sync += ranker.used.eq(self.enable & (self.vectors > number))
            wiring.connect(m, ranker.o, wiring.flipped(getattr(self, f"o{number}")))
        m.d.comb += has_room.eq(Cat(ranker.room for ranker in rankers).all())
        return m


class _RankerRows(wiring.Component):
    """The bits of one ranker: words of its vectors in, a word with a bit per slot out per row.

    Members
    -------
    start, used : In
        Drops everything; whether there is a mask for this ranker, otherwise all bits are 1.
    write, address, word : In
        Writes a word for the slots whose bit is set.
    complete : In
        With it the word of the last vector is written: a row can be made of it and of those of
        the other vectors.
    room : Out
        All words of a tile have room.
    o : Out
        Stream of rows.
    """

    def __init__(self, slots: int, word_bits: int, depth: int, tile_words: int):
        self.slots = slots
        self.word_bits = word_bits
        self.depth = depth
        self.tile_words = tile_words
        super().__init__(
            {
                "start": In(1),
                "used": In(1),
                "write": In(slots),
                "address": In(range(depth)),
                "word": In(word_bits),
                "complete": In(1),
                "room": Out(1, init=1),
                "o": Out(stream.Signature(unsigned(slots))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        # Words that are complete and not read yet. The flags are kept beside the counter.
        filled = Signal(range(self.depth + 1))
        next_filled = Signal(range(self.depth + 1))
        readable = Signal()
        fetch = Signal()
        pop = Signal()
        read_address = Signal(range(self.depth))
        m.d.comb += [
            pop.eq(fetch & readable),
            next_filled.eq(filled + (self.complete & self.used) - pop),
        ]
        m.d.sync += [
            filled.eq(next_filled),
            readable.eq(next_filled != 0),
            self.room.eq(next_filled <= self.depth - self.tile_words),
        ]
        with m.If(pop):
            m.d.sync += read_address.eq(read_address + 1)

        # The rows of the words that were read, the first one lowest.
        fetched = Signal()
        valid = Signal()
        advance = Signal()
        rows_left = Signal(range(self.word_bits))  # after this one
        m.d.comb += [
            advance.eq(~valid | (self.o.ready & (rows_left == 0))),
            fetch.eq(~fetched | advance),
            self.o.valid.eq(valid | ~self.used),
        ]
        with m.If(fetch):
            m.d.sync += fetched.eq(readable)
        with m.If(advance):
            m.d.sync += [valid.eq(fetched), rows_left.eq(self.word_bits - 1)]
        with m.Elif(self.o.ready):
            m.d.sync += rows_left.eq(rows_left - 1)
        with m.If(self.start):
            m.d.sync += [
                filled.eq(0),
                readable.eq(0),
                self.room.eq(1),
                read_address.eq(0),
                fetched.eq(0),
                valid.eq(0),
            ]

        bits = []
        style = ram_style(self.word_bits, self.depth)
        for slot in range(self.slots):
            # The only word ever read while it is written is one that is not complete and is
            # dropped. Told so, Yosys builds no bypass around the RAM.
            m.submodules[f"ram{slot}"] = ram = memory.Memory(
                shape=unsigned(self.word_bits),
                depth=self.depth,
                init=[],
                attrs={"no_rw_check": 1, "ram_style": style},
            )
            write = ram.write_port()
            read = ram.read_port()
            rows = Signal(self.word_bits, name=f"rows{slot}", reset_less=True)
            m.d.comb += [
                write.addr.eq(self.address),
                write.data.eq(self.word),
                write.en.eq(self.write[slot]),
                read.addr.eq(read_address),
                read.en.eq(fetch),
            ]
            with m.If(advance):
                m.d.sync += rows.eq(read.data)
            with m.Elif(self.o.ready):
                m.d.sync += rows.eq(rows >> 1)
            bits.append(rows[0])
        m.d.comb += self.o.payload.eq(Mux(self.used, Cat(bits), Const(-1, self.slots)))
        return m
