"""Opens the head of a model, whatever file it is in."""

from pathlib import Path

from host.errors import UserError
from host.sources.gguf import GGUFSource
from host.sources.head import HeadSource
from host.sources.numpy_files import NumpySource
from host.sources.safetensors import SafetensorsSource

SUFFIXES = {
    ".gguf": GGUFSource,
    ".safetensors": SafetensorsSource,
    ".json": SafetensorsSource,
    ".npy": NumpySource,
    ".npz": NumpySource,
}


def open_source(path: Path) -> HeadSource:
    """The head in a model file.

    Parameters
    ----------
    path : Path
        A .gguf, .safetensors, .npy or .npz file, a `model.safetensors.index.json`, or the folder
        of a model in safetensors files.

    Returns
    -------
    HeadSource
        To be closed, or used in a with statement.

    Raises
    ------
    UserError
        There is no such file, it is of no known kind or damaged, or it holds no head.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(path, "no such file")
    if path.is_dir():
        return SafetensorsSource(path)
    try:
        kind = SUFFIXES[path.suffix.lower()]
    except KeyError:
        raise UserError(
            path, "unknown kind of model file", expected=".gguf, .safetensors, .npy or .npz"
        ) from None
    return kind(path)
