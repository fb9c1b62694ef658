"""Detect damaged JPEGs: libjpeg makes up the pixels of damaged parts, and Pillow does not report it.

Compressed data have no checksum. What can be checked is the structure, and whether the data are exactly as long as the
image needs: bytes appended to them must change nothing, and their own last bytes must change something. Damage after
which the decoder ends at the same position is not detected.

    file = jpeg.Watched(content)
    with Image.open(file) as image:
        file.watch(image)
        image.load()
        why = file.damage(image)             # decodes an intact photo once more, not up to eight times
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageFile

START, END, SCAN, STUFFED = b"\xff\xd8", 0xD9, 0xDA, 0x00
RESTARTS = range(0xD0, 0xD8)
RESTARTING = b"\xff\xdd"
"""The segment that says that there are restart markers, which damage may have hidden."""
KNOWN = {*range(0xC0, 0xFF)} - {0xC8, *RESTARTS}
"""Markers allowed between scans: frames, tables, comments, application data."""
FRAMES = {0xC0, 0xC1}
"""Frame markers of images that a single scan can hold completely."""
FILLERS = (b"\x00" * 512, b"\x55\xaa" * 256, b"\xfe\x7f" * 256)
"""Replacement for bytes that must not matter."""
TAIL = 8
"""Bytes to replace at the end of the data, which hold the image's last blocks."""
ENDED = "its compressed data end before the picture does"
BLACK = (0, (0, 0, 0))
CODEC = "tapeline_watched_jpeg"
FILLED = range(125, 132)
"""The brightness of blocks for which there are no data: 128, but for the colour that neighbours lend them."""


class Watched(io.BytesIO):
    """A file's bytes, which a plain JPEG's decoder gets in two parts: all compressed data but the last byte, the rest.

    So this decoding shows most of what `damage` looks for. If the last pixels are missing after the first part, data
    do not continue after the picture, or by less than the eight bytes that libjpeg looks ahead. And blocks that have no
    data are grey, so if the last one is not, the data do not end before it. Then one more decoding tells whether they
    end within it: libjpeg reads zeros there, so other bits must not change the pixels.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._content, self._part = content, 0
        self._waited = self._black = False
        """Whether the picture was certainly not finished after the first part; whether its last pixel was black then,
        as all are before they are decoded."""

    def watch(self, image: ImageFile.ImageFile) -> None:
        """Have the image, opened from this file and not loaded yet, decoded in this way if it is a plain JPEG."""
        if image.format != "JPEG" or image.mode not in ("RGB", "L") or len(image.tile) != 1:
            return
        try:
            found = _structure(self._content)
        except ValueError:
            return
        one_stretch = found.scans == 1 and len(found.ends) == 1 and RESTARTING not in self._content[: found.last]
        if found.frame is not None and one_stretch:
            self._part = found.ends[-1] - 1
            _, extents, offset, arguments = image.tile[0]
            image.tile = [(CODEC, extents, offset, (self, *arguments))]  # type: ignore[list-item,misc]

    def read(self, size: int | None = -1) -> bytes:
        """Return at most `size` bytes, and none of the second part together with some of the first."""
        left = self._part - self.tell()
        whole = size is None or size < 0
        return super().read(left if left > 0 and (whole or size > left) else size)  # type: ignore[operator]

    def took(self, unread: int, last: Any) -> None:
        """Note how many bytes the decoder left of what it was given, and what the last pixel is by now."""
        if self.tell() == self._part:
            self._waited = unread > 1  # one may be half of a marker that it looks for after the picture
            self._black = last in BLACK

    def damage(self, image: Image.Image) -> str:
        """Return what the function `damage` does, of an image that was loaded and not changed since."""
        corner = image.getpixel((image.width - 1, image.height - 1))
        waited = self._waited or (self._black and corner not in BLACK)
        end = self._part + 1
        if waited and b"\xff" not in self._content[end - TAIL - 1 : end] and _last_block_has_data(image):
            other = self._content[:end] + FILLERS[1] + self._content[end:]
            return ENDED if _pixels(other) != image.tobytes() else ""
        return damage(self._content)


class _Decoder:
    """Pillow's JPEG decoder, watched."""

    pulls_fd = False

    def __init__(self, mode: str, file: Watched, *arguments: Any) -> None:
        self._file, self._pixels = file, None
        self._decoder: Any = Image._getdecoder(mode, "jpeg", arguments)
        self.cleanup = self._decoder.cleanup

    def setimage(self, pixels: Any, extents: Any) -> None:
        """Take where the pixels go: Pillow's core image, black."""
        self._pixels = pixels
        self._decoder.setimage(pixels, extents)

    def decode(self, given: bytes) -> tuple[int, int]:
        """Return how many bytes were taken, negative at the end, and an error's number or 0."""
        consumed, error = self._decoder.decode(given)
        if consumed >= 0 and self._pixels is not None:
            width, height = self._pixels.size
            self._file.took(len(given) - consumed, self._pixels.getpixel((width - 1, height - 1)))
        return consumed, error


