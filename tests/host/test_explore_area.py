"""The area that a sweep estimates."""

from dataclasses import replace

import pytest

from host.explore.area import CONSTANTS, FAMILY, AreaTask, constants, lut4
from host.explore.area_features import features
from host.explore.store import FILE_NAME, version
from hw.config import HeadConfig
from hw.resources import count

BASE = HeadConfig(bus_bits=64, max_dim=96, max_rows=512, k=8)
EVERYTHING = HeadConfig(
    bus_bits=64, bias=True, bound=True, mask=True, all_logits=True, logsumexp=True, channels=2
)


def test_every_constant_is_of_a_feature():
    known = features(EVERYTHING)
    for block, factors in constants().items():
        assert set(factors) <= set(known[block]), block
        assert all(factor >= 0 for factor in factors.values())


def test_blocks_that_are_not_built_take_nothing():
    optional = {"mask", "logsumexp", "merger", "logits", "arbiter", "terms", "bias", "bound"}
    assert not optional & set(features(BASE))
    assert optional <= set(features(EVERYTHING))


@pytest.mark.parametrize(
    "changes",
    [{"batch": 2}, {"k": 64}, {"max_dim": 4096}, {"bus_bits": 128, "width": 16}, {"channels": 2}],
)
def test_more_of_anything_takes_more_luts(changes):
    assert lut4(replace(BASE, **changes)) > lut4(BASE)


def test_fewer_lanes_take_fewer_luts():
    config = HeadConfig(bus_bits=512, max_dim=576)
    sizes = [lut4(replace(config, fold=fold)) for fold in (1, 2, 4)]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3


def test_multipliers_and_block_rams_are_those_of_the_design(tmp_path, monkeypatch):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path))
    found, counted = AreaTask(BASE).run(version()), count(BASE)
    assert (found.dsp, found.ram) == (counted.dsp, counted.block_rams(FAMILY))
    assert found.memory_bits == sum(width * depth for width, depth in counted.memories)
    assert found.lut4 == lut4(BASE)


def test_other_constants_are_another_result(tmp_path, monkeypatch):
    (tmp_path / "host" / "explore").mkdir(parents=True)
    constants = tmp_path / "host" / "explore" / CONSTANTS
    monkeypatch.setattr("host.explore.store.ROOT", tmp_path)
    found = []
    for text in ("{}", '{"blocks": {}}'):
        constants.write_text(text)
        found.append(version.__wrapped__())
    assert found[0] != found[1]


@pytest.mark.parametrize("text", [None, "", '{"other": 1}'])
def test_a_damaged_result_is_computed_again(tmp_path, monkeypatch, text):
    monkeypatch.setenv("UNEMBED_CACHE", str(tmp_path))
    task = AreaTask(BASE)
    found = task.run(version())
    file = tmp_path / task.entry / FILE_NAME
    file.unlink() if text is None else file.write_text(text)
    assert task.kept() is None
    assert task.run(version()) == found == task.kept()
