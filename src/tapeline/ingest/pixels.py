"""Turn image files into pixels, by the same code for training data and for prediction."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, TiffImagePlugin

from tapeline.runtime import files
from tapeline.runtime.errors import InputError

GREY = {"1", "L", "LA"}
COLOUR = {"P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"}
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Channels → Pillow's mode."""
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF's orientation → what makes the image upright."""
WITH_PREVIEWS = ("MPO", "PSD")
"""Formats whose first frame is the whole picture: the others are previews of a photo, or the layers it is made of."""
PROGRAM = "EPS"
"""The one format for which Pillow runs another program, whatever that makes of anybody's file, or is there or not."""
REDUCED = 254
"""The TIFF tag whose lowest bit says that a page is another one, made smaller."""
JPEG2000_SIZE = b"\xff\x4f\xff\x51"
"""The markers before a JPEG 2000 image's size and depths."""
AVIF_DEPTH = re.compile(rb"\0\0\0.av1C\x81.(.)", re.DOTALL)
"""The box of an AVIF image, or of its alpha channel, that tells in a byte whether it has more than 8 bits."""


@contextmanager
def decoded(file: IO[bytes], shown: str) -> Iterator[ImageFile.ImageFile]:
    """Yield an opened image with 8 bits per channel and one frame. Raises `InputError`, naming `shown`, for others."""
    with quiet(), decoding(file, shown) as image:
        yield image


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore Pillow's warnings, of damaged metadata and of large images: only decoding matters. For one thread."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\b")
        yield


@contextmanager
def decoding(file: IO[bytes], shown: str, formats: tuple[str, ...] | None = None) -> Iterator[ImageFile.ImageFile]:
    """Do what `decoded` does in any thread, below a `quiet` of the main one: warnings are filtered for all threads.

    formats: those that Pillow tries, where it is known which it is.
    """
    try:
        with Image.open(file, formats=formats) as image:
            if image.format == PROGRAM:
                raise InputError(
                    f"{shown} is {PROGRAM}, a program that Ghostscript would have to execute: save it as PNG"
                )
            _refuse_deep(image, shown)
            _refuse_frames(image, shown)
            yield image
    except (InputError, MemoryError):
        raise
    except Exception as error:  # Pillow's format readers raise anything: ValueError, IndexError, KeyError
        if isinstance(error, OSError) and error.errno in files.DISK_ERRORS:
            raise
        if not file.closed and file.seek(0) == 0 and files.is_pointer(file.read(len(files.LFS_POINTER))):
            raise InputError(files.NO_CONTENT.format(shown)) from None
        # Drop the buffer's memory address, which Pillow prints.
        reason = " ".join(str(error).split("<_io")[0].split())
        raise InputError(f"{shown} is not an image that can be decoded ({reason}): replace or remove it") from None


def is_image(file: IO[bytes]) -> bool:
    """Return whether a content is of a format that Pillow decodes. The image may be one that `decoded` refuses."""
    try:
        with quiet(), Image.open(file) as image:
            return not isinstance(image, ImageFile.StubImageFile) and image.format != PROGRAM
    except MemoryError:
        raise
    except Exception as error:  # as in `decoding`
        if isinstance(error, OSError) and error.errno in files.DISK_ERRORS:
            raise
        return False


def upright(image: Image.Image, channels: int) -> Image.Image:
    """Return an image rotated according to its EXIF tag, with 1 (grey), 3 (RGB) or 4 (RGBA) channels of 8 bits.

    It may be `image` itself: a copy of its pixels would cost as much as decoding them. An image whose EXIF data cannot
    be read is taken as it is stored.
    """
    turn = TURNS.get(_orientation(image))
    turned = image if turn is None else image.transpose(turn)
    turned = turned.convert("RGBA") if "transparency" in turned.info else turned
    return turned if turned.mode == MODES[channels] else turned.convert(MODES[channels])


def is_turned(image: Image.Image) -> bool:
    """Return whether `upright` would turn an image according to its EXIF tag."""
    return _orientation(image) in TURNS


def refuse_misread(image: ImageFile.ImageFile, channels: int, shown: str) -> None:
    """Raise `InputError` for a file of which TensorFlow, and so TFDS, makes another picture than it holds.

    It takes the numbers of a BMP's palette for greys. Of a PNG of less than 8 bits, it takes the largest number for the
    alpha of what is opaque: 15 of 255. Call it before the pixels are decoded.
    """
    if image.format == "BMP" and image.mode == "P":
        raise InputError(f"{shown} is a BMP with a palette, whose numbers TensorFlow takes for greys: save it as PNG")
    few = image.format == "PNG" and any(how == "1" or ";" in str(how) for *_, how in image.tile)
    if few and channels == 4 and (image.mode != "P" or "transparency" not in image.info):
        raise InputError(
            f"{shown} has less than 8 bits a channel, of which TensorFlow makes a nearly transparent image: save it as "
            "RGBA"
        )


