import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from host.errors import UserError
from host.sources.open import open_source

from .model_files import random_matrix, write_bf16, write_model

W = random_matrix(8, 4)
E = random_matrix(8, 4, seed=1)
HEAD = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
NESTED = "model.language_model.embed_tokens.weight"
CONFIG = {"hidden_size": 4, "vocab_size": 8}


def test_the_head_of_a_model_folder_is_found(tmp_path):
    folder = write_model(tmp_path / "m", {EMBEDDING: E, HEAD: W}, CONFIG)
    for path in (folder, folder / "model.safetensors"):
        with open_source(path) as head:
            assert (head.tensor, head.tied, head.rows, head.dim) == (HEAD, False, 8, 4)
            assert np.array_equal(head.read(0, 8), W)
            assert np.array_equal(head.read(3, 5), W[3:5])


@pytest.mark.parametrize(
    ("name", "config"),
    [
        (EMBEDDING, CONFIG | {"tie_word_embeddings": True}),
        (NESTED, {"text_config": CONFIG | {"tie_word_embeddings": True}}),
        (NESTED, {"tie_word_embeddings": True, "text_config": CONFIG}),
        (NESTED, {"tie_word_embeddings": False, "text_config": {"tie_word_embeddings": True}}),
        (EMBEDDING, CONFIG),  # the key is left out where it has its default
        ("transformer.wte.weight", {"n_embd": 4}),
    ],
)
def test_a_tied_embedding_is_the_head(tmp_path, name, config):
    folder = write_model(tmp_path / "m", {name: E, "model.norm.weight": W[0]}, config)
    with open_source(folder) as head:
        assert (head.tensor, head.tied) == (name, True)
        assert np.array_equal(head.read(0, 8), E)


@pytest.mark.parametrize(
    "config",
    [
        {"tie_word_embeddings": False},
        {"text_config": {"tie_word_embeddings": False}},
        {"tie_word_embeddings": True, "text_config": {"tie_word_embeddings": False}},
    ],
)
def test_an_untied_model_without_a_head_is_refused(tmp_path, config):
    folder = write_model(tmp_path / "m", {NESTED: E}, CONFIG | config)
    message = r"no head .*lm_head\.weight.*tie_word_embeddings to False.*embed_tokens"
    with pytest.raises(UserError, match=message):
        open_source(folder)


def test_an_embedding_without_a_config_is_not_silently_tied(tmp_path):
    folder = write_model(tmp_path / "m", {EMBEDDING: E})
    with pytest.raises(UserError, match=r"no config\.json that says whether"):
        open_source(folder)


def test_a_single_tensor_without_a_config_is_the_head(tmp_path):
    path = tmp_path / "matrix.safetensors"
    save_file({"anything": W}, path)
    with open_source(path) as head:
        assert (head.tensor, head.tied) == ("anything", None)
        assert np.array_equal(head.read(0, 8), W)


@pytest.mark.parametrize(
    "config", [{"hidden_size": 4}, {"text_config": {"hidden_size": 4}}, {"vocab_size": 8}, CONFIG]
)
def test_a_transposed_head_is_refused(tmp_path, config):
    folder = write_model(tmp_path / "m", {HEAD: np.ascontiguousarray(W.T)}, config)
    with pytest.raises(UserError, match=r"lm_head\.weight: is transposed .*found \[4, 8\]"):
        open_source(folder)


def test_a_head_with_too_few_rows_is_refused(tmp_path):
    folder = write_model(tmp_path / "m", {HEAD: W[:5]}, CONFIG)
    with pytest.raises(UserError, match=r"lacks rows \(expected \[8, 4\], found \[5, 4\]\)"):
        open_source(folder)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_floats_are_read_exactly(tmp_path, dtype):
    path = tmp_path / "m.safetensors"
    save_file({HEAD: W.astype(dtype)}, path)
    with open_source(path) as head:
        assert np.array_equal(head.read(2, 8), W.astype(dtype)[2:].astype(np.float32))


def test_bf16_is_read_exactly(tmp_path):
    path = write_bf16(tmp_path / "m.safetensors", HEAD, W)
    expected = (W.view(np.uint32) & 0xFFFF0000).view(np.float32)
    with open_source(path) as head:
        assert head.dtype == "BF16"
        assert np.array_equal(head.read(1, 8), expected[1:])


