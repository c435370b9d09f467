"""The result block as it is parsed."""

import numpy as np
import pytest

from host.jobs.result_block import parse_results, result_bytes, trailer_bytes, trailer_offset
from hw.config import HeadConfig
from hw.counters import CHANNEL_COUNTERS, JOB_COUNTERS, counter_names

PLAIN = HeadConfig(bus_bits=64, group=32, k=8, max_dim=64, max_rows=128)


def test_a_count_beyond_k_is_refused():
    block = np.zeros(result_bytes(PLAIN, 2, 1), np.uint8)
    block[0] = 3
    with pytest.raises(ValueError, match="counts 3 records of at most 2"):
        parse_results(block, PLAIN, 2, 1)


@pytest.mark.parametrize("bus_bits", [64, 128, 256, 512])
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_vectors_and_trailer_lie_one_behind_the_other(bus_bits, channels):
    config = HeadConfig(bus_bits=bus_bits, channels=channels, batch=4, k=8)
    names = counter_names(config)
    vector = -(-(16 + 2 * 16) // config.bus_bytes) * config.bus_bytes
    assert trailer_offset(config, 2, 3) == 3 * vector
    assert trailer_bytes(config) == 64 * -(-(len(names) + 1) // 8)
    block = np.zeros(result_bytes(config, 2, 3), np.uint8)
    for n, count in enumerate((2, 0, 1)):
        words = block[n * vector :].view("<i8")
        words[0] = count | (n - 5 << 32)
        words[1] = 1000 + n
        words[2 : 2 + 2 * count] = [-100 - n, 7 + n, -200, 9][: 2 * count]
    trailer = block[3 * vector :].view("<u8")
    trailer[: len(names)] = np.arange(len(names)) + (1 << 40)
    trailer[-1] = 77 << 32 | 8
    parsed = parse_results(block, config, 2, 3)
    assert [part.ids.tolist() for part in parsed.vectors] == [[7, 9], [], [9]]
    assert [part.scores.tolist() for part in parsed.vectors] == [[-100, -200], [], [-102]]
    assert [part.exponent for part in parsed.vectors] == [-5, -4, -3]
    assert [part.sum for part in parsed.vectors] == [1000, 1001, 1002]
    assert (parsed.status, parsed.job) == (8, 77)
    values = {name: index + (1 << 40) for index, name in enumerate(names)}
    assert parsed.counters == {name: values[name] for name, _ in JOB_COUNTERS}
    for name, _ in CHANNEL_COUNTERS:
        expected = tuple(values[f"{name}{channel}"] for channel in range(channels))
        assert parsed.channel_counters[name] == expected
