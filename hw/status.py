"""How a job ended: the status codes shared by the gateware, the register map and the host."""

from enum import IntEnum


class Status(IntEnum):
    """Status code of an ended job, in the STATUS register and in the trailer of its results.

    With ROWS..FORMAT and FEATURE the job has caused no bus traffic, nor with LENGTH if an
    IMAGE_BYTES was no multiple of the bus width or too large to count, or that of channel 0 zero.
    Otherwise LENGTH is found where the image ends; then, as with READ, the trailer of the result
    block has been written and no records. With WRITE either may be missing.
    """

    OK = 0
    ROWS = 1
    DIM = 2
    K = 3
    VECTORS = 4
    ALIGNMENT = 5
    FORMAT = 6
    LENGTH = 7
    READ = 8
    WRITE = 9
    RESET = 10
    FEATURE = 11

    @property
    def meaning(self) -> str:
        """What happened, as one phrase for messages and documentation."""
        return _MEANINGS[self]


_MEANINGS = {
    Status.OK: "completed",
    Status.ROWS: "ROWS is zero or larger than MAX_ROWS",
    Status.DIM: "DIM is zero or larger than MAX_DIM",
    Status.K: "K is zero or larger than MAX_K",
    Status.VECTORS: "VECTORS is zero or larger than MAX_VECTORS",
    Status.ALIGNMENT: "an address is not a multiple of the bus width",
    Status.FORMAT: "the image's format is not the hardware's",
    Status.LENGTH: "IMAGE_BYTES is not the size of an image of ROWS and DIM",
    Status.READ: "a read was answered with an error (RRESP)",
    Status.WRITE: "a write was answered with an error (BRESP)",
    Status.RESET: "dropped by a soft reset",
    Status.FEATURE: "FLAGS asks for a function that is not built",
}
