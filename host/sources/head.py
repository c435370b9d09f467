"""What every kind of model file offers to the packer: rows of one head, by position."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import numpy as np

from host.errors import UserError
from host.files.rawfile import RawFile
from host.sampling import LogitTransform


@dataclass(frozen=True)
class IntegerForm:
    """How a source stores its weights as integers with scales."""

    weight_bits: int
    """Weights are two's complement of this width."""
    group: int
    """Consecutive columns that share a scale; 0 for the whole row."""
    signed: bool
    """Scales of either sign are usual in this form."""


@dataclass(frozen=True)
class BiasSource:
    """Where the bias of a head lies in a model."""

    tensor: str
    """Its name."""
    file: str
    """The file it is in, for errors."""
    read: Callable[[], np.ndarray]
    """Reads all of it, in its shape, as real numbers; raises `UserError` for another type."""


class HeadSource(ABC):
    """The head of a model: a matrix [rows, dim] in a file, one row per vocabulary entry.

    Attributes
    ----------
    path : Path
        The file or folder the user named.
    file : RawFile
        The file that holds the tensor.
    tensor : str
        Its name in the file.
    dtype : str
        Its type there, in the words of its format.
    rows, dim : int
        Its shape: vocabulary rows, hidden width.
    offset, size : int
        Its bytes in `file`.
    tied : bool or None
        The head is the token embedding; None where the format knows no such thing.
    vocabulary : int or None
        Entries of the tokenizer, if the model says.
    integer_form : IntegerForm or None
        Set if `read_integers` works.
    bias : BiasSource or None
        The bias of the head, if the model has one.
    bias_place : str
        Where a file of this kind keeps one, for errors.
    transform : LogitTransform
        What the model does to its logits behind the head, nothing where the file does not say.
    """

    path: Path
    file: RawFile
    tensor: str
    dtype: str
    rows: int
    dim: int
    offset: int
    size: int
    tied: bool | None = None
    vocabulary: int | None = None
    integer_form: IntegerForm | None = None
    bias: BiasSource | None = None
    bias_place: str
    transform: LogitTransform = LogitTransform()

    @abstractmethod
    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows `start` to `stop` as float32 [n, dim], finite.

        Raises
        ------
        UserError
            A value is no finite number; the message names tensor and row.
        """

    def read_integers(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows as int8 or int16 [n, dim] and float16 or float32 scales [n, groups], finite.

        A weight is its integer times its group's scale.
        """
        raise NotImplementedError(f"{self.dtype} has no integer form")

    def read_bias(self, rows: int) -> np.ndarray:
        """The bias of the first `rows` rows, float64 [rows], finite.

        Raises
        ------
        UserError
            There is none, it does not fit the head, or a value is no finite number.
        """
        if self.bias is None:
            raise UserError(self.path, "no bias to pack with --bias", expected=self.bias_place)
        where = f"{self.bias.file}: tensor {self.bias.tensor}"
        values = self.bias.read()
        if values.shape != (self.rows,):
            raise UserError(
                where,
                f"does not fit the head {self.tensor}",
                expected=[self.rows],
                found=list(values.shape),
            )
        values = values[:rows].astype(np.float64)
        _check_finite(where, values, 0)
        return values

    def digests(self, stop: Event) -> tuple[str, str]:
        """SHA-256 of the file and of the tensor's bytes in it, empty if `stop` gets set."""
        return self.file.sha256(stop=stop), self.file.sha256(self.offset, self.size, stop=stop)

    def check_finite(self, values: np.ndarray, start: int):
        """Raise `UserError` at the first row [n, ...] that holds NaN or infinity."""
        _check_finite(f"{self.file.name}: tensor {self.tensor}", values, start)

    def close(self):
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _check_finite(where: str, values: np.ndarray, start: int):
    if np.isfinite(values).all():
        return
    lines = values.reshape(len(values), -1)
    row, column = np.argwhere(~np.isfinite(lines))[0]
    raise UserError(
        where,
        f"row {start + row} holds a value that is not finite",
        expected="finite numbers within float32",
        found=lines[row, column],
    )


def check_shape(where: str, shape: tuple[int, ...], hidden: int | None, vocabulary: int | None):
    """Check that a head is [vocabulary, hidden], as far as the model's configuration says.

    More rows than the vocabulary are padding; fewer are an error.

    Raises
    ------
    UserError
        It is no matrix, is empty, or has another orientation or size.
    """
    expected = f"[{vocabulary or 'vocabulary'}, {hidden or 'hidden width'}]"
    rows, dim = shape if len(shape) == 2 else (0, 0)
    if len(shape) != 2:
        what = "must be a matrix"
    elif min(shape) < 1:
        what = "is empty"
    elif hidden is not None and dim != hidden:
        what = "is transposed" if rows == hidden else "has another hidden width than the model"
    elif vocabulary is not None and rows < vocabulary:
        what = "is transposed" if hidden is None and dim == vocabulary else "lacks rows"
    else:
        return
    raise UserError(where, what, expected=expected, found=list(shape))
