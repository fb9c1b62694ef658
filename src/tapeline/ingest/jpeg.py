"""Decode JPEGs and tell which are damaged: libjpeg makes up the pixels of damaged parts, and Pillow does not report it.

    with Image.open(io.BytesIO(content)) as image:
        picture, why = jpeg.decoded(content, image)

Compressed data have no checksum. What libjpeg sees is what it cannot read: a code that does not exist, an unknown or
misplaced marker, data that end before the picture does, and data that continue after it, by more than the eight bytes
that it looks ahead. Damage after which it comes out at the very place where the data end is not detected.
"""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import simplejpeg
from numpy.typing import NDArray
from PIL import Image

START = b"\xff\xd8"
ENDED = "its compressed data end before the picture does"
CONTINUED = "its compressed data continue after the picture has ended"
WORDS = {
    "premature end of data segment": ENDED,
    "extraneous bytes before marker 0xd9": CONTINUED,
    "Premature end of JPEG file": "it has no end marker",
}
"""A part of libjpeg's warning → ours."""
SPACES = {"RGB": "RGBX", "L": "GRAY"}
"""Pillow's mode → what simplejpeg decodes to: Pillow holds four bytes a pixel of RGB, and takes such as they are."""
TENSORFLOW = {1: "GRAY", 3: "RGB"}
"""Channels of a feature → what simplejpeg decodes to."""
FOUR_INKS = ("CMYK", "YCCK")
"""What simplejpeg calls the spaces of four channels."""
REFUSALS = (ValueError, KeyError)
"""What simplejpeg raises: libjpeg's warning or error, and a key where the header is none that it knows."""
EIGHTH: dict[str, Any] = {"min_height": 1, "min_width": 1, "min_factor": 8}


def decoded(content: bytes, image: Image.Image) -> tuple[Image.Image, str]:
    """Return the picture of a file that Pillow has opened as `image`, and in a few words its damage, empty for none.

    The pixels are Pillow's in any case. Raises `OSError`, as Pillow does, for a file that cannot be decoded.
    """
    if content.startswith(START) and image.mode in SPACES:
        try:
            pixels = simplejpeg.decode_jpeg(content, SPACES[image.mode], strict=True)
        except REFUSALS as warning:
            image.load()
            return image, _in_words(warning)
        if pixels.shape[1::-1] == image.size:
            picture = Image.fromarrow(_shared(pixels), image.mode, image.size)
            picture.info = image.info  # how it is to be rotated
            return picture, ""
    image.load()
    return image, damage(content)


def _shared(pixels: NDArray[np.uint8]) -> pa.Array:
    """Return pixels, shape (height, width, bytes of one), in the form in which Pillow takes them without a copy."""
    values = pa.array(pixels.reshape(-1))
    return values if pixels.shape[2] == 1 else pa.FixedSizeListArray.from_arrays(values, pixels.shape[2])


def as_tensorflow(content: bytes, channels: int) -> NDArray[np.uint8] | None:
    """Return a JPEG's pixels as TensorFlow decodes them, by libjpeg's fast transform; Pillow's differ by up to 3.

    channels: 1 or 3, the last axis of (height, width, channels). None for other channels, for greys of CMYK, and for a
    file that is no JPEG.
    """
    space = TENSORFLOW.get(channels)
    if is_grey(content) is None or not space:
        return None
    if (inks := simplejpeg.decode_jpeg_header(content)[2] in FOUR_INKS) and channels == 1:
        return None
    pixels: NDArray[np.uint8] = simplejpeg.decode_jpeg(
        content, "CMYK" if inks else space, fastdct=True, fastupsample=False, strict=False
    )
    return _without_black(content, pixels) if inks else pixels


def _without_black(content: bytes, inks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return CMYK as TensorFlow makes RGB of it. With a marker of Adobe, 255 is no ink; without one, it is all."""
    with Image.open(io.BytesIO(content)) as image:
        light = inks.astype(np.uint16) if "adobe" in image.info else 255 - inks.astype(np.uint16)
    return (light[..., :3] * light[..., 3:] // 255).astype(np.uint8)


def formats(content: bytes) -> tuple[str, ...] | None:
    """Return in which of Pillow's formats to open a file, which asks several in turn; None for all of them."""
    return ("JPEG",) if content.startswith(START) else None


def is_grey(content: bytes) -> bool | None:
    """Return whether a JPEG has no colours; None for what is none, or has a header that says it in no known way."""
    if not content.startswith(START):
        return None
    try:
        return bool(simplejpeg.decode_jpeg_header(content)[2] == "Gray")
    except REFUSALS:
        return None


def damage(content: bytes) -> str:
    """Return in a few words what is wrong with a JPEG; empty if it seems intact or is not a JPEG."""
    if not content.startswith(START):
        return ""
    try:
        _, _, stored, _ = simplejpeg.decode_jpeg_header(content, strict=False)
        simplejpeg.decode_jpeg(content, "CMYK" if stored in FOUR_INKS else "GRAY", strict=True, **EIGHTH)
    except REFUSALS as warning:
        return _in_words(warning)
    return ""


def _in_words(warning: Exception) -> str:
    said = "its header is unknown" if isinstance(warning, KeyError) else str(warning)
    ours = next((words for part, words in WORDS.items() if part in said), None)
    return ours or f"its decoder says: {said.removeprefix('Corrupt JPEG data: ')}"
