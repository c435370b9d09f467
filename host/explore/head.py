"""The head that a sweep is about: an image, a model or just a size, and its image in any format."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from host.errors import UsageError, UserError
from host.explore.store import version
from host.files.rawfile import RawFile
from host.files.safetensors_format import read_header
from host.image import Image, ImageWriter
from host.image.image import FORMAT, NO_SOURCE
from host.image.quantize import EXACT, scale_limit
from host.image.tiles import row_chunks, weight_dtype
from host.pack import PackOptions, pack
from host.sources.open import open_source
from hw.config import IMAGE_FIELDS, HeadConfig
from sim.cache import cached, digest

SIZE = re.compile(r"(\d+)\s*[x×]\s*(\d+)")
MOST_ROWS, MOST_DIM = 2**31 - 1, 65536
FILE_NAME = "head.safetensors"


@dataclass(frozen=True)
class SweptHead:
    """A matrix [rows, dim].

    Without a file its weights are random, the same in every process. A file has to be at the same
    path wherever its points are computed; that it is the same file is checked.
    """

    rows: int
    dim: int
    path: Path | None = None
    packed: bool = False
    """The file is an image, which decides its own format."""
    content: str = ""
    """What is in the file, as a digest."""

    @classmethod
    def named(cls, text: str) -> "SweptHead":
        """The head that an argument names: a file, or V x d.

        Raises
        ------
        UserError
            The file holds no head.
        UsageError
            The size is out of range.
        """
        size = SIZE.fullmatch(text.strip())
        if size is not None:
            rows, dim = map(int, size.groups())
            if not (1 <= rows <= MOST_ROWS and 1 <= dim <= MOST_DIM):
                raise UsageError(
                    "HEAD", f"must be at most {MOST_ROWS} x {MOST_DIM}, and not empty", found=text
                )
            return cls(rows, dim)
        path = Path(text).absolute()
        if _is_image(path):
            image = Image(path)
            return cls(image.rows, image.dim, path, True, image.metadata["sha256"])
        with open_source(path) as source:
            rows = min(source.rows, source.vocabulary or source.rows)
            return cls(rows, source.dim, path, False, _model_content(source))

    @property
    def name(self) -> str:
        """The file and the size, or the size alone."""
        size = f"{self.rows:,} x {self.dim:,}"
        return size if self.path is None else f"{self.path.name}, {size}"

    @cached_property
    def image_fields(self) -> dict[str, object]:
        """The format of an image, which hardware for it cannot choose; empty for other heads."""
        return Image(self.path).config_fields if self.packed else {}

    def format(self, chosen: Mapping[str, object]) -> dict[str, object]:
        """The image format that chosen parameters lead to, as keywords of `HeadConfig`.

        Raises
        ------
        ValueError, UserError
            There is none.
        """
        chosen = {field: value for field, value in chosen.items() if field in IMAGE_FIELDS}
        if self.packed:
            return self.image_fields | chosen
        if self.path is None:
            return chosen
        with open_source(self.path) as source:
            return PackOptions(**chosen).config(source, self.rows).image_fields()

    def image(self, config: HeadConfig) -> Image:
        """This head packed for a configuration; kept in the cache.

        Raises
        ------
        UserError
            The file is missing, or another one than the sweep is about.
        """
        if self.packed:
            image = Image(self.path)
            if image.metadata["sha256"] != self.content:
                raise UserError(self.path, "is another image than the sweep is about")
            return image
        fields = config.image_fields()
        build = self._write_random if self.path is None else self._pack
        key = digest([repr((self.rows, self.dim, self.content)), repr(fields), version()])
        entry = cached(f"explored-{key}", lambda folder: build(folder / FILE_NAME, config))
        return Image(entry / FILE_NAME)

    def _pack(self, out: Path, config: HeadConfig) -> None:
        with open_source(self.path) as source:
            if _model_content(source) != self.content:
                raise UserError(self.path, "is another model than the sweep is about")
        pack(self.path, out, PackOptions(**config.image_fields()))

    def _write_random(self, out: Path, config: HeadConfig) -> None:
        rng = np.random.default_rng(0)
        half = 1 << config.weight_bits - 1
        with ImageWriter(out, config, self.rows, self.dim) as writer:
            layout = writer.layout
            for start, stop in row_chunks(layout):
                rows = stop - start
                weights = np.zeros((rows, layout.padded_dim), weight_dtype(config.weight_bits))
                weights[:, : self.dim] = rng.integers(-half, half, (rows, self.dim))
                scales = rng.integers(1, scale_limit(config) + 1, (rows, layout.groups))
                writer.write(start, weights, scales)
            writer.finish(1.0, NO_SOURCE, EXACT)


def _is_image(path: Path) -> bool:
    if path.suffix.lower() != ".safetensors" or not path.is_file():
        return False
    with RawFile(path) as file:
        _, strings = read_header(file)
    return strings.get("format") == FORMAT


def _model_content(source) -> str:
    """A digest of a head's weights and bias; the file may hold much else."""
    parts = [source.file.sha256(source.offset, source.size), source.dtype]
    parts.append(repr((source.rows, source.dim, source.vocabulary, source.transform)))
    if source.bias is not None:
        parts.append(source.bias.read().tobytes())
    return digest(parts)
