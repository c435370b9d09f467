"""Heads in safetensors files: one file, a sharded model, or a model folder."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from host.errors import UserError
from host.files import safetensors_format
from host.files.rawfile import RawFile
from host.sources.head import BiasSource, HeadSource, check_shape
from host.sources.transform import config_transform

INDEX_NAME = "model.safetensors.index.json"
SHARD_NAME = re.compile(r"(.+)-\d{5}-of-\d{5}\.safetensors")

HEADS = (
    "lm_head.weight",
    "language_model.lm_head.weight",
    "model.lm_head.weight",
    "model.language_model.lm_head.weight",
    "output.weight",
    "embed_out.weight",
)
EMBEDDINGS = (
    "model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "language_model.embed_tokens.weight",
    "model.text_model.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "embed_tokens.weight",
    "transformer.wte.weight",
    "transformer.w.weight",
    "wte.weight",
    "gpt_neox.embed_in.weight",
    "backbone.embeddings.weight",
    "tok_embeddings.weight",
    "token_embd.weight",
)
TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
"""Where models of several modalities keep the configuration of their language model."""

HIDDEN_KEYS = ("hidden_size", "n_embd", "d_model")

DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def _bias_name(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"


class SafetensorsSource(HeadSource):
    """The head of a model in safetensors files.

    With a `config.json` beside the files, it decides whether the embedding is the head and which
    way the matrix lies. Without one, a file must hold a tensor with the name of a head, or a
    single tensor; it is taken as [vocabulary, hidden width], as linear layers are stored.

    The bias of `<name>.weight` is `<name>.bias`, that of a tied head the one of any head's name.

    Parameters
    ----------
    path : Path
        A .safetensors file, an index of shards, or a folder with either.

    Raises
    ------
    UserError
        A file is missing, cut short or damaged; there is no head; it does not fit the
        configuration; or that has a logit scale or softcap that is no finite number above 0.
    """

    bias_place = f"a tensor {_bias_name(HEADS[0])}"

    def __init__(self, path: Path):
        self.path = path
        folder = path if path.is_dir() else path.parent
        names: dict[str, str] = {}
        index = _find_index(path)
        config_path = folder / "config.json"
        config = _read_json(config_path) if config_path.is_file() else None
        if index is not None:
            names = _read_index(index)
            self.tensor, self.tied = _choose_head(str(index), set(names), config)
            self.file = RawFile(folder / names[self.tensor])
        else:
            self.file = RawFile(path if path.is_file() else _single_file(path))
        try:
            tensors, _ = safetensors_format.read_header(self.file)
            if index is None:
                self.tensor, self.tied = _choose_head(self.file.name, set(tensors), config)
            entry = tensors.get(self.tensor)
            if entry is None:
                raise UserError(self.file.name, f"no tensor {self.tensor}, which {index} promises")
            where = f"{self.file.name}: tensor {self.tensor}"
            if entry.dtype not in DTYPES:
                raise UserError(where, "type", expected="F32, F16 or BF16", found=entry.dtype)
            vocabulary = _lookup(config, ("vocab_size",))
            check_shape(where, entry.shape, _lookup(config, HIDDEN_KEYS), vocabulary)
            sizes = [n for n in (vocabulary, tokenizer_size(folder)) if n is not None]
            self.bias = self._find_bias(folder, tensors, names)
            if config is not None:
                text = next(iter(_text_configs(config)), config)
                model_type = text.get("model_type") or config.get("model_type")
                self.transform = config_transform(str(config_path), text, model_type)
        except BaseException:
            self.file.close()
            raise
        self.dtype = entry.dtype
        self.rows, self.dim = entry.shape
        self.offset, self.size = entry.offset, entry.size
        self.vocabulary = min(sizes, default=None)

    def _find_bias(
        self,
        folder: Path,
        tensors: dict[str, safetensors_format.TensorEntry],
        shards: dict[str, str],
    ) -> BiasSource | None:
        """The bias among the tensors of the head's file, or of all shards of a model."""
        wanted = HEADS if self.tied else (self.tensor,)
        candidates = [_bias_name(name) for name in wanted if name.endswith(".weight")]
        name = next((name for name in candidates if name in (shards or tensors)), None)
        if name is None:
            return None
        path = folder / shards[name] if shards else self.file.path
        with RawFile(path) as file:
            entry = safetensors_format.read_header(file)[0].get(name)
            if entry is None:
                raise UserError(file.name, f"no tensor {name}, which the index promises")

        def read():
            if entry.dtype not in DTYPES:
                where = f"{path}: tensor {name}"
                raise UserError(where, "type", expected="F32, F16 or BF16", found=entry.dtype)
            with RawFile(path) as file:
                return _floats(file.read(entry.offset, entry.size), entry.dtype).reshape(
                    entry.shape
                )

        return BiasSource(name, str(path), read)

    def read(self, start: int, stop: int) -> np.ndarray:
        row_bytes = self.size // self.rows
        data = self.file.read(self.offset + start * row_bytes, (stop - start) * row_bytes)
        values = _floats(data, self.dtype).reshape(stop - start, self.dim)
        self.check_finite(values, start)
        return values


