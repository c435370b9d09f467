"""Weight formats and heads of known models, to say what fits on a board."""

from dataclasses import dataclass, field

from hw.config import HeadConfig
from hw.layout import ImageLayout


@dataclass(frozen=True)
class HeadFormat:
    """A weight format."""

    name: str
    fields: dict[str, int | bool] = field(hash=False)
    """Its parameters in `HeadConfig`."""


FORMATS = (
    HeadFormat("int8", {"weight_bits": 8, "group": 32}),
    HeadFormat("int4", {"weight_bits": 4, "group": 32, "scale_signed": True}),
)
"""Those of Q8_0 and Q4_0: groups of 32 with 16-bit scales."""

ROWS = 131_072
"""Rows of the head whose largest width is looked for: a vocabulary of today's usual size."""


@dataclass(frozen=True)
class KnownHead:
    """The head of a model: ``vocab_size`` and ``hidden_size`` of its config.json."""

    model: str
    rows: int
    dim: int

    def image_bytes(self, config: HeadConfig) -> int:
        """Size of its image."""
        return ImageLayout(config, self.rows, self.dim).bytes


HEADS = (
    KnownHead("SmolLM2-135M", 49152, 576),
    KnownHead("GPT-2", 50257, 768),
    KnownHead("Qwen2.5-0.5B", 151936, 896),
    KnownHead("Gemma-3-270M", 262144, 640),
    KnownHead("Llama-3.2-1B", 128256, 2048),
    KnownHead("Llama-3.2-3B", 128256, 3072),
    KnownHead("Llama-3.1-8B", 128256, 4096),
    KnownHead("Qwen2.5-7B", 152064, 3584),
    KnownHead("Gemma-2-9B", 256000, 3584),
    KnownHead("Llama-3.1-70B", 128256, 8192),
)
"""By the number of weights."""