def test_another_type_is_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    save_file({HEAD: W.astype(np.int32)}, path)
    with pytest.raises(UserError, match=r"lm_head\.weight: type \(expected F32, F16 or BF16, fo"):
        open_source(path)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_value_that_is_not_finite_is_refused_with_tensor_and_row(tmp_path, value):
    bad = W.copy()
    bad[5, 2] = value
    path = tmp_path / "m.safetensors"
    save_file({HEAD: bad}, path)
    with open_source(path) as head, pytest.raises(ValueError, match=r"lm_head\.weight: row 5 "):
        head.read(4, 8)


SHARDS = [[EMBEDDING], [HEAD, "model.norm.weight"]]
TENSORS = {EMBEDDING: E, HEAD: W, "model.norm.weight": W[0]}


@pytest.mark.parametrize(
    "name", ["", "model.safetensors.index.json", "model-00001-of-00002.safetensors"]
)
def test_the_head_of_a_sharded_model_is_found(tmp_path, name):
    folder = write_model(tmp_path / "m", TENSORS, CONFIG, SHARDS)
    with open_source(folder / name) as head:
        assert head.file.path.name == "model-00002-of-00002.safetensors"
        assert np.array_equal(head.read(0, 8), W)


def test_a_missing_shard_is_named(tmp_path):
    folder = write_model(tmp_path / "m", TENSORS, CONFIG, SHARDS)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match=r"model-00002-of-00002\.safetensors: no such file"):
        open_source(folder)


def test_a_shard_without_its_index_is_refused(tmp_path):
    folder = write_model(tmp_path / "m", TENSORS, CONFIG, SHARDS)
    (folder / "model.safetensors.index.json").unlink()
    with pytest.raises(UserError, match=r"00001-of-00002\.safetensors: a shard without its index"):
        open_source(folder / "model-00001-of-00002.safetensors")


def test_an_index_that_promises_too_much_is_named(tmp_path):
    folder = write_model(tmp_path / "m", TENSORS, CONFIG, SHARDS)
    index = {"weight_map": {HEAD: "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match=r"model-00001.*no tensor lm_head\.weight, which"):
        open_source(folder)


def test_a_file_cut_anywhere_is_named(tmp_path):
    whole_path = tmp_path / "m.safetensors"
    save_file({HEAD: W}, whole_path)
    whole = whole_path.read_bytes()
    cut = tmp_path / "cut.safetensors"
    for size in range(len(whole)):
        cut.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.safetensors"):
            open_source(cut)
    cut.write_bytes(whole[:-4])
    with pytest.raises(UserError, match=r"the file is cut short \(expected at least \d+ bytes, fo"):
        open_source(cut)


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{not json}",
        b'{"a":{"dtype":"F32","shape":[2,2]}}',
        b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,8]}}',
        b'{"a":{"dtype":"F32","shape":[2,-2],"data_offsets":[0,8]}}',
        b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[16,0]}}',
        b'{"__metadata__":{"a":1}}',
    ],
)
def test_a_damaged_header_is_named(tmp_path, header):
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(UserError, match=r"m\.safetensors: not a valid safetensors file"):
        open_source(path)


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [
        ({"model": {"vocab": {"a": 0, "b": 4}}, "added_tokens": []}, 5),
        ({"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 6}, {"id": 2}]}, 7),
        ({"model": {"vocab": [["a", -1.0], ["b", -2.0]]}}, 2),
        (None, 8),
    ],
)
def test_the_tokenizer_gives_the_vocabulary(tmp_path, tokenizer, expected):
    folder = write_model(tmp_path / "m", {HEAD: W}, CONFIG, tokenizer=tokenizer)
    with open_source(folder) as head:
        assert (head.rows, head.vocabulary) == (8, expected)


def test_a_damaged_config_is_named(tmp_path):
    folder = write_model(tmp_path / "m", {HEAD: W})
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: no JSON"):
        open_source(folder)


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no model \(expected one \.safetensors .*found none\)"):
        open_source(tmp_path)
