"""Images are decoded to the same pixels for training and for prediction, whatever their EXIF data are."""

import io

import numpy as np
import pytest
from PIL import Image

from tapeline.ingest import jpeg, pixels


def image():
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 24, 3), np.uint8))


def written(exif, kind):
    file = io.BytesIO()
    image().save(file, kind, exif=exif)
    return file.getvalue()


def exif(orientation, **others):
    made = Image.Exif()
    made[0x0112] = orientation
    return made.tobytes()


def entry(tag, kind, count, value):
    return tag.to_bytes(2, "little") + kind.to_bytes(2, "little") + count.to_bytes(4, "little") + value


def made_of(*entries):
    head = b"Exif\0\0II*\0\x08\0\0\0"
    return head + len(entries).to_bytes(2, "little") + b"".join(entries) + bytes(4)


SIXTH = entry(0x0112, 3, 1, b"\x06\0\0\0")


def both(content):
    """Return the pixels as `ingest` decodes them and as `predict` does."""
    found = []
    for decode in (jpeg.decoded, lambda _, opened: (opened, "")):
        with pixels.decoded(io.BytesIO(content), "shown") as opened:
            picture, damage = decode(content, opened)
            assert not damage
            found.append(pixels.array(pixels.upright(picture, 3), 3))
    return found


def plain(content):
    with pixels.quiet():
        return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    "data",
    [
        b"Exif\0\0garbage!!",
        b"Exif\0\0",
        b"Exif\0\0II",
        b"Exif\0\0II*\0",
        b"Exif\0\0II*\0\xff\xff\xff\xff",
        exif(6)[:12],
        made_of(entry(0x0112, 2, 2, b"6\0\0\0")),
        made_of(entry(0x0112, 3, 1, b"\x63\0\0\0")),
    ],
)
def test_exif_that_says_nothing_leaves_an_image_as_it_is_stored(kind, data):
    content = written(data, kind)
    for found in both(content):
        assert np.array_equal(found, plain(content))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_exif_that_says_how_to_turn_an_image_is_followed(kind, orientation):
    content = written(exif(orientation), kind)
    turned = plain(content)
    if orientation in (5, 6, 7, 8):
        turned = turned.transpose(1, 0, 2)
    if orientation in (3, 4, 7, 8):
        turned = turned[::-1]
    if orientation in (2, 3, 6, 7):
        turned = turned[:, ::-1]
    for found in both(content):
        assert np.array_equal(found, turned)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_tiff_is_turned_once(orientation):
    content = written(exif(orientation), "TIFF")  # Pillow itself turns it as it decodes it
    for found in both(content):
        assert np.array_equal(found, plain(content))


@pytest.mark.parametrize(
    "data",
    [
        exif(6)[:-3],
        made_of(SIXTH, entry(0x010E, 2, 255, b"\xff\xff\0\0")),
        made_of(SIXTH, entry(0x011A, 5, 1, b"\xff\xff\0\0")),
        made_of(SIXTH, entry(0x8769, 4, 1, b"\xff\xff\xff\xff")),
    ],
)
def test_damage_elsewhere_in_exif_does_not_matter(data):
    content = written(data, "JPEG")
    for found in both(content):
        assert np.array_equal(found, np.rot90(plain(content), -1))
