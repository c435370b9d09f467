"""Penalties and logit bias against the same rules applied to every logit."""

import numpy as np
import pytest

from host.adjustments import Adjustment, run_adjusted
from host.driver import Head
from host.errors import UserError
from host.image import save_image
from host.sampling import LogitTransform, logsumexp
from host.shards import ShardedHead
from hw.config import HeadConfig
from tests.host.fake_device import FakeDevice

RNG = np.random.default_rng(11)
ROWS, DIM = 120, 40
CONFIG = HeadConfig(
    bus_bits=64, group=32, k=32, max_dim=64, max_rows=128, mask=True, all_logits=True,
    logsumexp=True,
)  # fmt: skip


@pytest.fixture
def head(tmp_path):
    weights = RNG.integers(-127, 128, (ROWS, DIM))
    groups = np.ones((ROWS, CONFIG.groups(DIM)), int)
    image = save_image(tmp_path / "head.safetensors", CONFIG, weights, groups, 0.01)
    return Head(FakeDevice(CONFIG), image)


def states(count):
    return RNG.normal(size=(count, DIM))


def reference(logits, adjustment, history, k):
    """All logits adjusted one by one, and the best k of them."""
    adjusted = logits.copy()
    for token in range(len(logits)):
        count = list(history).count(token)
        value = adjusted[token]
        if count:
            value = value / adjustment.repetition if value > 0 else value * adjustment.repetition
            value -= adjustment.presence + adjustment.frequency * count
        adjusted[token] = value + adjustment.bias.get(token, 0.0)
    order = sorted(range(len(logits)), key=lambda t: (-adjusted[t], -logits[t], t))
    return adjusted, [token for token in order if adjusted[token] > -np.inf][:k]


ADJUSTMENTS = [
    Adjustment(repetition=1.3),
    Adjustment(repetition=0.7, presence=-2.0),
    Adjustment(presence=1.5, frequency=0.5),
    Adjustment(bias={3: 50.0, 5: -np.inf, 100: -4.0}),
    Adjustment(repetition=1.2, frequency=1.0, bias={7: 9.0, 8: -np.inf}),
    Adjustment(),
]


@pytest.mark.parametrize("adjustment", ADJUSTMENTS)
@pytest.mark.parametrize("transform", [LogitTransform(), LogitTransform(0.5, 8.0)])
def test_the_best_are_those_of_the_whole_vocabulary(head, adjustment, transform):
    hidden = states(4)
    raw = transform.apply(head.run(hidden, 1, all_logits=True).all_logits)
    best = [np.argsort(-line)[:12] for line in raw]
    histories = [best[0], [*best[1][:3]] * 3, [], RNG.integers(0, ROWS, 10)]
    found = run_adjusted(head, hidden, 6, adjustment, histories, transform=transform)
    for n, history in enumerate(histories):
        adjusted, expected = reference(raw[n], adjustment, history, 6)
        assert found.ids[n].tolist() == expected
        assert found.logits[n] == pytest.approx(adjusted[expected])


def test_the_sum_over_the_vocabulary_is_corrected(head):
    hidden = states(3)
    raw = head.run(hidden, 1, all_logits=True).all_logits / 4
    transform = LogitTransform(scale=0.25)
    adjustment = Adjustment(repetition=1.5, bias={2: 1.0, 9: -np.inf})
    histories = [[1, 2, 3], [], [50, 50]]
    found = run_adjusted(
        head, hidden, 4, adjustment, histories, transform=transform, with_logsumexp=True,
        temperature=0.8,
    )  # fmt: skip
    for n, history in enumerate(histories):
        adjusted, _ = reference(raw[n], adjustment, history, 4)
        assert found.logsumexp[n] == pytest.approx(logsumexp(adjusted / 0.8), abs=1e-4)


def test_the_transform_is_that_of_the_image_unless_it_is_given(head, tmp_path):
    capped = LogitTransform(0.5, 8.0)
    path = tmp_path / "capped.safetensors"
    image = save_image(path, CONFIG, *head.image.read_rows(0, ROWS), 0.01, transform=capped)
    arguments = states(1), 4, Adjustment(presence=1.0), [[1, 2]]
    expected = run_adjusted(head, *arguments, transform=capped).logits.tolist()
    own = Head(FakeDevice(CONFIG), image)
    assert run_adjusted(own, *arguments).logits.tolist() == expected
    found = run_adjusted(own, *arguments, transform=LogitTransform()).logits.tolist()
    assert found == run_adjusted(head, *arguments).logits.tolist()


