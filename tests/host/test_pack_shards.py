"""Ranges of rows: what a shard holds, in the scale and units of the whole tensor."""

import json

import numpy as np
import pytest

from host.errors import UserError
from host.image import Image, tiles
from host.pack import PackOptions, pack

from .command_line import ROWS, assert_one_line, without_progress
from .model_files import q4_0, q8_0, random_matrix, write_gguf, write_model

V, DIM = 150, 96
SPLITS = [(0, 1, 77, 150), (0, 64, 150)]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Several chunks even for tiny matrices."""
    monkeypatch.setattr(tiles.row_chunks, "__defaults__", (4096,))


def pack_rows(source, rows=None, **options):
    out = source.parent / "shard.safetensors"
    report = pack(source, out, PackOptions(bus_bits=64, row_range=rows, **options))
    image = Image(out)
    image.verify()
    return report, image


def contents(image):
    """Weights, scales and terms of all rows, copied: the file is about to be replaced."""
    return *image.read_rows(0, image.rows), image.read_terms(0, image.rows)


def floats(folder):
    np.save(folder / "w.npy", random_matrix(V, DIM) * np.geomspace(1e-3, 1, V)[:, np.newaxis])
    return folder / "w.npy"


def columns_first(folder):
    np.save(folder / "w.npy", np.asfortranarray(random_matrix(V, DIM)))
    return folder / "w.npy"


def biased(folder):
    bias = np.random.default_rng(1).normal(size=V) * np.geomspace(1, 1e-3, V)
    np.savez(folder / "w.npz", weight=random_matrix(V, DIM), bias=bias)
    return folder / "w.npz"


def scales(seed):
    drawn = np.random.default_rng(seed).integers(2, 2048, (V, DIM // 32)) & ~1
    return (drawn * 2.0**-18).astype(np.float16)


def exact(folder):
    own = scales(2)
    own[149, 1] = 2.0**-18  # the only odd one: half the unit of all other rows
    weights = np.random.default_rng(3).integers(-128, 128, (V, DIM))
    return write_gguf(folder / "m.gguf", {"output.weight": q8_0(weights, own)})


def requantised(folder):
    own = scales(4)
    own[0, 0], own[149, 2] = 2.0**-20, 1.0  # together they need 21 bits
    weights = np.random.default_rng(5).integers(-128, 128, (V, DIM))
    return write_gguf(folder / "m.gguf", {"output.weight": q8_0(weights, own)})


def nibbles(folder):
    own = scales(6) * np.float16(-1)
    weights = np.random.default_rng(7).integers(-8, 8, (V, DIM))
    return write_gguf(folder / "m.gguf", {"output.weight": q4_0(weights, own)})


@pytest.mark.parametrize("edges", SPLITS)
@pytest.mark.parametrize(
    "model", [floats, columns_first, biased, exact, requantised, nibbles], ids=lambda m: m.__name__
)
@pytest.mark.parametrize(
    "options",
    [{}, {"bound": True, "channels": 4, "tile_rows": 16, "width": 2}],
    ids=["plain", "bound"],
)
def test_shards_together_are_the_whole_image(tmp_path, model, options, edges):
    source = model(tmp_path)
    report, whole = pack_rows(source, **options)
    units = whole.weight_scale, whole.bias_unit, whole.bound_unit
    expected = contents(whole)
    for first, stop in zip(edges, edges[1:], strict=False):
        own, shard = pack_rows(source, (first, stop), **options)
        assert (shard.rows, shard.first_row) == (stop - first, first)
        assert (shard.weight_scale, shard.bias_unit, shard.bound_unit) == units
        for found, values in zip(contents(shard), expected, strict=True):
            assert np.array_equal(found, values[first:stop])
        assert shard.quantisation.exact == report.quantisation.exact
        assert shard.quantisation.note == report.quantisation.note
        assert shard.source == report.source
        assert (own.first_row, own.vocabulary_rows) == (first, V)


def test_the_error_of_a_shard_is_that_of_its_rows(tmp_path):
    values = np.zeros((100, 32), np.float32)
    values[:50] = random_matrix(50, 32)
    np.save(tmp_path / "w.npy", values)
    for bound in (False, True):
        report, _ = pack_rows(tmp_path / "w.npy", (50, 100), bound=bound)
        assert report.quantisation.max_absolute_error == 0
        report, image = pack_rows(tmp_path / "w.npy", (0, 50), bound=bound)
        errors = np.abs(image.dequantise(0, 50) - values[:50])
        assert report.quantisation.max_absolute_error == pytest.approx(errors.max(), rel=1e-3)


def test_the_bias_reported_is_that_of_the_shards_rows(tmp_path):
    np.savez(tmp_path / "w.npz", weight=random_matrix(4, 32), bias=np.array([8.0, 0, 0, 2]))
    report, image = pack_rows(tmp_path / "w.npz", (2, 4))
    assert report.bias == {"unit": 8 / 32767, "largest": pytest.approx(2, abs=1e-3)}
    assert image.bias(0, 2) == pytest.approx([0, 2], abs=1e-3)


@pytest.mark.parametrize(
    ("rows", "first", "stop"),
    [(None, 0, 100), ((0, None), 0, 100), ((30, None), 30, 100), ((0, 30), 0, 30), ((7, 8), 7, 8)],
)
def test_a_range_is_of_the_vocabulary_without_padding(tmp_path, rows, first, stop):
    values = random_matrix(128, 32)
    config = {"hidden_size": 32, "vocab_size": 100}
    source = write_model(tmp_path / "m", {"lm_head.weight": values}, config)
    report, image = pack_rows(source, rows)
    assert (image.first_row, image.rows) == (first, stop - first)
    nearest = np.abs(values @ image.dequantise(0, image.rows).T - values @ values[first:stop].T)
    assert nearest.max() < 0.3
    line = report.lines()[1]
    assert "(28 rows past the vocabulary left out)" in line
    assert (f"rows {first} to {stop - 1} of 100 " in line) == (stop - first < 100)
    kept, _ = pack_rows(source, (100, None), keep_rows=True)
    assert (kept.first_row, kept.rows, kept.vocabulary_rows) == (100, 28, 128)
    assert kept.lines()[1] == "shape    28 rows x 32 columns, rows 100 to 127 of 128"


@pytest.mark.parametrize("rows", [(0, 0), (5, 5), (6, 5), (0, 151), (150, None), (-1, 5), (3, -1)])
def test_a_range_outside_the_rows_is_refused(tmp_path, rows):
    source = floats(tmp_path)
    given = f"{rows[0]}:{'' if rows[1] is None else rows[1]}"
    with pytest.raises(UserError, match=rf"w\.npy: .*rows \(--rows\) .*B <= 150, found {given}\)"):
        pack_rows(source, rows)
    assert [path.name for path in tmp_path.iterdir()] == ["w.npy"]


@pytest.mark.parametrize("model", [floats, exact, requantised], ids=lambda m: m.__name__)
@pytest.mark.parametrize("bound", [False, True])
def test_progress_of_a_shard_rises_to_its_total(tmp_path, model, bound):
    calls = []
    pack(
        model(tmp_path),
        tmp_path / "shard",
        PackOptions(bus_bits=64, bound=bound, row_range=(10, 60)),
        lambda done, total: calls.append((done, total)),
    )
    done = [call[0] for call in calls]
    assert done == sorted(set(done))
    read_again = V if bound and model is not exact else 50
    assert calls[-1] == (V + read_again, V + read_again)
    assert all(done <= total for done, total in calls)


def test_the_command_packs_a_shard_and_tells_of_it(run, files):
    out = files / "shard.safetensors"
    code, text, _ = run("pack", files / "matrix.npz", "-o", out, "--rows", "5:")
    assert code == 0
    assert f"{ROWS - 5} rows x 40 columns, rows 5 to {ROWS - 1} of {ROWS}\n" in text
    code, text, _ = run("pack", files / "matrix.npz", "-o", out, "--rows", ":20", "--json")
    report = json.loads(text)
    assert (code, report["first_row"], report["rows"]) == (0, 0, 20)
    code, text, _ = run("pack", files / "matrix.npz", "-o", out, "--rows", "5:20", "--json")
    report = json.loads(text)
    assert (report["first_row"], report["rows"], report["vocabulary_rows"]) == (5, 15, ROWS)
    code, text, _ = run("inspect", out, "--json")
    assert (code, json.loads(text)["first_row"]) == (0, 5)
    code, text, _ = run("inspect", out)
    assert [line.split() for line in text.splitlines() if "first row" in line] == [
        ["first", "row", "5"]
    ]


@pytest.mark.parametrize("rows", ["5", "a:b", "5:20:2", "1.5:3", " 1:2", "5:-1", "", "٣:٤"])
def test_what_is_no_range_is_a_usage_error_in_one_line(run, files, rows):
    code, _, err = run("pack", files / "matrix.npz", "-o", files / "x", "--rows", rows)
    assert code == 2
    assert_one_line(err, "--rows: must be A:B", repr(rows))


@pytest.mark.parametrize("rows", ["20:20", "20:5", "0:46", "45:"])
def test_a_range_that_the_model_has_not_fails_in_one_line(run, files, rows):
    code, _, err = run("pack", files / "matrix.npz", "-o", files / "x", "--rows", rows)
    assert code == 1
    assert_one_line(without_progress(err), files / "matrix.npz", "--rows", "B <= 45")
    assert not (files / "x").exists()
