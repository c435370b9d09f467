"""What an accelerator can do, from its identification registers, and whether an image fits it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from host.device import DeviceError
from host.errors import UserError
from host.jobs.registers import Registers
from hw.config import IMAGE_FIELDS, HeadConfig
from hw.register_map import MAGIC, VERSION, Feature

if TYPE_CHECKING:
    from host.image import Image

SIZES = {
    "hidden_bits": "HIDDEN_BITS",
    "fold": "FOLD",
    "max_dim": "MAX_DIM",
    "max_rows": "MAX_ROWS",
    "k": "MAX_K",
    "batch": "MAX_VECTORS",
    "rankers": "RANKERS",
}
"""Registers of the parameters that are no image fields."""

FEATURES = {
    "bias": Feature.BIAS,
    "bound": Feature.BOUND,
    "mask": Feature.MASK,
    "all_logits": Feature.LOGITS,
    "logsumexp": Feature.LOGSUMEXP,
    "job_queue": Feature.JOB_QUEUE,
}
"""Optional functions, by the parameter that builds them."""


def option(field: str) -> str:
    """The option of `unembed generate` that sets a parameter."""
    return "--max-k" if field == "k" else "--" + field.replace("_", "-")


@dataclass(frozen=True)
class Capabilities:
    """What one accelerator can do."""

    name: str
    """The device's."""
    config: HeadConfig
    """As far as the registers tell it: what concerns timing alone is at its defaults."""
    format_word: int

    @property
    def known(self) -> dict[str, int | bool]:
        """The parameters that the registers tell, by their name in `HeadConfig`."""
        names = dict.fromkeys((*IMAGE_FIELDS, *SIZES, *FEATURES))
        return {name: getattr(self.config, name) for name in names}

    def require(self, field: str, what: str) -> None:
        """Raise UserError unless an optional function is built.

        Parameters
        ----------
        field : str
            Of `FEATURES`.
        what : str
            What needs it.
        """
        if not getattr(self.config, field):
            raise UserError(
                what, f"{self.name} was built without {field}: build it with {option(field)}"
            )

    def check_image(self, image: "Image") -> None:
        """Raise UserError, which names both values, unless this hardware can run an image."""
        for name in IMAGE_FIELDS:
            packed, built = image.config_fields[name], getattr(self.config, name)
            if packed != built:
                raise UserError(
                    image.path,
                    f"was packed with {name} {packed}, {self.name} was built with {built}: pack or "
                    f"build with an equal {option(name)}",
                )
        expected = image.layout.config.format_word
        if expected != self.format_word:
            raise UserError(
                image.path,
                f"has format {expected:#010x}, {self.name} takes {self.format_word:#010x}",
            )
        for what, value, limit in (
            ("columns", image.dim, "max_dim"),
            ("rows", image.rows, "max_rows"),
        ):
            most = getattr(self.config, limit)
            if value > most:
                raise UserError(
                    image.path,
                    f"has {value} {what}, {self.name} was built for at most {most}: build with a "
                    f"larger {option(limit)}",
                )


def identify(registers: Registers) -> Capabilities:
    """Read what an accelerator can do.

    Raises
    ------
    DeviceError
        The device is no accelerator that this driver knows.
    """
    name = registers.device.name
    magic = registers.read("MAGIC")
    if magic != MAGIC:
        raise DeviceError(
            f"{name}: no unembed accelerator, MAGIC is {magic:#010x} instead of {MAGIC:#010x}"
        )
    version = registers.read("VERSION")
    if version >> 16 != VERSION >> 16:
        raise DeviceError(
            f"{name}: register map version {version >> 16}.{version & 0xFFFF}, "
            f"this driver knows {VERSION >> 16}"
        )
    features = registers.read("FEATURES")
    values = {field: bool(features & bit) for field, bit in FEATURES.items()}
    for field in IMAGE_FIELDS:
        if field not in values:
            values[field] = registers.read(field.upper())
    values["scale_signed"] = bool(values["scale_signed"])
    values |= {field: registers.read(register) for field, register in SIZES.items()}
    try:
        config = HeadConfig(**values)
    except ValueError as error:
        raise DeviceError(f"{name}: its identification contradicts itself: {error}") from None
    return Capabilities(name, config, registers.read("FORMAT"))
