"""Heads of random integers, as they lie in memory and with the golden model's results."""

import heapq
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hw.config import HeadConfig
from hw.layout import ImageLayout, Tile
from sim import golden
from sim.golden_logsumexp import accumulate

PARAMETER_BYTES = 16
BIAS, BOUND, MULTIPLIER, SHIFT = range(4)
"""Columns of `RandomHead.parameters`."""


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """Integers one after the other in fields of 4, 8 or 16 bits, little-endian, uint8."""
    words = (values.reshape(-1) & (1 << bits) - 1).astype(f"<u{max(bits, 8) // 8}")
    if bits < 8:
        words = words[0::2] | words[1::2] << bits
    return words.view(np.uint8)


def padded_beats(data: bytes, config: HeadConfig) -> bytes:
    """`data` with zeros up to whole beats."""
    size = config.bus_bytes
    return data.ljust(-(-len(data) // size) * size, b"\0")


@dataclass(frozen=True)
class RandomHead:
    """Integer weights, scales and terms of a head, and hidden vectors for it.

    `weights` int [V, d], `scales` int [V, groups], `hidden` int [N, d], `terms` int [V, built
    terms], `parameters` int [N, 4]: multipliers of bias, bound and log-sum-exp, and its shift.
    """

    config: HeadConfig
    weights: np.ndarray
    scales: np.ndarray
    hidden: np.ndarray
    terms: np.ndarray | None = None
    parameters: np.ndarray | None = None

    def __post_init__(self):
        if self.terms is None:
            terms = np.zeros((len(self.weights), self.config.terms), np.int64)
            object.__setattr__(self, "terms", terms)
        if self.parameters is None:
            object.__setattr__(self, "parameters", np.zeros((len(self.hidden), 4), np.int64))

    @cached_property
    def layout(self) -> ImageLayout:
        return ImageLayout(self.config, *self.weights.shape)

    # As it lies in memory.

    def images(self) -> list[np.ndarray]:
        """The packed image of every channel, uint8."""
        images = [
            np.zeros(self.layout.channel_bytes(channel), np.uint8)
            for channel in range(self.config.channels)
        ]
        for tile in map(self.layout.tile, range(self.layout.tiles)):
            place = tile.offset_beats * self.config.bus_bytes
            data = self._tile(tile)
            images[tile.channel][place : place + len(data)] = data
        return images

    def _tile(self, tile: Tile) -> np.ndarray:
        config, layout = self.config, self.layout
        stored = tile.blocks * config.units
        rows = slice(tile.first_row, tile.first_row + tile.rows)
        missing = (0, stored - tile.rows)
        terms = np.pad(self.terms[rows], (missing, (0, 0))).T
        scales = np.pad(self.scales[rows], (missing, (0, 0)))
        scales = scales.reshape(tile.blocks, config.units, layout.groups).transpose(0, 2, 1)
        columns = (0, layout.padded_dim - layout.dim)
        weights = np.pad(self.weights[rows], (missing, columns))
        weights = weights.reshape(tile.blocks, config.units, layout.row_beats, config.width)
        header = np.concatenate([packed(terms, 16), packed(scales, config.scale_bits)])
        body = packed(weights.transpose(0, 2, 1, 3), config.weight_bits)
        padding = np.zeros(tile.header_beats * config.bus_bytes - len(header), np.uint8)
        return np.concatenate([header, padding, body])

    def hidden_bytes(self, vectors: int | None = None) -> bytes:
        """The hidden vectors (default: all) with their parameters as they lie in DRAM."""
        config = self.config
        parts = []
        for vector, parameters in zip(self.hidden[:vectors], self.parameters, strict=False):
            state = np.zeros(self.layout.padded_dim, f"<i{config.hidden_bits // 8}")
            state[: len(vector)] = vector
            parts.append(padded_beats(state.tobytes(), config))
            if config.has_parameters:
                parts.append(padded_beats(parameters.astype("<u4").tobytes(), config))
        return b"".join(parts)

    # What the golden model makes of it.

    @cached_property
    def scores(self) -> np.ndarray:
        """Scores of all vectors and rows, int64 [N, V]."""
        bias = {}
        if self.config.bias:
            bias = {"bias": self.terms[:, 0], "bias_multipliers": self.parameters[:, BIAS]}
        return golden.scores(self.weights, self.scales, self.hidden, self.config.group, **bias)

    @cached_property
    def bounds(self) -> np.ndarray | None:
        """What the ranks exceed the scores by, int64 [N, V]."""
        if not self.config.bound:
            return None
        return self.parameters[:, BOUND, None] * self.terms[None, :, -1]

    def best(self, vector: int, k: int, allowed=None) -> list[tuple[int, int]]:
        """(score, id) of the k best rows of a vector; `allowed` bool [V]."""
        one = slice(vector, vector + 1)
        ids, scores = golden.topk(
            self.scores[one],
            k,
            allowed=None if allowed is None else allowed[None],
            bounds=None if self.bounds is None else self.bounds[one],
        )
        return [(int(s), int(i)) for s, i in zip(scores[0], ids[0], strict=True) if i >= 0]

    def logsumexp(self, vector: int, allowed=None) -> tuple[int, int]:
        """Exponent and sum of the log-sum-exp; zeros where it is not built."""
        if not self.config.logsumexp:
            return 0, 0
        _, _, multiplier, shift = self.parameters[vector].tolist()
        return accumulate(self.scores[vector], multiplier, shift, allowed)

    def insertions(self, vector: int, k: int, allowed=None) -> int:
        """Rows that enter a list of the k best of their channel, taken in the order of ids."""
        ranks = self.scores[vector] if self.bounds is None else (self.scores + self.bounds)[vector]
        kept = [[] for _ in range(self.config.channels)]
        count = 0
        for row, rank in enumerate(ranks.tolist()):
            if allowed is not None and not allowed[row]:
                continue
            heap = kept[row // self.config.tile_rows % self.config.channels]
            entry = (rank, -row)
            if len(heap) < k:
                heapq.heappush(heap, entry)
                count += 1
            elif entry > heap[0]:
                heapq.heapreplace(heap, entry)
                count += 1
        return count


def integers(rng, bits: int, shape, signed: bool = True) -> np.ndarray:
    """Random integers over the full range of a format, its ends frequent."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    values = rng.integers(low, high + 1, shape)
    pick = rng.random(shape)
    return np.where(pick < 0.05, low, np.where(pick > 0.95, high, values))


def unit_parameters(unit: float) -> tuple[int, int]:
    """Multiplier and shift of the log-sum-exp for scores of which one is `unit` in log2."""
    mantissa, exponent = np.frexp(unit)
    shift = min(max(2 - int(exponent), 0), 127)
    return min(int(np.rint(float(mantissa) * 2.0**32)), 2**32 - 1), shift


def random_parameters(config: HeadConfig, scores: np.ndarray, rng, ties: bool) -> np.ndarray:
    """Parameters of one vector, int [4]; functions that are not built have zeros."""
    parameters = np.zeros(4, np.int64)
    largest = max(1, int(abs(scores).max()))
    for column, built in ((BIAS, config.bias), (BOUND, config.bound)):
        if built:
            # Extremes, and multipliers that let terms and scores compete.
            alike = rng.integers(0, 2 + min(2**32 - 2, largest >> 12))
            parameters[column] = rng.choice((0, 1, 2**32 - 1, alike, alike, alike))
            if ties:
                parameters[column] = 1
    if config.logsumexp:
        # How far the scores are spread in log2: no row, some or nearly all are out of the window.
        spread = rng.choice((0.01, 1, 20, 60, 300, 2000, 20_000))
        parameters[MULTIPLIER:] = unit_parameters(spread / largest)
        if rng.random() < 0.1:
            parameters[MULTIPLIER:] = rng.choice((0, 1, 2**32 - 1)), rng.integers(0, 128)
    return parameters


def random_head(
    config: HeadConfig, rows: int, dim: int, rng, *, vectors: int = 1, ties: bool = False
) -> RandomHead:
    """A head over the full ranges of its formats or, with `ties`, one of few distinct scores."""
    groups = config.groups(dim)
    if ties:
        weights = rng.integers(-1, 2, (rows, dim)) * (rng.random((rows, dim)) < 2 / dim)
        scales = np.ones((rows, groups), int)
        terms = rng.integers(-1, 2, (rows, config.terms))
    else:
        weights = integers(rng, config.weight_bits, (rows, dim))
        scales = integers(rng, config.scale_bits, (rows, groups), config.scale_signed)
        terms = integers(rng, 16, (rows, config.terms))
    hidden = integers(rng, config.hidden_bits, (vectors, dim))
    plain = golden.scores(weights, scales, hidden, config.group)
    parameters = np.array([random_parameters(config, line, rng, ties) for line in plain])
    return RandomHead(config, weights, scales, hidden, terms, parameters)


def head_of_scores(config: HeadConfig, scores, row_scales=None) -> RandomHead:
    """A head of one column whose scores are as given, times `row_scales`.

    Scores [V], or [N, V] for N vectors: then column b holds those of vector b.
    """
    scores = np.atleast_2d(np.array(scores))
    scales = np.ones((scores.shape[1], config.groups(len(scores))), int)
    if row_scales is not None:
        scales = scales * np.array(row_scales)[:, None]
    return RandomHead(config, scores.T, scales, np.eye(len(scores), dtype=int))
