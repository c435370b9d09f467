"""A small grammar over a tokenizer's texts, lists of integers in JSON, as masks of tokens."""

from functools import cache

import numpy as np
from gguf import GGUFReader

from host.demo import model_file

DIGITS = dict.fromkeys("0123456789", "number")
STATES = {
    "start": {"[": "open"},
    "open": DIGITS | {" ": "open", "-": "minus", "]": "end"},
    "minus": DIGITS,
    "number": DIGITS | {",": "comma", "]": "end"},
    "comma": DIGITS | {" ": "comma", "-": "minus"},
    "end": {"\n": "end"},
}
"""Automaton: by state, where each character leads."""


@cache
def token_texts() -> tuple[str, ...]:
    """The text of every token; what is no ASCII stays in the tokenizer's own letters."""
    field = GGUFReader(str(model_file())).fields["tokenizer.ggml.tokens"]
    letters = str.maketrans({"Ġ": " ", "Ċ": "\n"})
    return tuple(bytes(field.parts[i]).decode().translate(letters) for i in field.data)


def accepts(state: str, text: str) -> bool:
    """Whether the grammar may go on with `text` in `state`."""
    for character in text:
        state = STATES[state].get(character)
        if state is None:
            return False
    return bool(text)


@cache
def masks() -> np.ndarray:
    """The mask of every state of the automaton, int32 [states, ceil(V / 32)], bit 1 = allowed."""
    texts = token_texts()
    allowed = np.zeros((len(STATES), -(-len(texts) // 32) * 32), bool)
    for number, state in enumerate(STATES):
        allowed[number, : len(texts)] = [accepts(state, text) for text in texts]
    return np.packbits(allowed, axis=1, bitorder="little").view("<i4")