def test_shards_adjust_as_the_whole_head_does(head, tmp_path):
    weights, scales = head.image.read_rows(0, ROWS)
    shards = []
    for first, stop in ((0, 50), (50, ROWS)):
        path, own = tmp_path / f"{first}.safetensors", slice(first, stop)
        image = save_image(path, CONFIG, weights[own], scales[own], 0.01, first_row=first)
        shards.append(Head(FakeDevice(CONFIG), image))
    mask = RNG.integers(-(1 << 31), 1 << 31, (3, 4)).astype(np.int32)
    histories = [[1, 2, 119], [49, 50], range(ROWS // 6)]
    adjustment = Adjustment(repetition=1.5, bias={50: 3.0, 9: -np.inf})
    arguments = states(3), 4, adjustment, histories
    found = run_adjusted(ShardedHead(shards), *arguments, mask=mask)
    expected = run_adjusted(head, *arguments, mask=mask)
    assert found.ids.tolist() == expected.ids.tolist()
    assert found.logits.tolist() == expected.logits.tolist()


def test_a_sum_that_the_changed_rows_hold_alone_is_refused(head):
    hidden = states(1) * 50
    best = head.run(hidden, 1).ids[0]
    with pytest.raises(UserError, match="state 0.*of the probability.*--all-logits"):
        run_adjusted(head, hidden, 4, Adjustment(presence=1.0), [best], with_logsumexp=True)


def test_a_softcap_within_the_sum_is_refused(head):
    with pytest.raises(UserError, match="--all-logits"):
        run_adjusted(
            head, states(1), 4, Adjustment(), [[]], transform=LogitTransform(1.0, 30.0),
            with_logsumexp=True,
        )  # fmt: skip


def test_more_lowered_rows_than_the_hardware_returns_are_refused_with_the_reason(head):
    hidden = states(1)
    raw = head.run(hidden, 1, all_logits=True).all_logits[0]
    worst_first = np.argsort(raw)
    # Forty rows at the end of the order are lowered: they cannot be among the best.
    adjustment = Adjustment(presence=5.0)
    found = run_adjusted(head, hidden, 6, adjustment, [worst_first[:40]])
    assert found.ids[0].tolist() == reference(raw, adjustment, worst_first[:40], 6)[1]
    # The forty best are: which rows follow them is not known.
    with pytest.raises(UserError, match="state 0.*lower 40 rows.*32 results.*--max-k"):
        run_adjusted(head, hidden, 6, Adjustment(presence=500.0), [worst_first[-40:]])


def test_a_row_the_mask_forbids_stays_out_whatever_its_bias(head):
    hidden = states(1)
    mask = np.full((1, 4), -1, np.int32)
    mask[0, 0] = ~np.int32(1 << 3)
    found = run_adjusted(head, hidden, 4, Adjustment(bias={3: 1e4}), [[]], mask=mask)
    assert 3 not in found.ids
    found = run_adjusted(head, hidden, 4, Adjustment(bias={3: 1e4}), [[]])
    assert found.ids[0, 0] == 3


def test_banned_rows_leave_places_empty_only_when_nothing_is_left(head):
    mask = np.zeros((1, 4), np.int32)
    mask[0, 1] = 0b111
    found = run_adjusted(head, states(1), 4, Adjustment(bias={33: -np.inf}), [[]], mask=mask)
    assert sorted(found.ids[0].tolist()) == [-1, -1, 32, 34]
    assert found.logits[0, 2:].tolist() == [-np.inf, -np.inf]


def test_a_mask_of_another_byte_order_is_the_same_mask(head):
    mask = np.random.default_rng(3).integers(-(1 << 31), 1 << 31, (2, 4)).astype(np.int32)
    hidden = states(2)
    adjustment = Adjustment(bias={1: 5.0, 17: 5.0, 23: -9.0, 40: 5.0, 80: 5.0})
    found = run_adjusted(head, hidden, 4, adjustment, [[], []], mask=mask)
    swapped = run_adjusted(head, hidden, 4, adjustment, [[], []], mask=mask.astype(">i4"))
    assert (swapped.ids == found.ids).all()
    with pytest.raises(UserError, match="mask"):
        run_adjusted(head, hidden, 4, adjustment, [[], []], mask=mask[:, :1])


@pytest.mark.parametrize("k", [0, -1, 33])
def test_k_out_of_range_is_named(head, k):
    with pytest.raises(UserError, match=rf"k: must be in 1\.\.32 \(found {k}\)"):
        run_adjusted(head, states(1), k, Adjustment(), [[]])


def test_one_history_for_several_states_is_refused(head):
    with pytest.raises(UserError, match="one for each state.*expected 2, found 1"):
        run_adjusted(head, states(2), 4, Adjustment(), [[]])


@pytest.mark.parametrize("token", [1.7, "3", -1, 2**70])
def test_a_history_of_anything_but_tokens_is_refused(head, token):
    with pytest.raises(UserError, match="history of state 0: place 1 is no token"):
        run_adjusted(head, states(1), 4, Adjustment(presence=1.0), [[5, token]])


@pytest.mark.parametrize("token", ["3", 3.5, True])
def test_a_bias_for_anything_but_tokens_is_refused(token):
    with pytest.raises(TypeError, match="tokens of bias must be integers"):
        Adjustment(bias={token: 1.0})


def test_ids_outside_the_vocabulary_are_named(head):
    with pytest.raises(UserError, match="history or bias of state 0.*no row of the image"):
        run_adjusted(head, states(1), 4, Adjustment(presence=1.0), [[ROWS]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repetition": 0.0}, "repetition must be finite and above 0"),
        ({"presence": np.inf}, "presence must be finite"),
        ({"bias": {4: np.inf}}, "bias of token 4 must be finite or -inf"),
    ],
)
def test_wrong_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Adjustment(**arguments)
