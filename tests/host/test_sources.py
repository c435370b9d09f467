import hashlib
import threading

import numpy as np
import pytest

from host.errors import UserError
from host.sources.open import open_source

from .model_files import random_matrix

W = random_matrix(9, 5)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.gguf: no such file$"):
        open_source(tmp_path / "gone.gguf")


def test_an_unknown_kind_of_file_is_named(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    with pytest.raises(UserError, match=r"model\.onnx: unknown kind of model file \(expected \.gg"):
        open_source(path)


@pytest.mark.parametrize("name", ["m.gguf", "m.safetensors", "m.npy", "m.npz"])
def test_a_folder_with_the_name_of_a_file_is_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=r"no model"):
        open_source(tmp_path / name)


def test_an_error_is_one_line():
    error = UserError("file", "two\nlines", expected="a\n b", found=["c"])
    assert str(error) == "file: two lines (expected a b, found ['c'])"
    assert str(UserError("file", "no details")) == "file: no details"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_digests_are_of_the_file_and_of_the_tensor(tmp_path, save):
    save(tmp_path / "w.npz", weight=W)
    with open_source(tmp_path / "w.npz") as head:
        file, tensor = head.digests(threading.Event())
    assert file == hashlib.sha256((tmp_path / "w.npz").read_bytes()).hexdigest()
    assert tensor == hashlib.sha256(W.tobytes()).hexdigest()


def test_digests_can_be_stopped(tmp_path):
    np.save(tmp_path / "w.npy", W)
    stop = threading.Event()
    stop.set()
    with open_source(tmp_path / "w.npy") as head:
        assert head.digests(stop) == ("", "")


def test_closing_a_source_closes_its_files(tmp_path):
    np.save(tmp_path / "w.npy", W)
    with open_source(tmp_path / "w.npy") as head:
        head.read(0, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        head.read(0, 1)
