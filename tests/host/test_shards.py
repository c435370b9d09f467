"""Shards of a vocabulary against the head that holds all of it."""

import dataclasses

import numpy as np
import pytest

from host import shards
from host.driver import Head
from host.errors import UserError
from host.image import Image, save_image
from host.pack import PackOptions, pack
from host.sampling import LogitTransform
from host.shards import ShardedHead, shift_mask
from hw.config import HeadConfig
from tests.host.fake_device import FakeDevice

RNG = np.random.default_rng(13)
DIM = 40
CONFIG = HeadConfig(
    bus_bits=64, group=32, k=8, max_dim=64, max_rows=1024, mask=True, all_logits=True,
    logsumexp=True, bias=True, bound=True, batch=2,
)  # fmt: skip


def image_of(folder, name, weights, terms, weight_scale=0.01, **keywords):
    groups = np.ones((len(weights), CONFIG.groups(DIM)), int)
    return save_image(
        folder / f"{name}.safetensors", CONFIG, weights, groups, weight_scale, terms=terms,
        bias_unit=1e-4, bound_unit=1e-5, **keywords,
    )  # fmt: skip


def head_of(image):
    return Head(FakeDevice(CONFIG), image)


@pytest.mark.parametrize("sizes", [(501, 500), (37, 1, 100)])
def test_shards_give_what_the_whole_head_gives(tmp_path, sizes):
    rows = sum(sizes)
    # Few distinct scores, so that ties run across the shards.
    weights = RNG.integers(-1, 2, (rows, DIM)) * (RNG.random((rows, DIM)) < 0.1)
    terms = RNG.integers(0, 3, (rows, 2))
    edges = np.cumsum([0, *sizes])
    heads = [
        head_of(image_of(tmp_path, f"shard{n}", weights[a:b], terms[a:b], first_row=int(a)))
        for n, (a, b) in enumerate(zip(edges, edges[1:], strict=False))
    ]
    whole = head_of(image_of(tmp_path, "whole", weights, terms))
    sharded = ShardedHead(heads)
    assert sharded.rows == rows
    hidden = RNG.integers(-2, 3, (5, DIM)).astype(float)
    mask = RNG.integers(-(1 << 31), 1 << 31, (5, -(-rows // 32))).astype(np.int32)
    mask[4] = 0
    arguments = {"mask": mask, "logsumexp": True, "all_logits": True}
    expected = whole.run(hidden, 8, **arguments)
    found = sharded.run(hidden, 8, **arguments)
    for name in ("ids", "scores", "logits", "bounds", "all_logits", "job_of"):
        assert (getattr(found, name) == getattr(expected, name)).all(), name
    assert found.logsumexp == pytest.approx(expected.logsumexp, abs=1e-5)
    parts = [head.run(hidden, 8) for head in heads]
    counters = sharded.merge(parts).counters
    for name, combine in (("cycles", np.max), ("rows", np.sum), ("max_outstanding_bytes", np.max)):
        own = [part.counters[name] for part in parts]
        assert (counters[name] == combine(own, axis=0)).all(), name


def test_the_first_row_of_the_second_packed_shard_has_the_next_id(tmp_path):
    weights = np.full((1001, DIM), -1.0)
    weights[501] = 1
    np.save(tmp_path / "w.npy", weights)
    heads = []
    for name, rows in (("a", (0, 501)), ("b", (501, None))):
        options = PackOptions(bus_bits=64, row_range=rows)
        pack(tmp_path / "w.npy", tmp_path / name, options)
        image = Image(tmp_path / name)
        heads.append(Head(FakeDevice(dataclasses.replace(image.config, k=8)), image))
    assert [head.image.rows for head in heads] == [501, 500]
    assert heads[1].run(np.ones((1, DIM)), 1).ids.tolist() == [[0]]
    assert ShardedHead(heads).run(np.ones((1, DIM)), 1).ids.tolist() == [[501]]


@pytest.mark.parametrize("first", [0, 1, 31, 32, 37, 64])
def test_a_mask_is_cut_at_any_row(first):
    bits = RNG.integers(0, 2, (2, 160)).astype(bool)
    words = np.packbits(bits, axis=1, bitorder="little").view(np.int32)
    cut = shift_mask(words, first, 70)
    found = np.unpackbits(cut.view(np.uint8), axis=1, bitorder="little")[:, :70]
    assert (found == bits[:, first : first + 70]).all()


def test_images_of_different_units_are_no_shards(tmp_path):
    weights, terms = np.ones((5, DIM), int), np.zeros((5, 2), int)
    heads = [
        head_of(image_of(tmp_path, "a", weights, terms)),
        head_of(image_of(tmp_path, "b", weights, terms, weight_scale=0.02)),
    ]
    with pytest.raises(UserError, match=r"no shard of the same tensor.*weight_scale.*0.01.*0.02"):
        ShardedHead(heads)


def test_images_of_different_models_are_no_shards(tmp_path):
    weights, terms = np.ones((5, DIM), int), np.zeros((5, 2), int)
    capped = LogitTransform(softcap=30.0)
    heads = [
        head_of(image_of(tmp_path, "a", weights, terms)),
        head_of(image_of(tmp_path, "b", weights, terms, first_row=5, transform=capped)),
    ]
    with pytest.raises(UserError, match=r"b\.saf.*no shard of the same.*transform.*capped at 30"):
        ShardedHead(heads)


@pytest.mark.parametrize(
    ("first_rows", "culprit", "expected", "found"),
    [((5, 10), "0", 0, 5), ((0, 10), "1", 5, 10), ((0, 0), "1", 5, 0), ((0, 5, 5), "2", 10, 5)],
)
def test_shards_must_follow_each_other(tmp_path, first_rows, culprit, expected, found):
    weights, terms = np.ones((5, DIM), int), np.zeros((5, 2), int)
    heads = [
        head_of(image_of(tmp_path, str(n), weights, terms, first_row=first))
        for n, first in enumerate(first_rows)
    ]
    message = (
        rf"{culprit}\.safetensors: is not the next shard.*expected {expected}, found {found}\)"
    )
    with pytest.raises(UserError, match=message):
        ShardedHead(heads)


def test_an_interrupt_ends_all_shards_after_their_job(tmp_path, monkeypatch):
    weights, terms = np.ones((5, DIM), int), np.zeros((5, 2), int)
    heads = [head_of(image_of(tmp_path, str(n), weights, terms, first_row=5 * n)) for n in (0, 1)]

    def interrupt(futures):
        raise KeyboardInterrupt

    monkeypatch.setattr(shards, "wait", interrupt)
    hidden = np.ones((400, DIM))
    with pytest.raises(KeyboardInterrupt):
        ShardedHead(heads).run(hidden, 1)
    for head in heads:
        assert head.device.registers["JOBS"] < 100  # of 200
        head.soft_reset()
    monkeypatch.undo()
    assert len(ShardedHead(heads).run(hidden[:3], 1).ids) == 3


def test_arguments_by_place_are_those_of_a_head(tmp_path):
    head = head_of(image_of(tmp_path, "a", np.ones((5, DIM), int), np.zeros((5, 2), int)))
    ShardedHead([head]).run(np.ones((1, DIM)), 1, None, 123_456)
    assert head.device.deadlines == [123_456]


def test_progress_is_that_of_the_slowest_shard(tmp_path):
    weights, terms = np.ones((5, DIM), int), np.zeros((5, 2), int)
    heads = [head_of(image_of(tmp_path, str(n), weights, terms, first_row=5 * n)) for n in (0, 1)]
    calls = []
    ShardedHead(heads).run(np.ones((6, DIM)), 1, lambda *call: calls.append(call))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[0] == (0, 6) and calls[-1] == (6, 6)
    assert len(calls) == 6  # three jobs of each


@pytest.mark.parametrize("mask", [np.zeros((3, 1), np.int32), np.zeros((3, 2), np.int64)])
def test_a_mask_that_is_not_of_the_whole_vocabulary_is_refused(tmp_path, mask):
    weights, terms = np.ones((20, DIM), int), np.zeros((20, 2), int)
    names = enumerate("ab")
    heads = [head_of(image_of(tmp_path, c, weights, terms, first_row=20 * n)) for n, c in names]
    wide = ShardedHead(heads)
    with pytest.raises(UserError, match="mask: "):
        wide.run(np.ones((3, DIM)), 1, mask=mask)


def test_an_error_of_one_shard_names_it(tmp_path):
    terms = np.zeros((5, 2), int)
    # Logits of 4000, whose sum is out of range.
    heads = [
        head_of(image_of(tmp_path, "a", np.ones((5, DIM), int), terms)),
        head_of(image_of(tmp_path, "b", np.full((5, DIM), 100), terms, first_row=5)),
    ]
    with pytest.raises(UserError, match=r"b\.safetensors: logsumexp: .*out of range"):
        ShardedHead(heads).run(np.full((1, DIM), 100.0), 1, logsumexp=True)


def test_rows_are_read_across_shards(tmp_path):
    weights, terms = RNG.integers(-100, 100, (30, DIM)), RNG.integers(0, 99, (30, 2))
    edges = [0, 7, 8, 30]
    parts = [
        image_of(tmp_path, str(a), weights[a:b], terms[a:b], first_row=a)
        for a, b in zip(edges, edges[1:], strict=False)
    ]
    whole = shards.ShardedImage(parts)
    for start, stop in ((0, 30), (6, 9), (7, 8), (8, 30), (29, 30)):
        assert (whole.read_rows(start, stop)[0] == weights[start:stop]).all()
        assert (whole.read_terms(start, stop) == terms[start:stop]).all()
    chunks = list(whole.chunks())
    assert [start for start, _ in chunks] == [0, *(stop for _, stop in chunks[:-1])]
    assert chunks[-1][1] == 30
    for start, stop in ((5, 5), (-1, 3), (29, 31)):
        with pytest.raises(IndexError, match=r"rows must be in 0\.\.30"):
            whole.read_rows(start, stop)
