"""A stream whose consumer says a clock ahead whether it takes a word."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class EarlyReady(wiring.Signature):
    """`ready_next` tells that a word is taken in the next clock if there is one.

    So what must know it, however many and far away, has it from a flip-flop. `valid` is only high
    in a clock after one with `ready_next`: every valid word is taken.

    Parameters
    ----------
    shape : shape-like
        Of the payload.
    """

    def __init__(self, shape):
        super().__init__({"payload": Out(shape), "valid": Out(1), "ready_next": In(1)})
