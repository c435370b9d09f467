"""The buffers between two handshakes."""

import pytest

from hw.buffer import StreamBuffer, StreamRegister

from .streams import STALLS, StreamMonitor, receiver, sender, simulate, stalls

BUFFERS = pytest.mark.parametrize("buffer", [StreamBuffer, StreamRegister])


@BUFFERS
@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
def test_words_come_out_in_order(buffer, give, take):
    dut = buffer(12)
    words = list(range(100, 300))
    monitor = StreamMonitor(dut.o)
    simulate(
        dut,
        sender(dut.i, words, stalls(give, 1)),
        receiver(dut.o, len(words), stalls(take, 2)),
        background=[monitor.run],
    )
    assert monitor.words == words


@pytest.mark.parametrize(("buffer", "clocks"), [(StreamBuffer, 1), (StreamRegister, 2)])
def test_words_at_a_constant_rate_one_clock_later(buffer, clocks):
    dut = buffer(8)
    entered, left = StreamMonitor(dut.i), StreamMonitor(dut.o)
    simulate(
        dut,
        sender(dut.i, range(100)),
        receiver(dut.o, 100),
        background=[entered.run, left.run],
    )
    first = entered.cycles[0]
    assert entered.cycles == [first + clocks * word for word in range(100)]
    assert left.cycles == [cycle + 1 for cycle in entered.cycles]


@BUFFERS
def test_a_buffer_without_bits_is_refused(buffer):
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        buffer(0)
