import zipfile

import numpy as np
import pytest

from host.errors import UserError
from host.sources import numpy_files
from host.sources.open import open_source

from .model_files import JUNK_NPY_HEADERS, npy_file, random_matrix

W = random_matrix(9, 5)


def save_npz(path, **arrays):
    np.savez(path, **arrays)
    return path


def save_compressed(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize("save", [save_npz, save_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_weight_of_an_archive_is_read(tmp_path, save, order):
    path = save(tmp_path / "w.npz", bias=np.zeros(9), weight=np.asarray(W, order=order))
    with open_source(path) as head:
        assert (head.tensor, head.rows, head.dim, head.tied) == ("weight", 9, 5, None)
        assert np.array_equal(head.read(0, 9), W)
        assert np.array_equal(head.read(4, 6), W[4:6])


@pytest.mark.parametrize(
    "dtype", ["<f2", "<f4", "<f8", ">f4", ">f8", "<i2", ">i4", "<i8", "u1", "i1"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_type_of_number_is_read(tmp_path, dtype, order):
    stored = np.asarray((10 * np.abs(W)).astype(dtype), order=order)
    np.save(tmp_path / "w.npy", stored)
    with open_source(tmp_path / "w.npy") as head:
        assert head.read(1, 9).dtype == np.float32
        assert np.array_equal(head.read(1, 9), stored[1:].astype(np.float32))


@pytest.mark.parametrize("read_ahead", [1, 12, 1000])
def test_fortran_order_is_read_in_blocks(tmp_path, monkeypatch, read_ahead):
    monkeypatch.setattr(numpy_files, "READ_AHEAD", read_ahead)
    np.save(tmp_path / "w.npy", np.asfortranarray(W))
    with open_source(tmp_path / "w.npy") as head:
        for start, stop in [(0, 2), (2, 3), (3, 9), (0, 9), (1, 2), (8, 9)]:
            assert np.array_equal(head.read(start, stop), W[start:stop])


@pytest.mark.parametrize("dtype", ["i1", "<i2", ">i2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_small_integers_are_offered_with_a_scale_of_one(tmp_path, dtype, order):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    stored = np.asarray(np.array([[low, high, 0], [1, 2, 3]], dtype), order=order)
    np.save(tmp_path / "w.npy", stored)
    with open_source(tmp_path / "w.npy") as head:
        weights, scales = head.read_integers(0, 2)
        assert np.array_equal(weights, stored)
        assert weights.dtype.isnative
        assert scales.tolist() == [[1], [1]]


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), r"array w: must be a matrix .*found \[3\]"),
        (np.zeros((2, 3, 4)), r"array w: must be a matrix .*found \[2, 3, 4\]"),
        (np.zeros((0, 4)), r"array w: is empty .*found \[0, 4\]"),
        (np.zeros((2, 2), complex), r"array w: type \(expected float or integer, found complex128"),
        (np.zeros((2, 2), bool), r"array w: type \(expected float or integer, found bool"),
        (np.array([["a"]]), r"array w: type \(expected float or integer"),
        (np.array([[None]]), r"array w: type \(expected float or integer, found object"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(tmp_path, array, message):
    np.save(tmp_path / "w.npy", array)
    with pytest.raises(UserError, match=message):
        open_source(tmp_path / "w.npy")


def test_an_archive_without_a_weight_is_refused(tmp_path):
    path = save_npz(tmp_path / "w.npz", W=W, other=W)
    with pytest.raises(UserError, match=r"no weight \(expected an array weight, found W, other\)"):
        open_source(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_a_value_that_is_not_finite_is_refused_with_row(tmp_path, value):
    bad = W.astype(np.float64)
    bad[6, 0] = value
    np.save(tmp_path / "w.npy", bad)
    with open_source(tmp_path / "w.npy") as head:
        head.read(0, 6)
        with pytest.raises(ValueError, match=r"w\.npy: tensor w: row 6 holds a value .*finite"):
            head.read(4, 9)


@pytest.mark.parametrize("save", [save_npz, save_compressed])
def test_an_archive_cut_anywhere_is_named(tmp_path, save):
    whole = save(tmp_path / "w.npz", weight=W).read_bytes()
    cut = tmp_path / "cut.npz"
    for size in range(0, len(whole), 3):
        cut.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.npz"):
            open_source(cut)


def test_a_damaged_compressed_archive_is_named(tmp_path):
    path = save_compressed(tmp_path / "w.npz", weight=W)
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("weight.npy").header_offset + 60
    data = bytearray(path.read_bytes())
    data[start + 40] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"w\.npz: damaged or cut short"):
        open_source(path)


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("header", JUNK_NPY_HEADERS)
def test_a_junk_header_is_told_in_our_words(tmp_path, header, version):
    path = tmp_path / "w.npy"
    path.write_bytes(npy_file(header, version))
    with pytest.raises(UserError) as info:
        open_source(path)
    assert str(info.value) == f"{path}: damaged header of a NumPy array"


def test_an_array_cut_anywhere_is_named(tmp_path):
    np.save(tmp_path / "w.npy", W)
    whole = (tmp_path / "w.npy").read_bytes()
    cut = tmp_path / "cut.npy"
    for size in range(len(whole)):
        cut.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.npy"):
            open_source(cut)
    cut.write_bytes(whole[:-4])
    with pytest.raises(UserError, match=r"the file is cut short \(expected at least 308 bytes, fo"):
        open_source(cut)
