"""All scores of a job, back from the order of the memory."""

import numpy as np
import pytest

from host.jobs.logits import channel_row_ids, read_scores
from hw.config import HeadConfig
from hw.layout import ImageLayout

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("bus_bits", [64, 512])
@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.parametrize(("batch", "rankers"), [(1, 1), (5, 1), (5, 2), (4, 4)])
@pytest.mark.parametrize("rows", [1, 63, 200])
def test_every_score_is_read_from_where_the_layout_says(bus_bits, channels, batch, rankers, rows):
    config = HeadConfig(
        bus_bits=bus_bits,
        width=8,
        tile_rows=16,
        channels=channels,
        batch=batch,
        rankers=rankers,
    )
    layout = ImageLayout(config, rows, 8)
    for vectors in {1, batch - batch // 2, batch}:
        scores = RNG.integers(-(2**63), 2**63, (vectors, rows))
        sizes = [layout.logits_bytes(channel, vectors) for channel in range(channels)]
        memory = [np.full(size, 0xA5, np.uint8) for size in sizes]
        for (vector, row), score in np.ndenumerate(scores):
            place = layout.logit(row, vector, vectors)
            memory[place.channel][place.byte : place.byte + 8].view("<i8")[0] = score
        found = read_scores(layout, lambda channel, size, m=memory: m[channel][:size], vectors)
        assert np.array_equal(found, scores)


def test_a_channel_without_a_tile_is_not_read():
    layout = ImageLayout(HeadConfig(channels=4, tile_rows=16, all_logits=True), 20, 8)
    read = []

    def memory(channel, size):
        read.append(channel)
        return np.zeros(size, np.uint8)

    assert read_scores(layout, memory, 1).shape == (1, 20)
    assert read == [0, 1]


def test_tiles_go_to_the_channels_in_turn():
    layout = ImageLayout(HeadConfig(channels=2, tile_rows=16), 60, 8)
    assert channel_row_ids(layout, 0).tolist() == [*range(16), *range(32, 48)]
    assert channel_row_ids(layout, 1).tolist() == [*range(16, 32), *range(48, 60)]
