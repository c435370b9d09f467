"""What the LUTs of each block of an accelerator grow with, for `host.explore.area`.

Every figure is a number of bits, or of instances, that a block has: the estimate of its LUTs is a
constant for each, fitted to synthesised configurations.
"""

from hw.config import HeadConfig, ceil_div
from hw.hidden import slice_bits
from hw.multiplier import WideMultiplier
from hw.results import RECORD_BYTES

DISTRIBUTED_WORDS = 16
"""Words of a distributed RAM of an ECP5."""


def _tree_bits(config: HeadConfig) -> int:
    """Bits of the adders that add up the products of one row."""
    terms, width, bits = config.lane_width, config.weight_bits + config.hidden_bits, 0
    while terms > 1:
        terms, width = ceil_div(terms, 2), width + 1
        bits += terms * width
    return bits


def _key_bits(config: HeadConfig) -> int:
    """Bits of what the top-k orders."""
    return config.rank_bits + config.id_bits + 16 * config.bound


def features(config: HeadConfig) -> dict[str, dict[str, float]]:
    """By block and name; blocks that a configuration has not are not there."""
    channels, batch, bus = config.channels, config.batch, config.bus_bits
    rows = channels * batch * config.lane_units
    rankers = channels * config.rankers
    topks = channels * batch * (1 + config.job_queue)
    levels = config.k.bit_length()
    key = _key_bits(config)
    limbs = WideMultiplier.limbs_of(config.dot_bits)
    found = {
        "reader": {
            "one": channels,
            "bus": channels * bus,
            "mask": channels * bus * config.mask,
        },
        "unpacker": {"one": channels, "bus": channels * bus},
        "loader": {"one": 1, "batch": batch, "cut": bus * (bus > slice_bits(config))},
        "hidden": {"one": channels * batch},
        "header": {"one": channels, "bus": channels * bus},
        "scales": {
            "one": channels,
            "bus": channels * bus,
            "word": channels * config.lane_units * config.scale_bits,
        },
        "farm": {
            "one": channels,
            "tree": rows * _tree_bits(config),
            "scaled": rows * config.scaled_bits * limbs,
            "sums": rows * (config.dot_bits + config.sum_bits),
            "turning": rows * (config.dot_bits + config.sum_bits) * (config.fold_units - 1),
            "lanes": channels * batch * config.lanes,
            "pairs": channels * batch * config.lanes * config.dsp_pairs,
        },
        "queue": {
            "one": rankers,
            "row": channels * batch * config.score_bits,
            "rows": rows * config.score_bits,
            "single": rows * config.score_bits * (config.lane_units == 1),
        },
        "queue_buffer": {"one": rankers, "vectors": channels * batch},
        "topk": {
            "one": topks,
            "key": topks * key,
            "levels": topks * key * levels,
            "words": topks * key * ceil_div(config.k, DISTRIBUTED_WORDS),
        },
        "plan": {"one": 1, "channels": channels},
        "results": {
            "one": 1,
            "channels": channels,
            "merged": channels * key,
            "bus": max(bus, 8 * RECORD_BYTES),
            "batch": batch,
            "job_queue": config.job_queue,
        },
        "writer": {"one": channels if config.all_logits else 1, "bus": bus * _writers(config)},
        "control": {"one": 1, "channels": channels, "job_queue": config.job_queue},
        "registers": {"one": 1, "channels": channels, "functions": _functions(config)},
        "counters": {"one": 1, "channels": channels, "job_queue": config.job_queue},
        "connections": {
            "one": 1,
            "channels": channels,
            "folded": channels * bus * (config.fold > 1),
            "vectors": channels * batch,
            "job_queue": config.job_queue,
        },
    }
    if config.has_parameters:
        found["parameters"] = {"one": 1, "batch": batch}
    if config.terms:
        values = rankers * config.terms
        found["bias"] = {"one": rankers * config.bias, "bus": rankers * config.bias * bus}
        found["bound"] = {"one": rankers * config.bound, "bus": rankers * config.bound * bus}
        found["terms_buffer"] = {"one": rankers, "vectors": channels * batch}
        found["terms"] = {"one": values, "score": values * config.score_bits, "batch": batch}
    if config.mask:
        found["mask"] = {"one": channels, "bus": channels * bus, "vectors": channels * batch}
    if config.logsumexp:
        found["logsumexp"] = {"one": rankers, "score": rankers * config.score_bits}
        found["merger"] = {"one": channels > 1, "channels": channels - 1}
    if config.all_logits:
        found["logits"] = {"one": rankers, "bus": rankers * bus}
        found["arbiter"] = {"one": channels, "bus": channels * bus}
    return found


def _writers(config: HeadConfig) -> int:
    """Channels that write."""
    return config.channels if config.all_logits else 1


def _functions(config: HeadConfig) -> int:
    return config.mask + config.all_logits + config.logsumexp + config.terms + config.job_queue
