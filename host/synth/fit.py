"""Whether a design fits a device."""

from collections.abc import Mapping

from host.errors import UserError

NAMES = {"lut4": "LUTs", "ff": "flip-flops", "dsp": "DSP blocks", "ram": "block RAMs"}
"""What a design can run out of."""


def check_fit(
    device: object, used: Mapping[str, float], available: Mapping[str, int], note: str = ""
) -> None:
    """Raise UserError, which names all that exceeds, unless a design fits.

    Parameters
    ----------
    device : object
        For the message.
    used, available : mapping
        By what is in `NAMES`; what is not available in a known number is not checked.
    note : str
        To be added to the message.
    """
    exceeded = [
        f"{used[kind]:,} of {available[kind]:,} {name}"
        for kind, name in NAMES.items()
        if kind in available and used[kind] > available[kind]
    ]
    if exceeded:
        raise UserError(device, f"the design does not fit: it needs {', '.join(exceeded)}{note}")
