"""How an image file becomes pixels, in training data and in what is predicted: one code, so that both see the same."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from PIL import Image, ImageOps

from tapeline.runtime import files
from tapeline.runtime.errors import InputError

GREY = {"1", "L", "LA"}
COLOUR = {"P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"}
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Channels → Pillow's name."""


@contextmanager
def decoded(file: IO[bytes], shown: str) -> Iterator[Image.Image]:
    """Yield an opened image of 8 bits a channel. Raises `InputError` with `shown` for what cannot be decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged metadata and large images: what matters is whether it decodes
            with Image.open(file) as image:
                _refuse_deep(image, shown)
                yield image
    except (InputError, MemoryError):
        raise
    except (
        Exception
    ) as error:  # each format's reader raises what it happens to: a ValueError, an IndexError, a KeyError
        if isinstance(error, OSError) and error.errno in files.DISK_ERRORS:
            raise
        # The memory address of the buffer, which Pillow prints, says nothing.
        reason = " ".join(str(error).split("<_io")[0].split())
        raise InputError(f"{shown} is not an image that can be decoded ({reason}): replace or remove it") from None


def upright(image: Image.Image, channels: int) -> Image.Image:
    """Return an image turned as its EXIF tag says, with 1 (grey), 3 (RGB) or 4 (RGBA) channels of 8 bits."""
    turned = ImageOps.exif_transpose(image)
    if "transparency" in turned.info:
        turned = turned.convert("RGBA")
    return turned.convert(MODES[channels])


def _refuse_deep(image: Image.Image, shown: str) -> None:
    """Raise `InputError` for more than 8 bits a channel: of 16-bit RGB Pillow silently drops the lower 8."""
    if image.mode not in GREY | COLOUR:
        raise InputError(f"{shown} has pixels of type {image.mode}: save it with 8 bits a channel")
    for tile in getattr(image, "tile", ()):
        if ";16" in str(tile[3]):
            raise InputError(f"{shown} has 16 bits a channel: save it with 8 bits a channel")