def refuse_other_pixels(image: ImageFile.ImageFile, channels: int, shown: str) -> None:
    """Raise `InputError` for a file, not a JPEG, of which TensorFlow, and so TFDS, makes other pixels than Pillow.

    That is what it misreads, the alpha of a BMP, which Pillow leaves out, and the greys of colours. Call it as
    `refuse_misread`.
    """
    refuse_misread(image, channels, shown)
    if image.format == "BMP" and channels == 4 and any("BGRX" in str(how) for *_, how in image.tile):
        raise InputError(f"{shown} is a BMP of 32 bits, and programs do not agree on its transparency: save it as PNG")
    if channels == 1 and image.mode not in GREY and image.format != "JPEG" and _has_colours(image):
        raise InputError(
            f"{shown} is in colours, and the model takes greys, into which programs turn colours differently: save it "
            "as a grey image"
        )


def _has_colours(image: Image.Image) -> bool:
    colours = np.asarray(image.convert("RGB"))
    return bool((colours != colours[..., :1]).any())


def resized(image: Image.Image, height: int, width: int) -> Image.Image:
    """Return an image of this size: itself, or resized bilinearly, in integer arithmetic."""
    size = (width, height)
    return image if image.size == size else image.resize(size, Image.Resampling.BILINEAR)


def _orientation(image: Image.Image) -> Any:
    image.load()  # some have their metadata behind the pixels; a TIFF turns itself
    of = Image.Image()  # a file's own reader hides the first error, and then has read a part
    of.info = image.info
    try:
        return of.getexif().get(ExifTags.Base.Orientation, 1)
    except MemoryError:
        raise
    except Exception:  # Pillow's reader raises anything: SyntaxError, struct.error, ValueError
        return 1


def array(image: Image.Image, channels: int) -> NDArray[np.uint8]:
    """Return the pixels of what `upright` has returned: uint8 (height, width, channels)."""
    return np.asarray(image, np.uint8).reshape(image.height, image.width, channels)


def _refuse_deep(image: ImageFile.ImageFile, shown: str) -> None:
    """Raise `InputError` for more than 8 bits per channel: Pillow silently drops the others of RGB."""
    if image.mode not in GREY | COLOUR:
        raise InputError(f"{shown} has pixels of type {image.mode}: save it {kind_for(image.mode)}")
    if any(";16" in str(how) or "16" in codec or _depth(image, codec, how) > 8 for codec, _, _, how in image.tile):
        raise InputError(f"{shown} has more than 8 bits a channel: save it with 8 bits a channel")


def kind_for(mode: str) -> str:
    """Return as what an image is usable whose mode is none of those that are taken."""
    return "with 8 bits a channel" if mode[0] in "IF" else "as RGB or grey"  # LAB and HSV have 8 bits


def _depth(image: ImageFile.ImageFile, codec: str, how: Any) -> int:
    """Return the bits a channel of formats that Pillow scales to 8 as it decodes them; 8 for others."""
    if codec.startswith("ppm") and not isinstance(how, str):  # text is for black and white
        largest: int = how[-1]
        return largest.bit_length()
    if image.format not in ("JPEG2000", "AVIF") or image.fp is None:
        return 8
    image.fp.seek(0)
    content = image.fp.read()
    if image.format == "AVIF":
        return 10 if any(flags[0] & 0x40 for flags in AVIF_DEPTH.findall(content)) else 8
    size = content.partition(JPEG2000_SIZE)[2]
    return 1 + max((bits & 0x7F for bits in size[38 : 38 + 3 * int.from_bytes(size[36:38]) : 3]), default=7)


def _refuse_frames(image: ImageFile.ImageFile, shown: str) -> None:
    """Raise `InputError` for an animation and for several pages: only the first would be taken."""
    count = 1 if image.format in WITH_PREVIEWS else getattr(image, "n_frames", 1)
    if count > 1 and isinstance(image, TiffImagePlugin.TiffImageFile):
        count = sum(not _is_preview(image, page) for page in range(count))
        image.seek(0)
    if count > 1:
        raise InputError(
            f"{shown} has {count} frames or pages, but an example is one image: save each one that you need as its own "
            "file"
        )


def _is_preview(image: TiffImagePlugin.TiffImageFile, page: int) -> bool:
    image.seek(page)
    return page > 0 and bool(image.tag_v2.get(REDUCED, 0) & 1)
