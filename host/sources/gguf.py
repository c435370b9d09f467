"""Heads in GGUF files."""

from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, TokenType
from gguf.quants import dequantize

from host.errors import UserError
from host.files.gguf_format import GGUFTensor, read_header
from host.files.rawfile import RawFile
from host.sources.head import BiasSource, HeadSource, IntegerForm, check_shape
from host.sources.transform import gguf_transform

HEAD = "output.weight"
EMBEDDING = "token_embd.weight"
BIAS = "output.bias"

INTEGER_FORMS = {
    GGMLQuantizationType.Q8_0: IntegerForm(weight_bits=8, group=32, signed=False),
    GGMLQuantizationType.Q4_0: IntegerForm(weight_bits=4, group=32, signed=True),
}


class GGUFSource(HeadSource):
    """The head of a GGUF file: `output.weight`, or else the token embedding.

    A GGUF file says that embeddings are tied by having no `output.weight`. The bias is
    `output.bias`, with either.

    Parameters
    ----------
    path : Path

    Raises
    ------
    UserError
        No head, no tensor that can be dequantised, a damaged file, or a logit scale or softcap that
        is no finite number above 0.
    """

    bias_place = f"a tensor {BIAS}"

    def __init__(self, path: Path):
        self.path = path
        self.file = RawFile(path)
        try:
            fields, tensors = read_header(self.file)
            entry = self._find(fields, tensors)
            self._check(fields, entry)
            self.transform = gguf_transform(self.file.name, fields)
        except BaseException:
            self.file.close()
            raise
        self.dtype = entry.type.name
        self.rows, self.dim = entry.shape
        self.offset, self.size = entry.offset, entry.size
        self.vocabulary = vocabulary_size(fields)
        self.integer_form = INTEGER_FORMS.get(entry.type)
        self._type = entry.type
        self._row_bytes = entry.size // self.rows
        if BIAS in tensors:
            self.bias = self._bias(tensors[BIAS])

    def _find(self, fields: dict[str, Any], tensors: dict[str, GGUFTensor]) -> GGUFTensor:
        parts = fields.get("split.count", 1)
        if parts > 1:
            # The head may be in another part, and then the embedding here would be the wrong one.
            raise UserError(
                self.file.name,
                "one part of a split model",
                expected="one file (llama-gguf-split --merge makes it)",
                found=f"{parts} parts",
            )
        self.tied = HEAD not in tensors
        self.tensor = EMBEDDING if self.tied else HEAD
        if self.tensor not in tensors:
            raise UserError(self.file.name, "no head", expected=f"a tensor {HEAD} or {EMBEDDING}")
        return tensors[self.tensor]

    def _check(self, fields: dict[str, Any], entry: GGUFTensor):
        where = f"{self.file.name}: tensor {self.tensor}"
        architecture = fields.get("general.architecture")
        check_shape(
            where,
            entry.shape,
            hidden=fields.get(f"{architecture}.embedding_length"),
            vocabulary=None,
        )
        block, block_bytes = GGML_QUANT_SIZES[entry.type]
        try:
            dequantize(np.zeros((1, block_bytes), np.uint8), entry.type)
        except NotImplementedError:
            raise UserError(
                where,
                "cannot be dequantised",
                expected="a float or quantised type",
                found=entry.type.name,
            ) from None

    def _bias(self, entry: GGUFTensor) -> BiasSource:
        def read():
            data = np.frombuffer(self.file.read(entry.offset, entry.size), np.uint8)
            try:
                return dequantize(data, entry.type).reshape(entry.shape)
            except NotImplementedError:
                raise UserError(
                    f"{self.file.name}: tensor {BIAS}",
                    "cannot be dequantised",
                    expected="a float type",
                    found=entry.type.name,
                ) from None

        return BiasSource(BIAS, self.file.name, read)

    def _raw(self, start: int, stop: int) -> np.ndarray:
        size = (stop - start) * self._row_bytes
        data = self.file.read(self.offset + start * self._row_bytes, size)
        return np.frombuffer(data, np.uint8).reshape(stop - start, self._row_bytes)

    def read(self, start: int, stop: int) -> np.ndarray:
        values = dequantize(self._raw(start, stop), self._type)
        self.check_finite(values, start)
        return values

    def read_integers(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        if self.integer_form is None:
            return super().read_integers(start, stop)
        raw = self._raw(start, stop)
        blocks = raw.reshape(stop - start, -1, GGML_QUANT_SIZES[self._type][1])
        scales = np.ascontiguousarray(blocks[..., :2]).view("<f2")[..., 0]
        self.check_finite(scales, start)
        codes = blocks[..., 2:]
        if self.integer_form.weight_bits == 8:
            weights = np.ascontiguousarray(codes).view(np.int8)
        else:
            # A block of Q4_0 is its low nibbles, then its high nibbles, each 8 above the weight.
            weights = np.concatenate([codes & 15, codes >> 4], axis=-1).view(np.int8) - np.int8(8)
        return weights.reshape(stop - start, self.dim), scales


def vocabulary_size(fields: dict[str, Any]) -> int | None:
    """Entries of the tokenizer.

    Converters fill the list of tokens up to the rows of the embedding with unused tokens named
    [PAD<id>]; these are no entries.
    """
    tokens = fields.get("tokenizer.ggml.tokens")
    if not tokens:
        return None
    types = fields.get("tokenizer.ggml.token_type")
    count = len(tokens)
    if types is not None and len(types) == count:
        while (
            count
            and types[count - 1] == TokenType.UNUSED
            and tokens[count - 1] == f"[PAD{count - 1}]".encode()
        ):
            count -= 1
    return count
