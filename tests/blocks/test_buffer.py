"""The buffer between two handshakes."""

import pytest

from hw.buffer import StreamBuffer

from .streams import STALLS, StreamMonitor, receiver, sender, simulate, stalls


@pytest.mark.parametrize("take", STALLS)
@pytest.mark.parametrize("give", STALLS)
def test_words_come_out_in_order(give, take):
    buffer = StreamBuffer(12)
    words = list(range(100, 300))
    monitor = StreamMonitor(buffer.o)
    simulate(
        buffer,
        sender(buffer.i, words, stalls(give, 1)),
        receiver(buffer.o, len(words), stalls(take, 2)),
        background=[monitor.run],
    )
    assert monitor.words == words


def test_a_word_per_clock_without_bubbles_one_clock_later():
    buffer = StreamBuffer(8)
    entered, left = StreamMonitor(buffer.i), StreamMonitor(buffer.o)
    simulate(
        buffer,
        sender(buffer.i, range(100)),
        receiver(buffer.o, 100),
        background=[entered.run, left.run],
    )
    assert entered.bubbles == 0
    assert left.cycles == [cycle + 1 for cycle in entered.cycles]


def test_a_buffer_without_bits_is_refused():
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        StreamBuffer(0)