Image.register_decoder(CODEC, _Decoder)  # type: ignore[arg-type]


def _last_block_has_data(image: Image.Image) -> bool:
    """Return whether the picture's last 8×8 pixels, as far as they are in one block, are not what is made up.

    Nor of one brightness: where all are clipped to black or white, their bits may change nothing.
    """
    width, height = image.size
    darkest, brightest = (
        image.crop(((width - 1) // 8 * 8, (height - 1) // 8 * 8, width, height)).convert("L").getextrema()
    )
    return darkest != brightest and (darkest not in FILLED or brightest not in FILLED)


@dataclass
class _Structure:
    """The positions of the relevant parts of a JPEG."""

    ends: list[int]
    """The ends of all stretches of compressed data, each between two markers."""
    frame: int | None = None
    """The header with the image's size, if a single scan can hold the image."""
    scans: int = 0
    last: int = 0
    """The start of the last stretch."""


def damage(content: bytes) -> str:
    """Return in a few words what is wrong with a JPEG that decodes; empty if it seems intact or is not a JPEG.

    Takes the time of up to eight decodings.
    """
    if not content.startswith(START):
        return ""
    try:
        found = _structure(content)
    except ValueError as error:
        return str(error)
    if _differ(_filled(content, found.ends, filler) for filler in FILLERS[:2]):
        return ENDED
    if found.frame is not None and found.scans == 1 and not _is_plain(content):
        whole, last = _with_whole_blocks(content, found.frame), found.ends[-1]
        cut = max(last - TAIL, found.last)
        early = found.last + (cut - found.last) // 4
        if not _differ(whole[:cut] + filler + whole[last:] for filler in FILLERS) and _differ(
            whole[:early] + filler + whole[early + TAIL :] for filler in FILLERS
        ):  # otherwise a uniform area, whose tables have no code but the one for "as before"
            return "its compressed data continue after the picture has ended"
    return ""


def _structure(content: bytes) -> _Structure:
    """Return the positions of the parts. Raises `ValueError`, in a few words, for an invalid structure."""
    place, found = 2, _Structure([])
    while True:
        while content[place : place + 2] == b"\xff\xff":  # any number of fill bytes may precede a marker
            place += 1
        if place + 2 > len(content):
            raise ValueError("it has no end marker")
        kind = content[place + 1]
        if kind == END and found.scans:
            return found
        if content[place] != 0xFF or kind not in KNOWN - {END}:
            raise ValueError(f"there is no known marker at byte {place}")
        if kind in FRAMES:
            found.frame = place
        place += 2 + int.from_bytes(content[place + 2 : place + 4], "big")
        if kind == SCAN:
            found.scans += 1
            found.ends += _ends(content, place)
            found.last = place if len(found.ends) == 1 or found.ends[-2] < place else found.ends[-2] + 2
            place = found.ends[-1]


def _ends(content: bytes, place: int) -> Iterator[int]:
    """Yield the ends of compressed data: at each restart marker, and at the first other marker."""
    restarts = 0
    while (place := content.find(b"\xff", place)) >= 0:
        kind = content[place + 1] if place + 1 < len(content) else END
        if kind in RESTARTS:
            if kind - RESTARTS.start != restarts % len(RESTARTS):
                raise ValueError(f"a restart marker is out of order at byte {place}")
            restarts += 1
            yield place
        elif kind not in (STUFFED, 0xFF):
            yield place
            return
        place += 1 if kind == 0xFF else 2
    raise ValueError("it has no end marker")


def _filled(content: bytes, ends: list[int], filler: bytes) -> bytes:
    """Return the JPEG with `filler` inserted after each stretch of compressed data."""
    starts = [0, *ends]
    return filler.join(content[start:end] for start, end in zip(starts, [*ends, len(content)], strict=True))


def _with_whole_blocks(content: bytes, frame: int) -> bytes:
    """Return the JPEG with its size rounded up to whole blocks, so that blocks beyond the edge are decoded too."""
    components = content[frame + 9]
    factors = content[frame + 11 : frame + 10 + 3 * components : 3]
    sizes = []
    for at, most in ((5, max(f & 15 for f in factors)), (7, max(f >> 4 for f in factors))):
        block = 8 * (most if components > 1 else 1)
        size = int.from_bytes(content[frame + at : frame + at + 2], "big")
        sizes.append(min(-(-size // block) * block, 65535))
    height, width = (size.to_bytes(2, "big") for size in sizes)
    return content[: frame + 5] + height + width + content[frame + 9 :]


def _differ(contents: Iterator[bytes]) -> bool:
    return len({_pixels(content) for content in contents}) > 1


def _is_plain(content: bytes) -> bool:
    """Return whether all pixels are equal: any bits that follow may then mean "as before"."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return all(len(set(band.getextrema())) == 1 for band in image.split())
    except (OSError, ValueError, SyntaxError):
        return False


def _pixels(content: bytes) -> bytes:
    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.tobytes()
    except (OSError, ValueError, SyntaxError):
        return b""
