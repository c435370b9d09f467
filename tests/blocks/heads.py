"""Random heads, their images bit by bit, and their sums by definition."""

from dataclasses import dataclass, field

import numpy as np

from hw.config import MULTIPLIER_BITS, TERM_BITS, HeadConfig, ceil_div
from hw.header import term_names
from hw.layout import ImageLayout
from hw.parameters import PARAMETER_BYTES


def full_range(rng, bits, shape, signed=True):
    """Random integers whose extremes are frequent."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    values = rng.integers(low, high + 1, shape)
    extremes = rng.random(shape)
    values[extremes < 0.1] = low
    values[extremes > 0.9] = high
    return values


@dataclass(frozen=True)
class Head:
    """What a job computes with: weights [V, d], scales [V, groups], hidden [N, d], terms by name
    [V], parameters [N, 4].
    """

    weights: np.ndarray
    scales: np.ndarray
    hidden: np.ndarray
    terms: dict[str, np.ndarray] = field(default_factory=dict)
    parameters: np.ndarray | None = None


def random_head(config: HeadConfig, rows: int, dim: int, vectors: int, seed: int) -> Head:
    """Everything over the full ranges of its format."""
    rng = np.random.default_rng(seed)
    return Head(
        weights=full_range(rng, config.weight_bits, (rows, dim)),
        scales=full_range(rng, config.scale_bits, (rows, config.groups(dim)), config.scale_signed),
        hidden=full_range(rng, config.hidden_bits, (vectors, dim)),
        terms={name: full_range(rng, TERM_BITS, rows) for name in term_names(config)},
        parameters=rng.integers(0, 1 << MULTIPLIER_BITS, (vectors, 4)),
    )


def exact_sums(config: HeadConfig, head: Head) -> list[list[int]]:
    """By vector and row, the sums without terms in Python integers."""
    dim = head.weights.shape[1]
    group = config.group or dim
    column_scales = np.repeat(head.scales, group, axis=1)[:, :dim].astype(object)
    scaled = head.weights.astype(object) * column_scales
    return [(scaled * state.astype(object)).sum(axis=1).tolist() for state in head.hidden]


def _beats(config: HeadConfig, content: bytes) -> list[int]:
    size = config.bus_bytes
    return [
        int.from_bytes(content[at : at + size], "little") for at in range(0, len(content), size)
    ]


def image_beats(config: HeadConfig, head: Head) -> list[list[int]]:
    """By channel, the packed image, bit by bit from the layout's positions."""
    layout = ImageLayout(config, *head.weights.shape)
    images = [bytearray(layout.channel_bytes(channel)) for channel in range(config.channels)]

    def place(position, bits, value):
        image_bits = (int(value) & (1 << bits) - 1) << position.bit
        for offset in range(ceil_div(position.bit + bits, 8)):
            images[position.channel][position.byte + offset] |= image_bits >> 8 * offset & 0xFF

    for row in range(layout.rows):
        for column in range(layout.dim):
            place(layout.weight(row, column), config.weight_bits, head.weights[row, column])
        for group in range(layout.groups):
            place(layout.scale(row, group), config.scale_bits, head.scales[row, group])
        for term, name in enumerate(term_names(config)):
            place(layout.term(row, term), TERM_BITS, head.terms[name][row])
    return [_beats(config, bytes(image)) for image in images]


def hidden_region(config: HeadConfig, head: Head) -> list[int]:
    """The beats of the hidden region: each state, padded, and its parameters."""
    size = config.bus_bytes

    def padded(content):
        return content.ljust(ceil_div(len(content), size) * size, b"\0")

    region = b""
    for state, parameters in zip(head.hidden, head.parameters, strict=True):
        values = np.zeros(config.padded_dim(len(state)), f"<i{config.hidden_bits // 8}")
        values[: len(state)] = state
        region += padded(values.tobytes())
        if config.has_parameters:
            words = parameters.astype("<u4").tobytes()
            assert len(words) == PARAMETER_BYTES
            region += padded(words)
    return _beats(config, region)
