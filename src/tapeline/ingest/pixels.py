"""Turn image files into pixels, by the same code for training data and for prediction."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps

from tapeline.runtime import files
from tapeline.runtime.errors import InputError

GREY = {"1", "L", "LA"}
COLOUR = {"P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"}
MODES = {1: ("L",), 3: ("RGB", "RGBX"), 4: ("RGBA",)}
"""Channels → Pillow's modes. The last byte of RGBX means nothing."""


@contextmanager
def decoded(file: IO[bytes], shown: str) -> Iterator[Image.Image]:
    """Yield an opened image with 8 bits per channel. Raises `InputError`, naming `shown`, if it cannot be decoded."""
    with quiet(), decoding(file, shown) as image:
        yield image


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore Pillow's warnings, of damaged metadata and of large images: only decoding matters. For one thread."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\b")
        yield


@contextmanager
def decoding(file: IO[bytes], shown: str) -> Iterator[ImageFile.ImageFile]:
    """Do what `decoded` does in any thread, below a `quiet` of the main one: warnings are filtered for all threads."""
    try:
        with Image.open(file) as image:
            _refuse_deep(image, shown)
            yield image
    except (InputError, MemoryError):
        raise
    except Exception as error:  # Pillow's format readers raise anything: ValueError, IndexError, KeyError
        if isinstance(error, OSError) and error.errno in files.DISK_ERRORS:
            raise
        # Drop the buffer's memory address, which Pillow prints.
        reason = " ".join(str(error).split("<_io")[0].split())
        raise InputError(f"{shown} is not an image that can be decoded ({reason}): replace or remove it") from None


def upright(image: Image.Image, channels: int) -> Image.Image:
    """Return an image rotated according to its EXIF tag, with 1 (grey), 3 (RGB or RGBX) or 4 (RGBA) channels of 8 bits.

    It may be `image` itself, which is rotated in any case: a copy of its pixels would cost as much as decoding them.
    """
    ImageOps.exif_transpose(image, in_place=True)
    turned = image.convert("RGBA") if "transparency" in image.info else image
    return turned if turned.mode in MODES[channels] else turned.convert(MODES[channels][0])


def array(image: Image.Image, channels: int) -> NDArray[np.uint8]:
    """Return the pixels of what `upright` has returned: uint8 (height, width, channels)."""
    plain = image if image.mode == MODES[channels][0] else image.convert(MODES[channels][0])
    return np.asarray(plain, np.uint8).reshape(image.height, image.width, channels)


def _refuse_deep(image: Image.Image, shown: str) -> None:
    """Raise `InputError` for more than 8 bits per channel: Pillow silently drops the lower 8 bits of 16-bit RGB."""
    if image.mode not in GREY | COLOUR:
        raise InputError(f"{shown} has pixels of type {image.mode}: save it with 8 bits a channel")
    for tile in getattr(image, "tile", ()):
        if ";16" in str(tile[3]):
            raise InputError(f"{shown} has 16 bits a channel: save it with 8 bits a channel")
