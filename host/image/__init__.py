"""Packed images: the number format, the bytes of rows, files that hold them."""

from host.image.image import Image, SourceInfo
from host.image.writer import ImageWriter, save_image

__all__ = ["Image", "ImageWriter", "SourceInfo", "save_image"]
