"""Writes tiny model files for the tests, with the formats' own libraries."""

import json
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

Q = gguf.GGMLQuantizationType


def write_gguf(
    path: Path,
    tensors: dict[str, tuple[np.ndarray, Q | None]],
    *,
    hidden: int | None = None,
    tokens: list[str] | None = None,
    types: list[int] | None = None,
    extra: dict[str, int | float | str] | None = None,
    architecture: str = "llama",
) -> Path:
    """A GGUF file; tensors are (array, None) or (bytes of blocks [V, row bytes], type)."""
    writer = gguf.GGUFWriter(path, architecture)
    if hidden is not None:
        writer.add_embedding_length(hidden)
    if tokens is not None:
        writer.add_token_list(tokens)
    if types is not None:
        writer.add_token_types(types)
    for key, value in (extra or {}).items():
        kinds = {int: writer.add_uint16, float: writer.add_float32, str: writer.add_string}
        kinds[type(value)](key, value)
    for name, (array, kind) in tensors.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def q8_0(weights: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, Q]:
    """Blocks of int8 weights [V, d] and float16 scales [V, d / 32]."""
    rows = len(weights)
    blocks = np.concatenate(
        [
            scales.astype("<f2")[..., np.newaxis].view(np.uint8),
            weights.astype(np.int8).reshape(rows, -1, 32).view(np.uint8),
        ],
        axis=-1,
    )
    return blocks.reshape(rows, -1), Q.Q8_0


def q4_0(weights: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, Q]:
    """Blocks of weights -8..7 [V, d] and float16 scales [V, d / 32]."""
    rows = len(weights)
    codes = (weights.reshape(rows, -1, 2, 16) + 8).astype(np.uint8)
    blocks = np.concatenate(
        [
            scales.astype("<f2")[..., np.newaxis].view(np.uint8),
            codes[:, :, 0] | codes[:, :, 1] << 4,
        ],
        axis=-1,
    )
    return blocks.reshape(rows, -1), Q.Q4_0


def write_model(
    folder: Path,
    tensors: dict[str, np.ndarray],
    config: dict | None = None,
    shards: list[list[str]] | None = None,
    tokenizer: dict | None = None,
) -> Path:
    """A folder with a model in one safetensors file, or in shards of the named tensors."""
    folder.mkdir(exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if tokenizer is not None:
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    if shards is None:
        save_file(tensors, folder / "model.safetensors")
        return folder
    index = {}
    for number, names in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file({name: tensors[name] for name in names}, folder / file)
        index |= dict.fromkeys(names, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder


def write_bf16(path: Path, name: str, values: np.ndarray) -> Path:
    """One BF16 tensor, which NumPy and so the library's NumPy side cannot hold; truncated."""
    data = (values.astype(np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    entry = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [0, len(data)]}
    header = json.dumps({name: entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def random_matrix(rows: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)


JUNK_NPY_HEADERS = [
    b"junk",
    b"{}",
    b"(",
    b'"""',
    b"[1]",
    b"\xff\x00",
    b"{1: 2, 'a': 3}",
    b"{[]: 1}",
    b"-" * 5000 + b"1",
    b"{'descr': '<q9', 'fortran_order': False, 'shape': (1,)}",
    b"{'descr': [('a', 'b', 'c', 'd')], 'fortran_order': False, 'shape': (1,)}",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 70,)}",
]
"""Of no array; NumPy raises errors of many types for them."""


def npy_file(header: bytes, version: int) -> bytes:
    """A .npy file with a header as it is given, and 8 bytes of data."""
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return np.lib.format.MAGIC_PREFIX + bytes([version, 0]) + length + header + bytes(8)
