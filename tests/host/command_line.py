"""What the tests of the command line share: a model, hidden states and errors in one line."""

import numpy as np

ROWS, DIM = 45, 40
RNG = np.random.default_rng(3)
# Whole numbers with 127 in every group: the packer takes them over exactly.
WEIGHTS = RNG.integers(-126, 127, (ROWS, DIM))
WEIGHTS[:, ::32] = 127
HIDDEN = RNG.normal(size=(5, DIM)).astype(np.float32)


def assert_one_line(text, *parts):
    assert text.startswith("unembed: error: ")
    assert text.count("\n") == 1 and text.endswith("\n")
    for part in parts:
        assert str(part) in text


def without_progress(text):
    return "".join(line for line in text.splitlines(True) if line.startswith("unembed:"))
