"""The bias of a head in every kind of model file."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from host.errors import UserError
from host.sources.open import open_source

from .model_files import q8_0, random_matrix, write_bf16, write_gguf, write_model

W = random_matrix(9, 32)
BIAS = random_matrix(9, 1, seed=4)[:, 0]
EMBEDDING = "model.embed_tokens.weight"


def untied_model(folder, bias):
    tensors = {EMBEDDING: W + 1, "lm_head.weight": W, "lm_head.bias": bias}
    return write_model(folder / "m", tensors, {"hidden_size": 32})


def tied_model(folder, bias):
    tensors = {"transformer.w.weight": W, "lm_head.bias": bias}
    return write_model(folder / "m", tensors, {"n_embd": 32, "tie_word_embeddings": True})


def sharded_model(folder, bias):
    tensors = {EMBEDDING: W + 1, "lm_head.weight": W, "lm_head.bias": bias}
    shards = [[EMBEDDING, "lm_head.bias"], ["lm_head.weight"]]
    return write_model(folder / "m", tensors, {"hidden_size": 32}, shards)


def named_head(folder, bias):
    save_file({"embed_out.weight": W, "embed_out.bias": bias}, folder / "m.safetensors")
    return folder / "m.safetensors"


def untied_gguf(folder, bias):
    tensors = {"token_embd.weight": W + 1, "output.weight": W, "output.bias": bias}
    return write_gguf(folder / "m.gguf", {name: (t, None) for name, t in tensors.items()})


def tied_gguf(folder, bias):
    blocks = q8_0(np.ones((9, 32)), np.ones((9, 1)))
    return write_gguf(folder / "m.gguf", {"token_embd.weight": blocks, "output.bias": (bias, None)})


def archive(folder, bias):
    np.savez(folder / "m.npz", weight=W, bias=bias)
    return folder / "m.npz"


def compressed_archive(folder, bias):
    np.savez_compressed(folder / "m.npz", weight=np.asfortranarray(W), bias=bias)
    return folder / "m.npz"


KINDS = {
    untied_model: "lm_head.bias",
    tied_model: "lm_head.bias",
    sharded_model: "lm_head.bias",
    named_head: "embed_out.bias",
    untied_gguf: "output.bias",
    tied_gguf: "output.bias",
    archive: "bias",
    compressed_archive: "bias",
}
every_kind = pytest.mark.parametrize(("save", "tensor"), KINDS.items())


@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_bias_is_found_and_read(tmp_path, save, tensor, dtype):
    stored = BIAS.astype(dtype)
    with open_source(save(tmp_path, stored)) as head:
        assert head.bias.tensor == tensor
        for rows in (9, 4):
            found = head.read_bias(rows)
            assert found.dtype == np.float64
            assert np.array_equal(found, stored[:rows].astype(np.float64))


@every_kind
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_with_tensor_and_row(tmp_path, save, tensor, value):
    bad = BIAS.copy()
    bad[6] = value
    with open_source(save(tmp_path, bad)) as head:
        head.read_bias(6)  # rows that are not packed do not matter
        with pytest.raises(ValueError, match=rf"tensor {tensor}: row 6 holds a value .*finite"):
            head.read_bias(9)


@every_kind
@pytest.mark.parametrize("shape", [(8,), (10,), (1, 9), (3, 3)])
def test_a_bias_of_another_shape_is_refused(tmp_path, save, tensor, shape):
    with open_source(save(tmp_path, np.ones(shape, np.float32))) as head:
        message = rf"tensor {tensor}: does not fit the head .*expected \[9\], found \[{shape[0]}"
        with pytest.raises(UserError, match=message):
            head.read_bias(9)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("w.npy", "an array bias in an .npz file"),
        ("w.npz", "an array bias in an .npz file"),
        ("w.safetensors", r"a tensor lm_head\.bias"),
        ("w.gguf", r"a tensor output\.bias"),
    ],
)
def test_a_head_without_a_bias_says_where_one_would_be(tmp_path, name, place):
    path = tmp_path / name
    if path.suffix == ".npy":
        np.save(path, W)
    elif path.suffix == ".npz":
        np.savez(path, weight=W)
    elif path.suffix == ".gguf":
        write_gguf(path, {"output.weight": (W, None), "blk.0.attn_q.bias": (BIAS, None)})
    else:
        save_file({"lm_head.weight": W, "model.layers.0.q_proj.bias": BIAS}, path)
    with open_source(path) as head:
        assert head.bias is None
        with pytest.raises(UserError, match=rf"no bias to pack with --bias \(expected {place}\)"):
            head.read_bias(9)


def test_the_bias_of_another_head_is_not_taken(tmp_path):
    path = tmp_path / "m.safetensors"
    save_file({"lm_head.weight": W, "output.bias": BIAS}, path)
    with open_source(path) as head:
        assert head.bias is None


@pytest.mark.parametrize("dtype", ["<f8", ">f8", ">f4", "<i4", "u1"])
def test_an_array_of_any_number_is_a_bias(tmp_path, dtype):
    stored = (np.abs(BIAS) * 50).astype(dtype)
    with open_source(archive(tmp_path, stored)) as head:
        assert np.array_equal(head.read_bias(9), stored.astype(np.float64))


def test_a_bf16_bias_is_read_exactly(tmp_path):
    folder = untied_model(tmp_path, BIAS)
    names = {"lm_head.weight": "head.safetensors", "lm_head.bias": "bias.safetensors"}
    save_file({"lm_head.weight": W}, folder / "head.safetensors")
    write_bf16(folder / "bias.safetensors", "lm_head.bias", BIAS)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    with open_source(index) as head:
        expected = (BIAS.view(np.uint32) & 0xFFFF0000).view(np.float32)
        assert np.array_equal(head.read_bias(9), expected)


@pytest.mark.parametrize("bias", [np.array(["a"] * 9), np.zeros(9, complex), np.zeros(9, bool)])
def test_an_array_of_no_numbers_is_refused(tmp_path, bias):
    with (
        open_source(archive(tmp_path, bias)) as head,
        pytest.raises(UserError, match=r"array bias: type \(expected float or integer"),
    ):
        head.read_bias(9)


def test_a_tensor_of_another_type_is_refused(tmp_path):
    integers = np.ones(9, np.int32)
    with (
        open_source(named_head(tmp_path, integers)) as head,
        pytest.raises(UserError, match=r"embed_out\.bias: type \(expected F32, F16 or BF16, fo"),
    ):
        head.read_bias(9)
    with (
        open_source(untied_gguf(tmp_path, integers)) as head,
        pytest.raises(UserError, match=r"output\.bias: cannot be dequantised .*found I32"),
    ):
        head.read_bias(9)


def test_a_missing_shard_with_the_bias_is_named(tmp_path):
    folder = sharded_model(tmp_path, BIAS)
    (folder / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match=r"model-00001-of-00002\.safetensors: no such file"):
        open_source(folder)


def test_an_index_that_promises_a_bias_too_much_is_named(tmp_path):
    folder = sharded_model(tmp_path, BIAS)
    save_file({EMBEDDING: W}, folder / "model-00001-of-00002.safetensors")
    with pytest.raises(UserError, match=r"model-00001.*no tensor lm_head\.bias, which the index"):
        open_source(folder)
