"""The driver against a device in plain Python; the real gateware is tested elsewhere."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from host.device import Device, DeviceError
from host.driver import Head, JobError, JobTimeout
from host.errors import UserError
from host.image import save_image
from host.results import COUNTER_NAMES
from hw.config import HeadConfig
from hw.register_map import Control
from hw.status import Status
from tests.host.fake_device import FakeDevice

CONFIG = HeadConfig(bus_bits=64, group=32, k=8, max_dim=64, max_rows=128)
RNG = np.random.default_rng(7)
WEIGHTS = RNG.integers(-128, 128, (50, 40))


def image_of(folder, config=CONFIG, weights=WEIGHTS, weight_scale=0.3):
    """An image with scales of 1."""
    groups = np.ones((len(weights), config.groups(weights.shape[1])), int)
    return save_image(folder / "head.safetensors", config, weights, groups, weight_scale)


@pytest.fixture
def device():
    return FakeDevice(CONFIG)


@pytest.fixture
def image(tmp_path):
    return image_of(tmp_path)


@pytest.fixture
def head(device, image):
    return Head(device, image)


def test_the_fake_satisfies_the_protocol(device):
    assert all(hasattr(device, name) for name in ("read_register", "map_memory", "memory_base"))
    assert not isinstance(object(), Device)


def test_results_are_scores_ids_and_logits_in_order(head):
    hidden = RNG.normal(size=(3, 40)).astype(np.float32)
    results = head.run(hidden, k=5)
    for n, state in enumerate(hidden.astype(np.float64)):
        scale = np.abs(state).max() / 32767
        scores = WEIGHTS @ np.rint(state / scale).astype(np.int64)
        order = np.argsort(-scores, kind="stable")[:5]
        assert results.ids[n].tolist() == order.tolist()
        assert results.scores[n].tolist() == scores[order].tolist()
        assert results.logits[n].tolist() == [float(s) * 0.3 * scale for s in scores[order]]
    assert (results.ids.dtype, results.scores.dtype) == (np.int32, np.int64)


def test_counters_are_the_final_64_bit_values_of_the_registers(head):
    results = head.run(np.ones((2, 40)), k=1)
    assert list(results.counters) == list(COUNTER_NAMES)
    for index, values in enumerate(results.counters.values()):
        assert values.tolist() == [(index + 1 << 32) + 1, (index + 1 << 32) + 2]


def test_places_without_a_row_are_filled(device, tmp_path):
    results = Head(device, image_of(tmp_path, weights=WEIGHTS[:3])).run(np.ones(40), k=5)
    assert results.ids[0, 3:].tolist() == [-1, -1]
    assert results.scores[0, 3:].tolist() == [-(2**63)] * 2
    assert np.isneginf(results.logits[0, 3:]).all()
    assert results.counts.tolist() == [3]


def test_the_image_is_loaded_once(device, head):
    head.run(np.ones((4, 40)), k=2)
    assert device.mapped == [device.memory_base]
    (data,) = head.image.channels
    assert (device.read_memory(device.memory_base, len(data)) == data).all()


def test_progress_is_told_after_every_state(head):
    steps = []
    head.run(np.ones((3, 40)), k=1, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bus_bits": 128}, "packed with bus_bits 64, fake was built with 128: .*--bus-bits"),
        ({"scale_signed": True}, "scale_signed False, fake was built with True: .*--scale-signed"),
        ({"group": 64}, "packed with group 32, fake was built with 64: .*--group"),
        ({"tile_rows": 32}, "packed with tile_rows 64, fake was built with 32: .*--tile-rows"),
        ({"max_dim": 39}, "has 40 columns, fake was built for at most 39: .*--max-dim"),
        ({"max_rows": 49}, "has 50 rows, fake was built for at most 49: .*--max-rows"),
    ],
)
def test_an_image_that_does_not_fit_is_refused_with_both_values(image, change, message):
    values = {"bus_bits": 64, "group": 32, "k": 8, "max_dim": 64, "max_rows": 128}
    device = FakeDevice(HeadConfig(**values | change))
    with pytest.raises(UserError, match=message):
        Head(device, image)
    assert not device.mapped


def test_a_damaged_image_is_not_loaded(device, image):
    def damaged():
        raise UserError("head.safetensors", "the image is damaged")

    image.verify = damaged
    with pytest.raises(UserError, match="damaged"):
        Head(device, image)
    assert not device.mapped


def test_too_little_memory_is_told_with_both_sizes(image):
    device = FakeDevice(CONFIG, memory_bytes=8192)
    with pytest.raises(UserError, match="needs 12288 bytes of memory, fake has 8192"):
        Head(device, image)


def test_something_else_than_the_accelerator_is_refused(device, image):
    device.registers["MAGIC"] = 0
    with pytest.raises(DeviceError, match="no unembed accelerator"):
        Head(device, image)


def test_another_major_version_of_the_registers_is_refused(device, image):
    device.registers["VERSION"] += 1 << 16
    with pytest.raises(DeviceError, match="register map version"):
        Head(device, image)


@pytest.mark.parametrize("k", [0, -1, 9])
def test_k_outside_the_hardware_is_refused(device, head, k):
    with pytest.raises(ValueError, match=rf"k: must be in 1..8 on fake \(found {k}\)"):
        head.run(np.ones((1, 40)), k=k)
    assert device.registers["JOBS"] == 0


def test_a_state_that_is_not_finite_starts_no_job(device, head):
    hidden = np.ones((4, 40))
    hidden[3, 7] = np.nan
    with pytest.raises(ValueError, match="row 3 holds NaN"):
        head.run(hidden, k=1)
    assert device.registers["JOBS"] == 0


@pytest.mark.parametrize("status", [status for status in Status if status])
def test_an_error_status_is_told_and_the_next_job_is_right(device, head, status):
    device.status = status
    with pytest.raises(
        JobError, match=rf"status {status.name} \({status:d}\): .*ERRORS 0x"
    ) as info:
        head.run(np.ones((1, 40)), k=2)
    assert info.value.status == status
    assert device.registers["ERRORS"] == 0
    device.status = Status.OK
    expected = np.argsort(-WEIGHTS.sum(axis=1), kind="stable")[:2]
    assert head.run(np.ones((1, 40)), k=2).ids[0].tolist() == expected.tolist()


def test_a_job_without_an_end_times_out_and_needs_a_soft_reset(device, head):
    device.hang = True
    with pytest.raises(JobTimeout, match=r"within 1234 clocks \(CONTROL 0x0.*soft_reset\(\)"):
        head.run(np.ones((1, 40)), k=2, deadline_cycles=1234)
    device.hang = False
    with pytest.raises(DeviceError, match=r"still busy .*CONTROL 0x0.* soft_reset\(\)"):
        head.run(np.ones((1, 40)), k=2)
    head.soft_reset()
    assert head.run(np.ones((1, 40)), k=2).counts.tolist() == [2]


def test_the_deadline_grows_with_the_image(device, head):
    head.run(np.ones((1, 40)), k=1)
    assert device.deadlines == [head.deadline_cycles]
    assert head.deadline_cycles > 10 * head.image.layout.beats


def test_a_block_of_an_earlier_job_is_not_taken_for_this_one(device, head):
    head.run(np.ones((1, 40)), k=2)
    device.lose_results = True
    with pytest.raises(DeviceError, match="not that of job 2: it holds job 0"):
        head.run(np.ones((1, 40)), k=2)


def test_a_block_with_too_few_records_is_refused(device, head):
    device.lose_record = True
    with pytest.raises(DeviceError, match="not that of job 1: it holds job 1, status 0, 4 records"):
        head.run(np.ones((1, 40)), k=5)


def test_a_reset_that_does_not_end_says_so(device, head):
    device.read_register = lambda offset: 1
    with pytest.raises(DeviceError, match="soft reset did not end"):
        head.soft_reset()


@pytest.mark.parametrize("control", [0, Control.IDLE | Control.DONE])
def test_hardware_left_in_the_middle_of_a_job_is_reset_on_opening(device, image, control):
    device.registers["CONTROL"] = int(control)
    device.registers["ISR"] = 1
    device.registers["ERRORS"] = 0x101
    head = Head(device, image)
    assert device.resets == 1
    assert device.registers["ERRORS"] == 0
    assert head.run(np.ones((1, 40)), k=2).counts.tolist() == [2]


def test_hidden_states_of_8_bits_are_warned_about(tmp_path):
    config = replace(CONFIG, hidden_bits=8)
    device = FakeDevice(config)
    with pytest.warns(UserWarning, match="8 % of positions lost their top token"):
        head = Head(device, image_of(tmp_path, config))
    expected = np.argsort(-WEIGHTS.sum(axis=1), kind="stable")[:2]
    assert head.run(np.ones((1, 40)), k=2).ids[0].tolist() == expected.tolist()


def test_hidden_states_of_16_bits_are_not_warned_about(device, image):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Head(device, image)