def _floats(data: bytearray, dtype: str) -> np.ndarray:
    """Stored floats as float32."""
    stored = np.frombuffer(data, DTYPES[dtype])
    if dtype == "BF16":
        # A bfloat16 is the upper half of a float32.
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32, copy=False)


def _find_index(path: Path) -> Path | None:
    if path.is_dir():
        index = path / INDEX_NAME
        return index if index.is_file() else None
    if path.name.endswith(".json"):
        return path
    shard = SHARD_NAME.fullmatch(path.name)
    if not shard:
        return None
    # Another shard may hold the head; only the index tells.
    index = path.parent / f"{shard[1]}.safetensors.index.json"
    if not index.is_file():
        raise UserError(path, "a shard without its index", expected=index)
    return index


def _single_file(folder: Path) -> Path:
    files = sorted(folder.glob("*.safetensors"))
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise UserError(
            folder, "no model", expected=f"one .safetensors file or {INDEX_NAME}", found=names
        )
    return files[0]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(path, "no such file") from None
    except OSError as error:
        raise UserError(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(path, f"no JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(path, "must be a JSON object", found=type(content).__name__)
    return content


def _read_index(path: Path) -> dict[str, str]:
    names = _read_json(path).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(n, str) for n in names.values()):
        raise UserError(path, "no index of shards", expected="an object weight_map of file names")
    return names


def _text_configs(config: dict[str, Any]) -> list[dict[str, Any]]:
    return [config[name] for name in TEXT_CONFIGS if isinstance(config.get(name), dict)]


def _lookup(config: dict[str, Any] | None, keys: tuple[str, ...]) -> Any:
    """The value of the first of `keys` there is, in the language model's part first."""
    if config is None:
        return None
    for part in (*_text_configs(config), config):
        for key in keys:
            if part.get(key) is not None:
                return part[key]
    return None


def _choose_head(
    where: str, names: set[str], config: dict[str, Any] | None
) -> tuple[str, bool | None]:
    """The name of the head's tensor and whether it is the embedding."""
    head = next((name for name in HEADS if name in names), None)
    if head is not None:
        return head, False
    embedding = next((name for name in EMBEDDINGS if name in names), None)
    if config is None:
        if len(names) == 1 and embedding is None:
            return next(iter(names)), None
        raise UserError(
            where,
            "no head, and no config.json that says whether the embedding is the head",
            expected=f"a tensor {HEADS[0]}",
            found=embedding or f"{len(names)} tensors",
        )
    # The format leaves the key out where it has its default, which is true.
    tied = _lookup(config, ("tie_word_embeddings",))
    if tied is None or tied is True:
        if embedding is None:
            raise UserError(where, "no head", expected=f"a tensor {HEADS[0]} or {EMBEDDINGS[0]}")
        return embedding, True
    raise UserError(
        where,
        "no head",
        expected=f"a tensor {HEADS[0]}, as config.json sets tie_word_embeddings to {tied}",
        found=embedding or f"{len(names)} tensors",
    )


def tokenizer_size(folder: Path) -> int | None:
    """One more than the largest id in a folder's tokenizer.json; None if there is none."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    content = _read_json(path)
    model = content.get("model")
    vocabulary = model.get("vocab", {}) if isinstance(model, dict) else {}
    # Unigram models list their pieces in order, the others map pieces to ids.
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    added = [token["id"] for token in content.get("added_tokens") or []]
    return max((*ids, *added), default=-1) + 1 or None
