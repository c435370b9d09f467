"""CRC-32 of a range of DRAM in hardware; imported only where LiteX is installed."""

from litedram.frontend.dma import LiteDRAMDMAReader
from liteeth.mac.crc import LiteEthMACCRCEngine
from litex.gen import LiteXModule
from litex.soc.interconnect import stream
from litex.soc.interconnect.csr import CSR, CSRStatus, CSRStorage
from migen import If, Signal

WORD_BITS = 32
POLYNOMIAL = 0x04C11DB7
"""Of IEEE 802.3, which is that of `zlib.crc32`."""


class MemoryChecksum(LiteXModule):
    """What `zlib.crc32` gives for a range of the memory, 32 bits a clock.

    Over a bridge that carries 84 kB/s reading an image back takes minutes; this takes 0.1 s for
    30 MB at 75 MHz.

    Parameters
    ----------
    port : litedram.common.LiteDRAMNativePort
        Read-only.

    Attributes
    ----------
    address : CSRStorage
        First word of the range, counted in words of the port.
    words : CSRStorage
        Words in the range, at least 1.
    start : CSR
        Any write starts.
    busy : CSRStatus
    value : CSRStatus
        Of the range, when no longer busy.
    """

    def __init__(self, port):
        self.address = CSRStorage(32)
        self.words = CSRStorage(32)
        self.start = CSR()
        self.busy = CSRStatus()
        self.value = CSRStatus(32)

        self.reader = reader = LiteDRAMDMAReader(port, fifo_depth=16)
        self.converter = converter = stream.Converter(port.data_width, WORD_BITS)
        self.engine = engine = LiteEthMACCRCEngine(WORD_BITS, 32, POLYNOMIAL)

        address = Signal(port.address_width)
        requests, results = Signal(32), Signal(32 + 6)
        state, data, data_valid = Signal(32), Signal(WORD_BITS), Signal()
        parts = port.data_width // WORD_BITS
        self.comb += [
            reader.sink.valid.eq(requests != 0),
            reader.sink.address.eq(address),
            reader.source.connect(converter.sink),
            converter.source.ready.eq(1),
            engine.data.eq(data),
            engine.crc_prev.eq(state),
            self.busy.status.eq(results != 0),
            # zlib's bits are those of the shift register in reverse order, inverted.
            self.value.status.eq(~state[::-1]),
        ]
        self.sync += [
            If(reader.sink.valid & reader.sink.ready, address.eq(address + 1)),
            If(reader.sink.valid & reader.sink.ready, requests.eq(requests - 1)),
            data.eq(converter.source.data),
            data_valid.eq(converter.source.valid),
            If(data_valid, state.eq(engine.crc_next), results.eq(results - 1)),
            If(
                self.start.re,
                address.eq(self.address.storage),
                requests.eq(self.words.storage),
                results.eq(self.words.storage * parts),
                state.eq(2**32 - 1),
            ),
        ]
