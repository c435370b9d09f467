"""Quantised hidden states and their files."""

import re
import zipfile

import numpy as np
import pytest

from host.errors import UserError
from host.files.arrays import load_array
from host.jobs.hidden import (
    PARAMETERS,
    check_hidden,
    hidden_buffer,
    hidden_bytes,
    parameter_bytes,
    quantise_hidden,
)

from .model_files import JUNK_NPY_HEADERS, npy_file


def test_the_largest_magnitude_becomes_the_largest_value():
    hidden = np.array([[0.5, -2.0, 1.0], [3.0, 0.0, -1.5]])
    quantised, scales = quantise_hidden(hidden, 8)
    assert quantised.dtype == np.int8
    assert quantised.tolist() == [[32, -127, 64], [127, 0, -64]]
    assert scales.tolist() == [2.0 / 127, 3.0 / 127]


def test_halves_round_to_even():
    # The scale is exactly 1.
    quantised, scales = quantise_hidden(np.array([[32767.0, 0.5, 1.5, -0.5, -2.5, 3.5]]), 16)
    assert scales.tolist() == [1.0]
    assert quantised.dtype == np.int16
    assert quantised.tolist() == [[32767, 0, 2, 0, -2, 4]]


def test_a_zero_state_gets_scale_one():
    quantised, scales = quantise_hidden(np.zeros((1, 4)), 16)
    assert scales.tolist() == [1.0]
    assert not quantised.any()


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("largest", [5e-324, 1e-318, 3e-308, 1.0, 1.7e308])
def test_extreme_magnitudes_stay_in_range(bits, largest):
    quantised, scales = quantise_hidden(np.array([[largest, -largest, largest / 3]]), bits)
    top = 2 ** (bits - 1) - 1
    assert np.isfinite(scales).all() and (scales > 0).all()
    assert quantised[0, 0] == -quantised[0, 1]
    assert 0 <= quantised[0, 0] <= top
    if largest > 1e-300:
        assert quantised[0, 0] == top


@pytest.mark.parametrize("shape", [(), (1,), (2, 5), (1, 1, 4), (0,)])
def test_another_shape_is_told_as_it_is(shape):
    with pytest.raises(UserError, match=re.escape(f"(expected [N, 4], found {list(shape)})")):
        check_hidden(np.zeros(shape), 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_name_their_row(bad):
    hidden = np.zeros((3, 4), np.float32)
    hidden[2, 1] = bad
    with pytest.raises(ValueError, match="hidden: row 2 holds NaN or infinity"):
        check_hidden(hidden, 4)


def test_one_state_is_a_batch_of_one():
    assert check_hidden(np.zeros(4, np.float16), 4).shape == (1, 4)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (1, 2, 3)])
def test_a_wrong_shape_shows_both_shapes(shape):
    with pytest.raises(UserError, match=r"expected \[N, 3\], found \["):
        check_hidden(np.zeros(shape), 3)


def test_values_that_are_no_numbers_are_refused():
    with pytest.raises(TypeError, match="real numbers"):
        check_hidden(np.array([["a", "b"]]), 2)


def test_a_scale_is_not_below_the_least():
    hidden = np.array([[1.0, -0.5], [32767.0, 1.0]])
    quantised, scales = quantise_hidden(hidden, 16, np.array([0.25, 0.25]))
    assert scales.tolist() == [0.25, 1.0]
    assert quantised.tolist() == [[4, -2], [32767, 1]]


def test_a_state_in_memory_is_little_endian_and_padded_with_zeros():
    assert hidden_bytes(36, 16, 16) == 80
    buffer = hidden_buffer(np.array([[1, -2, 300]], np.int16), 16, None, 16)
    assert buffer.tobytes() == bytes([1, 0, 254, 255, 44, 1]) + bytes(10)


@pytest.mark.parametrize("bus_bytes", [8, 64])
def test_states_follow_each_other_each_with_its_parameters(bus_bytes):
    parameters = np.array([(1, 2, 3, 4), (2**32 - 1, 6, 7, 127)], PARAMETERS)
    states = np.array([[1, -1], [2, -2]], np.int8)
    buffer = hidden_buffer(states, bus_bytes, parameters, bus_bytes)
    extra = max(16, bus_bytes)
    assert parameter_bytes(bus_bytes) == extra
    assert buffer.dtype == np.uint8 and buffer.size == 2 * (bus_bytes + extra)
    for n, part in enumerate(buffer.reshape(2, -1)):
        assert part[:bus_bytes].tolist() == [n + 1, 255 - n] + [0] * (bus_bytes - 2)
        assert part[bus_bytes : bus_bytes + 16].view("<u4").tolist() == list(parameters[n])
        assert not part[bus_bytes + 16 :].any()


def test_states_are_read_from_npy_and_npz(tmp_path):
    states = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "a.npy", states)
    np.savez(tmp_path / "a.npz", hidden=states, other=states + 1)
    assert (load_array(tmp_path / "a.npy", "hidden") == states).all()
    assert (load_array(tmp_path / "a.npz", "hidden") == states).all()
    assert (load_array(tmp_path / "a.npz", "other") == states + 1).all()


def test_a_missing_array_names_the_arrays_there_are(tmp_path):
    np.savez(tmp_path / "a.npz", states=np.zeros((1, 3)), more=np.zeros(1))
    with pytest.raises(UserError, match=r"a.npz: has no array 'hidden' \(found states, more\)"):
        load_array(tmp_path / "a.npz", "hidden")


@pytest.mark.parametrize("cut", [0, 4, 100, 300])
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_cut_file_is_named(tmp_path, name, cut):
    path = tmp_path / name
    states = np.ones((40, 30), np.float32)
    if name == "a.npy":
        np.save(path, states)
    else:
        np.savez(path, hidden=states)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UserError, match=name):
        load_array(path, "hidden")


BAD_SHAPES = [
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1180591620717411303424,)}",
]


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("header", JUNK_NPY_HEADERS + BAD_SHAPES)
def test_a_junk_header_is_told_in_our_words(tmp_path, header, version):
    data = npy_file(header, version)
    (tmp_path / "a.npy").write_bytes(data)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("hidden.npy", data)
    for path in (tmp_path / "a.npy", tmp_path / "a.npz"):
        with pytest.raises(UserError) as info:
            load_array(path, "hidden")
        assert str(info.value) == (
            f"{path}: is no .npy or .npz file of numbers, or is damaged or cut short"
        )


def test_states_that_do_not_fit_in_memory_are_named(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1024)}"
    (tmp_path / "a.npy").write_bytes(npy_file(header, 1))
    with pytest.raises(UserError, match=r"a\.npy: cannot be read: Unable to allocate 4.00 PiB"):
        load_array(tmp_path / "a.npy", "hidden")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="none.npy: cannot be read: No such file"):
        load_array(tmp_path / "none.npy", "hidden")
