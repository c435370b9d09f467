"""What a model's configuration says it does to its logits behind the head.

config.json names the factor by the model's family, and so does the meaning of a name: Cohere
multiplies by `logit_scale` and Falcon-H1 by `lm_head_multiplier`, Granite divides by
`logits_scaling`, HyperCLOVA X multiplies by it. GGUF has the one key `<arch>.logit_scale`, by which
llama.cpp divides for Granite and MiniCPM and multiplies for the others; Falcon-H1's factor is in
its weights there. `final_logit_softcapping` is the softcap of Gemma and Grok in both.
"""

import math
from typing import Any

from host.errors import UserError
from host.sampling import LogitTransform

SOFTCAP = "final_logit_softcapping"
GGUF_SCALE = "logit_scale"

MULTIPLIERS = ("logit_scale", "lm_head_multiplier")
DIVISORS = ("logits_scaling",)
MULTIPLYING_FAMILIES = ("hyperclovax",)
"""Beginnings of the model types that multiply by every factor."""

GGUF_DIVIDING_FAMILIES = ("granite", "minicpm")
"""Beginnings of the architectures that divide by the factor."""

CONFIG_DEFAULTS = {
    "cohere": {"logit_scale": 0.0625},
    "cohere2": {"logit_scale": 0.0625},
    "gemma2": {SOFTCAP: 30.0},
    "gemma3n": {SOFTCAP: 30.0},
    "gemma3n_text": {SOFTCAP: 30.0},
}
"""By model type what a config.json without the key means; null means that there is none."""

GGUF_DEFAULTS = {
    "gemma2": {SOFTCAP: 30.0},
    "gemma3n": {SOFTCAP: 30.0},
    "grok": {GGUF_SCALE: 3**-0.5},
}
"""By architecture what a GGUF file without the key means; files older than the key exist."""


def config_transform(where: str, text: dict[str, Any], model_type: str | None) -> LogitTransform:
    """What a config.json says.

    Parameters
    ----------
    where : str
        The file, for errors.
    text : dict
        The part of the language model.
    model_type : str or None
        Its type, if the file says.

    Raises
    ------
    UserError
        A value is no finite number above 0.
    """
    model_type = str(model_type).lower()
    values = CONFIG_DEFAULTS.get(model_type, {}) | text
    scale = 1.0
    for name in (*MULTIPLIERS, *DIVISORS):
        divides = name in DIVISORS and not model_type.startswith(MULTIPLYING_FAMILIES)
        scale *= _factor(where, name, values.get(name), divides)
    return _transform(where, scale, SOFTCAP, values.get(SOFTCAP))


def gguf_transform(where: str, fields: dict[str, Any]) -> LogitTransform:
    """What the fields of a GGUF file say; arguments and errors as for `config_transform`."""
    architecture = str(fields.get("general.architecture"))
    defaults = GGUF_DEFAULTS.get(architecture, {})

    def find(name):
        key = f"{architecture}.{name}"
        return key, fields.get(key, defaults.get(name))

    divides = architecture.startswith(GGUF_DIVIDING_FAMILIES)
    return _transform(where, _factor(where, *find(GGUF_SCALE), divides), *find(SOFTCAP))


def _transform(where: str, scale: float, name: str, softcap: Any) -> LogitTransform:
    if softcap is not None:
        softcap = _positive(where, name, softcap)
    try:
        return LogitTransform(scale, softcap)
    except ValueError as error:
        # Each factor is in range, but not their product.
        raise UserError(where, str(error)) from None


def _factor(where: str, name: str, value: Any, divides: bool) -> float:
    """What the logits are multiplied by for a key, 1 without."""
    if value is None:
        return 1.0
    factor = _positive(where, name, value)
    return _positive(where, f"1 / {name}", 1 / factor) if divides else factor


def _positive(where: str, name: str, value: Any) -> float:
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not (math.isfinite(number) and number > 0):
        found = str(value)
        raise UserError(
            where,
            name,
            expected="a finite number above 0",
            found=found if len(found) <= 40 else f"{found[:40]}...",
        )
    return number
