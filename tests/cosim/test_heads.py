"""The heads of these tests lie in memory as `hw.layout` says."""

import numpy as np
import pytest

from hw.config import HeadConfig
from tests.cosim.heads import random_head
from tests.cosim.jobs import Job

CONFIGS = {
    "plain": HeadConfig(bus_bits=64, tile_rows=12, width=4),
    "channels_and_terms": HeadConfig(
        bus_bits=128, weight_bits=4, scale_bits=8, channels=4, tile_rows=6, width=16, batch=3,
        bias=True, bound=True, mask=True,
    ),
    "wide_weights": HeadConfig(
        bus_bits=256, weight_bits=16, group=0, channels=2, tile_rows=24, width=2, batch=5,
        bound=True, mask=True,
    ),
}  # fmt: skip


def field(memory: list[np.ndarray], position, bits: int) -> int:
    """The field of `bits` at a position, without sign."""
    size = -(-bits // 8)
    data = memory[position.channel][position.byte : position.byte + size].tobytes()
    return int.from_bytes(data, "little") >> position.bit & (1 << bits) - 1


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("shape", [(1, 1), (37, 70), (48, 64)])
def test_every_value_is_where_the_layout_says(name, shape):
    config = CONFIGS[name]
    rng = np.random.default_rng(1)
    head = random_head(config, *shape, rng, vectors=config.batch)
    layout, images = head.layout, head.images()
    assert [len(image) for image in images] == [
        layout.channel_bytes(channel) for channel in range(config.channels)
    ]
    allowed = rng.random((config.batch, shape[0])) < 0.5
    job = Job(head, 1, allowed=allowed)
    masks = [job.mask_bytes(channel) for channel in range(config.channels)]
    for row in range(shape[0]):
        for column, weight in enumerate(head.weights[row].tolist()):
            bits = config.weight_bits
            assert field(images, layout.weight(row, column), bits) == weight & (1 << bits) - 1
        for group, scale in enumerate(head.scales[row].tolist()):
            bits = config.scale_bits
            assert field(images, layout.scale(row, group), bits) == scale & (1 << bits) - 1
        for term, value in enumerate(head.terms[row].tolist()):
            assert field(images, layout.term(row, term), 16) == value & 0xFFFF
        for vector in range(config.batch):
            position = layout.mask(row, vector, config.batch)
            assert field(masks, position, 1) == allowed[vector, row]
