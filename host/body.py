"""The body of a language model, run by llama.cpp: from tokens to hidden states."""

import os
from pathlib import Path

import numpy as np

from host.errors import UserError

BINDING = "cyllama==0.2.18"
CONTEXT_STEP = 256
BATCH_TOKENS = 512
GGML_TYPE_F32 = 0
POOLING_NONE = 0
FLASH_ATTENTION_OFF = 0


class Body:
    """The transformer of a GGUF model without its head.

    Parameters
    ----------
    path : Path
        The model.

    Raises
    ------
    UserError
        The binding is not installed, or the model cannot be loaded.
    """

    def __init__(self, path: Path):
        try:
            from cyllama.llama import llama_cpp
        except ImportError:
            raise UserError(
                BINDING, f"is not installed; make demo does it, or: pip install --no-deps {BINDING}"
            ) from None
        self._llama = llama_cpp
        llama_cpp.disable_logging()
        try:
            self._model = llama_cpp.LlamaModel(str(path), llama_cpp.LlamaModelParams())
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(path, f"llama.cpp cannot load it: {error}") from None
        self._vocabulary = self._model.get_vocab()
        self._path = path

    def start(self, most_tokens: int):
        """Make room for the tokens of prompt and answer; comes before the first `feed`.

        Raises
        ------
        UserError
            The model's context is shorter.
        """
        longest = self._model.n_ctx_train
        if most_tokens > longest:
            raise UserError(
                self._path,
                "prompt and answer are too long",
                expected=f"at most {longest} tokens",
                found=f"{most_tokens} tokens",
            )
        parameters = self._llama.LlamaContextParams()
        parameters.embeddings = True
        parameters.pooling_type = POOLING_NONE
        # Keys and values of 32 bits: with llama.cpp's default of 16 the state is further from the
        # model's (the logit of the demo's first token: 17.74; so 17.35; exact: 17.37).
        parameters.type_k = parameters.type_v = GGML_TYPE_F32
        parameters.flash_attn_type = FLASH_ATTENTION_OFF
        parameters.n_ctx = -(-most_tokens // CONTEXT_STEP) * CONTEXT_STEP
        # Tokens one at a time are short work, in which waiting threads would spin for nothing.
        parameters.n_threads = 1
        parameters.n_threads_batch = len(os.sched_getaffinity(0))
        self._context = self._llama.LlamaContext(self._model, parameters)
        self._position = 0

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text; markers like ``<|im_start|>`` are one token."""
        return list(self._vocabulary.tokenize(text, False, True))

    def text(self, tokens: list[int]) -> str:
        """The text of tokens; a character that is still incomplete at the end is left out."""
        return self._vocabulary.detokenize(tokens).rstrip("\N{REPLACEMENT CHARACTER}")

    def piece(self, token: int) -> str:
        """One token in print, markers included."""
        return self._vocabulary.token_to_piece(token, 0, True)

    def is_end(self, token: int) -> bool:
        """The token ends the answer."""
        return self._vocabulary.is_eog(token)

    def feed(self, tokens: list[int]) -> np.ndarray:
        """Append tokens; the hidden state after the final norm of the last one, float32 [d]."""
        for start in range(0, len(tokens), BATCH_TOKENS):
            part = tokens[start : start + BATCH_TOKENS]
            batch = self._llama.LlamaBatch(n_tokens=len(part), embd=0, n_seq_max=1)
            for index, token in enumerate(part):
                batch.add(token, self._position + index, [0], index == len(part) - 1)
            self._context.decode(batch)
            self._position += len(part)
        return np.array(self._context.get_embeddings_ith(-1), np.float32)
