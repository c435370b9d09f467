"""Batches, channels, masks, terms, all logits, log-sum-exp and queue, on a device in Python."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from host.driver import Head, JobError
from host.errors import UserError
from host.image import save_image
from host.jobs.buffers import place
from host.jobs.capabilities import FEATURES
from host.jobs.parameters import prepare_vectors
from host.jobs.result_block import result_bytes
from host.masks import pack_mask
from host.results import COUNTER_NAMES, join
from host.sampling import LogitTransform
from hw.config import HeadConfig
from hw.counters import counter_names
from hw.layout import ImageLayout
from hw.status import Status
from sim import golden
from tests.host.fake_device import FakeDevice

ROWS, DIM = 150, 40
PLAIN = HeadConfig(bus_bits=64, group=32, k=8, tile_rows=16, max_dim=64, max_rows=256)
FULL = replace(
    PLAIN,
    batch=3,
    rankers=2,
    channels=2,
    bias=True,
    bound=True,
    mask=True,
    all_logits=True,
    logsumexp=True,
    job_queue=True,
)
K = 6
STATES = 7
WEIGHT_SCALE, BIAS_UNIT, BOUND_UNIT = 1e-4, 3e-4, 1e-5
RNG = np.random.default_rng(5)
WEIGHTS = RNG.integers(-128, 128, (ROWS, DIM))
SCALES = RNG.integers(1, 400, (ROWS, 2))
BIAS = RNG.integers(-(2**15), 2**15, ROWS)
BOUND = RNG.integers(0, 2**15, ROWS)
HIDDEN = RNG.normal(size=(STATES, DIM)) * 3.0 ** -np.arange(STATES)[:, np.newaxis]
ALLOWED = RNG.random((STATES, ROWS)) < 0.3
ALLOWED[2] = False
ALLOWED[5] = np.arange(ROWS) < 4
MASK = pack_mask(ALLOWED)


def image_of(folder, config):
    terms = [values for values, used in ((BIAS, config.bias), (BOUND, config.bound)) if used]
    return save_image(
        folder / "head.safetensors",
        config,
        WEIGHTS,
        SCALES,
        WEIGHT_SCALE,
        terms=np.stack(terms, axis=1) if terms else None,
        bias_unit=BIAS_UNIT,
        bound_unit=BOUND_UNIT,
    )


def opened(folder, config=FULL):
    device = FakeDevice(config, memory_bytes=1 << 20)
    return device, Head(device, image_of(folder, config))


def expected(config, allowed=None):
    """Scores, logits and hidden scales that the definitions give, and the K best."""
    scales = np.abs(HIDDEN).max(axis=1) / 32767
    hidden = np.rint(HIDDEN / scales[:, np.newaxis]).astype(np.int64)
    bias, bounds = {}, None
    if config.bias:
        multipliers = np.rint(BIAS_UNIT / (WEIGHT_SCALE * scales)).astype(np.int64)
        bias = {"bias": BIAS, "bias_multipliers": multipliers}
    if config.bound:
        norms = np.linalg.norm(HIDDEN, axis=1)
        multipliers = np.ceil(BOUND_UNIT * norms / (WEIGHT_SCALE * scales)).astype(np.int64)
        bounds = multipliers[:, np.newaxis] * BOUND
    scores = golden.scores(WEIGHTS, SCALES, hidden, config.group, **bias)
    best = golden.topk(scores, K, allowed=allowed, bounds=bounds)
    return scores, scores * WEIGHT_SCALE * scales[:, np.newaxis], scales, best


FUNCTIONS = [
    {},
    {"batch": 4},
    {"batch": 3, "rankers": 1},
    {"channels": 4},
    {"bias": True},
    {"bound": True, "batch": 2},
    {"mask": True, "channels": 8},
    {"all_logits": True, "channels": 2, "batch": 3, "rankers": 2},
    {"logsumexp": True, "batch": 2},
    {"job_queue": True},
    {field.name: getattr(FULL, field.name) for field in FULL.__dataclass_fields__.values()},
]


@pytest.mark.parametrize("built", FUNCTIONS, ids=lambda built: ",".join(built)[:40] or "plain")
def test_results_are_those_of_the_definitions(tmp_path, built):
    config = replace(PLAIN, **({"rankers": None} | built))
    _, head = opened(tmp_path, config)
    results = head.run(
        HIDDEN,
        K,
        mask=MASK if config.mask else None,
        all_logits=config.all_logits,
        logsumexp=config.logsumexp,
        temperature=np.full(STATES, 0.7),
    )
    allowed = ALLOWED if config.mask else np.ones_like(ALLOWED)
    scores, logits, scales, (ids, best) = expected(config, allowed)
    assert np.array_equal(results.ids, ids)
    assert np.array_equal(results.scores, best)
    assert np.array_equal(results.hidden_scales, scales)
    found = np.where(ids >= 0, np.take_along_axis(logits, ids.astype(int), 1), -np.inf)
    assert np.array_equal(results.logits, found)
    assert results.counts.tolist() == np.minimum(K, allowed.sum(axis=1)).tolist()
    if config.all_logits:
        assert np.array_equal(results.all_logits, np.where(allowed, logits, -np.inf))
    else:
        assert results.all_logits is None
    if config.logsumexp:
        with np.errstate(divide="ignore"):
            sums = np.log(np.exp(logits / 0.7, where=allowed, out=np.zeros_like(logits)).sum(1))
        assert np.allclose(results.logsumexp, sums, atol=1e-3, rtol=0)
        assert (results.logsumexp == -np.inf).tolist() == (~allowed.any(axis=1)).tolist()
    else:
        assert results.logsumexp is None
    if not config.bound:
        assert results.bounds is None


def test_rows_are_ordered_by_logit_and_bound(tmp_path):
    _, head = opened(tmp_path)
    results = head.run(HIDDEN, K)
    assert (np.diff(results.logits + results.bounds, axis=1) <= 1e-12).all()
    assert not (np.diff(results.logits, axis=1) <= 0).all()


def test_bounds_are_at_least_what_the_image_promises(tmp_path):
    _, head = opened(tmp_path)
    results = head.run(HIDDEN, K, mask=MASK)
    promised = BOUND[results.ids] * BOUND_UNIT * np.linalg.norm(HIDDEN, axis=1)[:, np.newaxis]
    present = results.ids >= 0
    unit = WEIGHT_SCALE * results.hidden_scales[:, np.newaxis] * BOUND.max()
    assert (results.bounds >= promised)[present].all()
    assert (results.bounds <= promised + unit)[present].all()
    assert not results.bounds[~present].any()


def test_without_a_mask_all_rows_of_the_same_hardware_are_allowed(tmp_path):
    _, head = opened(tmp_path)
    head.run(HIDDEN, K, mask=MASK)
    results = head.run(HIDDEN, K)
    assert np.array_equal(results.ids, expected(FULL)[3][0])


def test_bits_past_the_last_row_are_ignored(tmp_path):
    _, head = opened(tmp_path)
    mask = MASK.copy()
    mask[:, -1] |= np.int32(-1) << (ROWS % 32)
    results = head.run(HIDDEN, K, mask=mask)
    assert np.array_equal(results.ids, expected(FULL, ALLOWED)[3][0])


def test_counters_are_of_jobs_and_name_the_states_of_each(tmp_path):
    _, head = opened(tmp_path)
    results = head.run(HIDDEN, K)
    assert results.job_of.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert results.vectors.tolist() == [3, 3, 1]
    assert set(results.counters) == set(COUNTER_NAMES)
    names = counter_names(FULL)

    def value(name, job):
        return (names.index(name) + 1 << 32) + job

    jobs = [1, 2, 3]
    assert results.counters["rows"].tolist() == [value("rows", job) for job in jobs]
    pairs = [[value(f"data_beats{c}", job) for c in (0, 1)] for job in jobs]
    assert results.channel_counters["data_beats"].tolist() == pairs
    assert results.counters["data_beats"].tolist() == [sum(pair) for pair in pairs]
    for name in ("first_data_latency_cycles", "max_outstanding_bytes"):
        assert results.counters[name].tolist() == [value(f"{name}1", job) for job in jobs]


def test_fewer_states_per_job_can_be_asked_for(tmp_path):
    _, head = opened(tmp_path)
    results = head.run(HIDDEN, K, batch=2)
    assert results.vectors.tolist() == [2, 2, 2, 1]
    assert np.array_equal(results.ids, expected(FULL)[3][0])


def test_a_temperature_divides_the_logits_of_its_state(tmp_path):
    _, head = opened(tmp_path)
    temperatures = np.linspace(0.5, 2, STATES)
    results = head.run(HIDDEN, K, logsumexp=True, temperature=temperatures)
    one_by_one = [
        head.run(HIDDEN[n], K, logsumexp=True, temperature=temperatures[n]).logsumexp[0]
        for n in range(STATES)
    ]
    assert results.logsumexp.tolist() == one_by_one


def test_results_that_are_joined_are_those_of_one_run(tmp_path):
    _, head = opened(tmp_path)
    options = {"logsumexp": True, "all_logits": True}
    whole = head.run(HIDDEN, K, **options)
    parts = join([head.run(HIDDEN[:4], K, **options), head.run(HIDDEN[4:], K, **options)])
    for name in ("ids", "scores", "logits", "hidden_scales", "logsumexp", "all_logits", "bounds"):
        assert np.array_equal(getattr(parts, name), getattr(whole, name))
    assert parts.job_of.tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert parts.counters["cycles"].shape == (3,)
    assert parts.channel_counters["wait_cycles"].shape == (3, 2)


def test_no_states_give_empty_results(tmp_path):
    _, head = opened(tmp_path)
    results = head.run(HIDDEN[:0], K, logsumexp=True, all_logits=True)
    assert results.ids.shape == (0, K) and results.all_logits.shape == (0, ROWS)
    assert results.channel_counters["data_beats"].shape == (0, 2)


def test_saved_results_hold_what_was_asked_for(tmp_path):
    _, head = opened(tmp_path)
    results = head.run(HIDDEN, K, mask=MASK, all_logits=True, logsumexp=True)
    results.save(tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as saved:
        assert saved["all_logits"].shape == (STATES, ROWS)
        assert saved["all_logits"].dtype == saved["logsumexp"].dtype == np.float64
        assert saved["logsumexp"].shape == (STATES,)
        assert saved["bounds"].shape == (STATES, K)
        assert saved["job_of"].tolist() == [0, 0, 0, 1, 1, 1, 2]
        assert saved["channel_data_beats"].shape == (3, 2)


@pytest.mark.parametrize("field", sorted(FEATURES.keys() - {"bias", "bound", "job_queue"}))
def test_a_function_that_is_not_built_names_its_option(tmp_path, field):
    device, head = opened(tmp_path, replace(FULL, **{field: False}))
    argument = {field: MASK if field == "mask" else True}
    option = "--" + field.replace("_", "-")
    with pytest.raises(UserError, match=f"^{field}: fake was built without {field}: .*{option}$"):
        head.run(HIDDEN, K, **argument)
    assert device.registers["JOBS"] == 0


@pytest.mark.parametrize(
    ("field", "packed", "built"),
    [
        ("bias", True, False),
        ("bias", False, True),
        ("bound", True, False),
        ("channels", 2, 4),
        ("channels", 4, 1),
    ],
)
def test_an_image_of_other_terms_or_channels_is_refused(tmp_path, field, packed, built):
    image = image_of(tmp_path, replace(PLAIN, **{field: packed}))
    message = f"packed with {field} {packed}, fake was built with {built}: .*--{field}$"
    with pytest.raises(UserError, match=message):
        Head(FakeDevice(replace(PLAIN, **{field: built})), image)


def test_a_larger_batch_than_the_hardwares_names_its_option(tmp_path):
    _, head = opened(tmp_path)
    with pytest.raises(UserError, match=r"batch: .* at most 3: build it with --batch 4 \(found 4"):
        head.run(HIDDEN, K, batch=4)
    with pytest.raises(UserError, match="batch: must be at least 1"):
        head.run(HIDDEN, K, batch=0)


def test_a_softcap_is_refused_with_the_way_that_is_left(tmp_path):
    device, head = opened(tmp_path)
    with pytest.raises(UserError, match="softcap of 30: take all logits .*--all-logits"):
        head.run(HIDDEN, K, logsumexp=True, softcap=30.0)
    assert device.registers["JOBS"] == 0
    assert head.run(HIDDEN, K, all_logits=True, softcap=30.0).all_logits is not None


def test_the_softcap_of_the_image_is_refused_without_being_named(tmp_path):
    device, head = opened(tmp_path)
    head.image.transform = LogitTransform(softcap=20.0)
    with pytest.raises(UserError, match="softcap of 20: take all logits"):
        head.run(HIDDEN, K, logsumexp=True)
    assert device.registers["JOBS"] == 0
    assert head.run(HIDDEN, K, all_logits=True).all_logits is not None


@pytest.mark.parametrize("name", ["k", "batch", "deadline_cycles"])
@pytest.mark.parametrize("value", [True, np.True_, 2.0, "2"])
def test_counts_must_be_integers(tmp_path, name, value):
    device, head = opened(tmp_path)
    with pytest.raises(TypeError, match=f"{name} must be an integer, got"):
        head.run(HIDDEN, **({"k": K} | {name: value}))
    assert device.registers["JOBS"] == 0


def test_a_log_sum_exp_out_of_range_is_told(tmp_path):
    _, head = opened(tmp_path)
    with pytest.raises(UserError, match="logsumexp: .*vector 0 is out of range"):
        head.run(HIDDEN, K, logsumexp=True, temperature=1e-3)


def test_two_jobs_are_under_way_only_with_a_queue(tmp_path):
    for queue in (False, True):
        device, head = opened(tmp_path, replace(FULL, job_queue=queue))
        head.run(HIDDEN, K, mask=MASK, all_logits=True)
        assert device.most_jobs == 1 + queue


def test_an_error_is_told_with_its_states_after_the_job_behind_it_has_ended(tmp_path):
    device, head = opened(tmp_path)
    device.failing = {2: Status.READ}
    steps = []
    with pytest.raises(JobError, match=r"job 2, of states 3 to 5, ended with status READ") as info:
        head.run(HIDDEN, K, lambda *step: steps.append(step))
    assert info.value.states == range(3, 6)
    assert device.registers["JOBS"] == 3 and not device.jobs
    device.failing = {}
    assert np.array_equal(head.run(HIDDEN, K).ids, expected(FULL)[3][0])


def test_after_an_error_no_further_job_is_started(tmp_path):
    device, head = opened(tmp_path)
    device.failing = {1: Status.WRITE, 2: Status.READ}
    with pytest.raises(JobError, match="job 1, of state 0, ended with status WRITE"):
        head.run(HIDDEN, K, batch=1)
    assert device.registers["JOBS"] == 2


def test_a_job_that_is_not_accepted_is_told(tmp_path):
    device, head = opened(tmp_path)
    device.accept_after = 10**9
    with pytest.raises(RuntimeError, match=r"job 1 is not accepted \(CONTROL 0x1.*soft_reset"):
        head.run(HIDDEN, K)


@pytest.mark.parametrize(("rows", "dim"), [(1, 1), (70_000, 4000)])
def test_buffers_of_the_largest_jobs_lie_apart_on_pages_of_their_own(rows, dim):
    config = replace(FULL, batch=16, rankers=2, k=256, max_dim=4096, max_rows=1 << 17)
    layout = ImageLayout(config, rows, dim)
    device = SimpleNamespace(name="fake", memory_base=0x4000_0000, memory_bytes=1 << 31)
    placement = place(config, layout, device, "head.safetensors")
    channels = range(2)
    state = -(-layout.padded_dim * 2 // 8) * 8 + 16
    ranges = [(placement.images[c], layout.channel_bytes(c)) for c in channels]
    assert len(placement.jobs) == 2
    for buffers in placement.jobs:
        ranges += [(buffers.hidden, 16 * state)]
        ranges += [(buffers.result, result_bytes(config, 256, 16))]
        ranges += [(buffers.masks[c], layout.mask_beats(c, 16) * 8) for c in channels]
        ranges += [(buffers.logits[c], layout.logits_bytes(c, 16)) for c in channels]
    assert all(address % 4096 == 0 for address, _ in ranges)
    ends = [address + size for address, size in ranges]
    assert all(end <= later for end, (later, _) in zip(ends, ranges[1:], strict=False))
    needed = -(-ends[-1] // 4096) * 4096 - device.memory_base
    device.memory_bytes = needed
    place(config, layout, device, "head.safetensors")
    device.memory_bytes = needed - 1
    with pytest.raises(UserError, match=f"needs {needed} bytes of memory, fake has {needed - 1}"):
        place(config, layout, device, "head.safetensors")


def test_a_channel_without_a_tile_has_an_empty_image(tmp_path):
    config = replace(PLAIN, channels=8)
    image = save_image(tmp_path / "small.safetensors", config, WEIGHTS[:20], SCALES[:20], 1.0)
    device = FakeDevice(config)
    results = Head(device, image).run(HIDDEN, K)
    assert len(device.mapped) == 2
    assert device.registers["IMAGE7_BYTES_LO"] == 0
    quantised = prepare_vectors(image, HIDDEN, 16).quantised
    scores = golden.scores(WEIGHTS[:20], SCALES[:20], quantised, config.group)
    assert np.array_equal(results.ids, golden.topk(scores, K)[0])


def test_a_raised_hidden_scale_is_warned_about_with_its_factor(tmp_path):
    config = replace(PLAIN, bias=True)
    image = save_image(
        tmp_path / "head.safetensors",
        config,
        WEIGHTS,
        SCALES,
        1e-12,
        terms=BIAS[:, np.newaxis],
        bias_unit=1.0,
    )
    device = FakeDevice(config)
    with pytest.warns(UserWarning, match=r"of 1 state was raised .* times for state 1: its hidden"):
        results = Head(device, image).run(np.array([[1e9] * DIM, [1.0] * DIM]), 1)
    assert results.hidden_scales[1] > 1 / 32767


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"deadline_cycles": 0}, UserError, "deadline_cycles: must be at least 1"),
        ({"deadline_cycles": -1}, UserError, "deadline_cycles: must be at least 1"),
        ({"deadline_cycles": 1e6}, TypeError, "integer"),
        ({"logsumexp": True, "temperature": None}, UserError, "temperature"),
    ],
)
def test_wrong_arguments_are_refused_before_a_job_starts(tmp_path, arguments, error, message):
    device, head = opened(tmp_path)
    with pytest.raises(error, match=message):
        head.run(HIDDEN, K, **arguments)
    assert device.most_jobs == 0
    assert head.run(HIDDEN, K).ids.shape == (STATES, K)
