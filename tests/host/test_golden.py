"""The golden model against plain Python integers and the cases it must get right."""

import numpy as np
import pytest

from sim import golden

RNG = np.random.default_rng(20)


MOST_NEGATIVE = -(2**63)


def plain_scores(weights, scales, hidden, group, bias=None, multipliers=None):
    """The definition, term by term, in Python's unbounded integers."""
    columns = group or weights.shape[1]
    bias = [0] * len(weights) if bias is None else bias
    multipliers = [0] * len(hidden) if multipliers is None else multipliers
    return [
        [
            sum(
                int(scales[v, j // columns]) * int(weights[v, j]) * int(vector[j])
                for j in range(weights.shape[1])
            )
            + int(bias[v]) * int(multiplier)
            for v in range(len(weights))
        ]
        for vector, multiplier in zip(hidden, multipliers, strict=True)
    ]


def plain_order(line, k, allowed=None, bounds=None):
    """Ids of the k best of a line of scores by a full sort."""
    allowed = [True] * len(line) if allowed is None else allowed
    bounds = [0] * len(line) if bounds is None else bounds
    ranks = [int(score) + int(bound) for score, bound in zip(line, bounds, strict=True)]
    rows = [i for i in range(len(line)) if allowed[i]]
    return sorted(rows, key=lambda i: (-ranks[i], i))[:k]


def no_terms(rows):
    return np.zeros((rows, 0), np.int16)


@pytest.mark.parametrize("group", [0, 32])
@pytest.mark.parametrize("dim", [1, 32, 70])
@pytest.mark.parametrize(("weight_bits", "hidden_bits"), [(4, 8), (8, 16), (16, 16)])
def test_scores_equal_the_definition_in_unbounded_integers(group, dim, weight_bits, hidden_bits):
    half = 2 ** (weight_bits - 1)
    weights = RNG.integers(-half, half, (9, dim))
    scales = RNG.integers(-(2**15), 2**15, (9, -(-dim // group) if group else 1))
    top = 2 ** (hidden_bits - 1)
    hidden = RNG.integers(-top, top, (3, dim))
    result = golden.scores(weights, scales, hidden, group)
    assert result.dtype == np.int64
    assert result.tolist() == plain_scores(weights, scales, hidden, group)


def test_scores_of_full_range_values_are_exact():
    weights = np.full((1, 4096), -128, np.int8)
    ones = np.ones((1, 1), np.uint8)
    assert golden.scores(weights, ones, np.full((1, 4096), -128, np.int8)).item() == 67_108_864
    # Odd results just above 2**53 after scaling would be rounded by float64.
    hidden = np.full((1, 4096), -32767, np.int16)
    scales = np.full((1, 128), 65535, np.uint16)
    weights[0, 0] = -127
    expected = 65535 * 32767 * (4095 * 128 + 127)
    assert golden.scores(weights, scales, hidden, 32).item() == expected


def test_a_bias_is_added_in_the_unit_of_the_scores():
    weights = RNG.integers(-128, 128, (9, 70))
    scales = RNG.integers(0, 2**16, (9, 3))
    hidden = RNG.integers(-(2**15), 2**15, (4, 70))
    bias = RNG.integers(-(2**15), 2**15, 9).astype(np.int16)
    bias[:2] = -(2**15), 2**15 - 1
    multipliers = np.array([0, 1, 2**32 - 1, 12345], np.uint32)
    result = golden.scores(weights, scales, hidden, 32, bias, multipliers)
    assert result.tolist() == plain_scores(weights, scales, hidden, 32, bias, multipliers)


def test_a_bias_decides_the_order():
    # Logits 1.0 and 0.9 with biases 0 and 0.2, in tenths.
    weights, hidden = np.array([[10], [9]]), np.array([[1]])
    ones = np.ones((2, 1), int)
    (found,) = golden.scores(weights, ones, hidden, 0, np.array([0, 1]), np.array([2]))
    assert found.tolist() == [10, 11]
    assert golden.topk(found[np.newaxis], 1)[0].item() == 1


def test_products_are_signed():
    weights = np.array([[-1, 1]], np.int8)
    hidden = np.ones((1, 2), np.int16)
    assert golden.scores(weights, np.ones((1, 1), np.uint8), hidden).item() == 0


def test_chunks_of_rows_do_not_change_scores(monkeypatch):
    weights = RNG.integers(-128, 128, (50, 64))
    scales = RNG.integers(1, 2**16, (50, 2))
    hidden = RNG.integers(-32768, 32768, (4, 64))
    whole = golden.scores(weights, scales, hidden, 32)
    monkeypatch.setattr(golden, "CHUNK_BYTES", 3 * 8 * 72)
    assert (golden.scores(weights, scales, hidden, 32) == whole).all()


def test_values_beyond_exact_arithmetic_are_refused():
    wide = np.full((1, 4), 2**30)
    with pytest.raises(ValueError, match="exact float64"):
        golden.scores(wide, np.ones((1, 1), int), wide)
    with pytest.raises(ValueError, match="int64"):
        golden.scores(np.full((1, 4), 2**20), np.full((1, 1), 2**30), np.full((1, 4), 2**20))
    small = np.ones((1, 4), int), np.ones((1, 1), int), np.ones((1, 4), int), 0
    with pytest.raises(ValueError, match="a score may not fit in int64"):
        golden.scores(*small, np.array([2**63 - 1]), np.array([1]))
    with pytest.raises(ValueError, match="its multiplier may not fit in int64"):
        golden.scores(*small, np.array([2**32]), np.array([2**32]))
    with pytest.raises(ValueError, match="a rank may not fit in int64"):
        golden.topk(np.array([[2**62]]), 1, bounds=np.array([[2**62]]))
    with pytest.raises(TypeError, match="weights must be integers"):
        golden.scores(np.ones((1, 4)), np.ones((1, 1), int), np.ones((1, 4), int))


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="hidden must have the 4 columns"):
        golden.scores(np.ones((2, 4), int), np.ones((2, 1), int), np.ones((1, 5), int))
    with pytest.raises(ValueError, match=r"scales must be \[2, 2\]"):
        golden.scores(np.ones((2, 40), int), np.ones((2, 1), int), np.ones((1, 40), int), 32)
    matrix = np.ones((2, 4), int), np.ones((2, 1), int), np.ones((1, 4), int), 0
    with pytest.raises(ValueError, match=r"must be \[2\] and multipliers \[1\], got \[3\]"):
        golden.scores(*matrix, np.ones(3, int), np.ones(1, int))
    with pytest.raises(ValueError, match="a bias and its multipliers are given together"):
        golden.scores(*matrix, np.ones(2, int))
    with pytest.raises(ValueError, match=r"bounds must be \[1, 3\], got \[1, 2\]"):
        golden.topk(np.zeros((1, 3), int), 1, bounds=np.zeros((1, 2), int))
    with pytest.raises(ValueError, match=r"allowed must be \[1, 3\], got \[1, 2\]"):
        golden.topk(np.zeros((1, 3), int), 1, allowed=np.ones((1, 2), bool))
    with pytest.raises(TypeError, match="allowed must be bool, got int64"):
        golden.topk(np.zeros((1, 3), int), 1, allowed=np.ones((1, 3), int))
    with pytest.raises(ValueError, match=r"terms must be \[2, 0\], got \[2, 1\]"):
        golden.best_rows([(0, *matrix[:2], np.ones((2, 1), int))], matrix[2], 1)


@pytest.mark.parametrize(
    ("line", "k", "ids"),
    [
        ([7, 7, 7, 7], 2, [0, 1]),
        ([9, 8, 7, 1, 10], 3, [4, 0, 1]),
        ([-3, -4, -5, -6, -7], 1, [0]),
        ([-9, -9, -9, -9, -1], 1, [4]),
        ([1, 2, 3, 4], 4, [3, 2, 1, 0]),
        ([5, 3, 5, 3, 5], 4, [0, 2, 4, 1]),
        ([np.iinfo(np.int64).min, 0, np.iinfo(np.int64).max], 3, [2, 1, 0]),
    ],
)
def test_order_is_score_descending_then_id_ascending(line, k, ids):
    found, best = golden.topk(np.array([line], np.int64), k)
    assert found.tolist() == [ids]
    assert best.tolist() == [[line[i] for i in ids]]


def test_topk_equals_a_full_sort_with_many_ties():
    lines = RNG.integers(-20, 20, (30, 400))
    ids, best = golden.topk(lines, 37)
    for line, row_ids, row_scores in zip(lines.tolist(), ids.tolist(), best.tolist(), strict=True):
        order = plain_order(line, 37)
        assert row_ids == order
        assert row_scores == [line[i] for i in order]


def test_a_bound_takes_part_in_the_order_but_not_in_the_score():
    lines = RNG.integers(-20, 20, (30, 200))
    bounds = RNG.integers(0, 9, (30, 200))
    ids, best = golden.topk(lines, 17, bounds=bounds)
    for n in range(30):
        order = plain_order(lines[n], 17, bounds=bounds[n])
        assert ids[n].tolist() == order
        assert best[n].tolist() == lines[n, order].tolist()


def test_rows_that_are_not_allowed_are_no_candidates():
    lines = RNG.integers(-20, 20, (30, 200))
    allowed = RNG.random((30, 200)) < np.linspace(0, 1, 30)[:, np.newaxis]
    ids, best = golden.topk(lines, 17, allowed=allowed)
    assert not allowed[0].any()
    for n in range(30):
        order = plain_order(lines[n], 17, allowed=allowed[n])
        padding = 17 - len(order)
        assert ids[n].tolist() == order + [-1] * padding
        assert best[n].tolist() == lines[n, order].tolist() + [MOST_NEGATIVE] * padding


def test_fewer_rows_than_k_come_without_filler():
    ids, best = golden.topk(np.array([[1, 3, 2]]), 8)
    assert ids.tolist() == [[1, 2, 0]]
    assert best.tolist() == [[3, 2, 1]]


def test_k_below_one_is_refused():
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        golden.topk(np.zeros((1, 3), int), 0)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        golden.best_rows([], np.zeros((1, 3), int), 0)


@pytest.mark.parametrize("step", [1, 7, 64, 500])
@pytest.mark.parametrize("block", [2, 5])
def test_best_rows_do_not_depend_on_the_chunks(step, block, monkeypatch):
    monkeypatch.setattr(golden, "VECTOR_BLOCK", block)
    weights = RNG.integers(-2, 2, (130, 32))
    scales = np.ones((130, 1), int)
    hidden = RNG.integers(-3, 3, (5, 32))
    chunks = [
        (start, *(part[start : start + step] for part in (weights, scales, no_terms(130))))
        for start in range(0, 130, step)
    ]
    ids, best = golden.best_rows(chunks, hidden, 20, 32)
    expected_ids, expected = golden.topk(golden.scores(weights, scales, hidden, 32), 20)
    assert (ids == expected_ids).all()
    assert (best == expected).all()


@pytest.mark.parametrize("step", [1, 64, 500])
@pytest.mark.parametrize("block", [2, 5])
@pytest.mark.parametrize(("bias", "bound"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("density", [0, 0.05, 0.7, None])
def test_terms_and_mask_go_with_their_rows(step, block, bias, bound, density, monkeypatch):
    monkeypatch.setattr(golden, "VECTOR_BLOCK", block)
    weights = RNG.integers(-2, 3, (130, 32))
    scales = np.ones((130, 1), int)
    hidden = RNG.integers(-3, 4, (5, 32))
    terms = RNG.integers(-4, 5, (130, 2))
    bias_multipliers, bound_multipliers = RNG.integers(0, 9, (2, 5))
    allowed = None if density is None else RNG.random((5, 130)) < density
    columns = [n for n, there in enumerate((bias, bound)) if there]
    chunks = [
        (start, *(part[start : start + step] for part in (weights, scales, terms[:, columns])))
        for start in range(0, 130, step)
    ]
    ids, best = golden.best_rows(
        chunks,
        hidden,
        20,
        32,
        bias_multipliers=bias_multipliers if bias else None,
        bound_multipliers=bound_multipliers if bound else None,
        allowed=allowed,
    )
    score = np.array(plain_scores(weights, scales, hidden, 32))
    score += bias * bias_multipliers[:, np.newaxis] * terms[:, 0]
    bounds = bound * bound_multipliers[:, np.newaxis] * terms[:, 1]
    for n in range(5):
        order = plain_order(score[n], 20, None if allowed is None else allowed[n], bounds[n])
        padding = 20 - len(order)
        assert ids[n].tolist() == order + [-1] * padding
        assert best[n].tolist() == score[n, order].tolist() + [MOST_NEGATIVE] * padding


def test_best_rows_fill_places_without_a_row():
    chunks = [(0, np.array([[2], [3]]), np.ones((2, 1), int), no_terms(2))]
    ids, best = golden.best_rows(chunks, np.array([[1]]), 4)
    assert ids.tolist() == [[1, 0, -1, -1]]
    assert best.tolist() == [[3, 2, MOST_NEGATIVE, MOST_NEGATIVE]]
