"""Damaged JPEG files that Pillow decodes all the same: what can be seen of the damage, and that whole ones are whole."""

import io

import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from sklearn.datasets import load_sample_image

from tapeline.ingest import jpeg

OPTIONS = [
    {}, {"optimize": True}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_blocks": 3}, {"restart_marker_rows": 1}
]  # fmt: skip


def photo(height, width, at=0):
    return Image.fromarray(load_sample_image("china.jpg")[at : at + height, at : at + width])


def encoded(image, **how):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **how)
    return buffer.getvalue()


@pytest.mark.parametrize("how", OPTIONS, ids=str)
@pytest.mark.parametrize("quality", [1, 30, 75, 100])
def test_whole_files_are_whole(how, quality):
    plain = [Image.new("RGB", (17, 33), colour) for colour in ((255, 255, 255), (13, 77, 200))]
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 33, 3), np.uint8))
    for image in (photo(64, 64), photo(101, 47, 30), photo(9, 200, 60), photo(1, 1), noise, *plain):
        for mode in ("RGB", "L", "CMYK"):
            assert jpeg.damage(encoded(image.convert(mode), quality=quality, **how)) == "", (image.size, mode)


@pytest.mark.parametrize("how", OPTIONS, ids=str)
@pytest.mark.parametrize("quality", [1, 30, 75, 95, 100])
def test_pixels_as_tensorflow_decodes_them(tf, how, quality):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 33, 3), np.uint8))
    for image in (photo(64, 64), photo(101, 47, 30), photo(9, 200, 60), photo(1, 1), noise):
        for mode in ("RGB", "L"):
            content = encoded(image.convert(mode), quality=quality, **how)
            for channels in (1, 3):
                wanted = tf.io.decode_image(content, channels=channels).numpy()
                assert np.array_equal(jpeg.as_tensorflow(content, channels), wanted), (image.size, mode, channels)
        content = encoded(image.convert("CMYK"), quality=quality, **how)
        at = content.index(b"\xff\xee\0\x0eAdobe")
        converted = content[: at + 15] + b"\x02" + content[at + 16 :]  # YCCK
        for inks in (content, converted, content[:at] + content[at + 16 :]):
            wanted = tf.io.decode_image(inks, channels=3).numpy()
            assert np.array_equal(jpeg.as_tensorflow(inks, 3), wanted), image.size


def test_what_tensorflow_does_not_decode_as_a_jpeg_of_grey_or_colours():
    assert jpeg.as_tensorflow(b"\x89PNG", 3) is None
    assert jpeg.as_tensorflow(encoded(photo(8, 8)), 4) is None
    assert jpeg.as_tensorflow(encoded(photo(8, 8).convert("CMYK")), 1) is None


def test_what_is_around_the_picture_does_not_matter():
    content = encoded(photo(64, 64), exif=b"Exif\0\0" + b"\xff\xd9" * 9, comment=b"\xff\xd8")
    assert jpeg.damage(content) == "" and jpeg.damage(content + b"more") == ""
    assert jpeg.damage(b"\x89PNG") == ""


def damaged(content, part, middle):
    """Return the file with other bytes at a part of its compressed data; the end marker stays."""
    start = content.rfind(b"\xff\xda") + 14
    at = int(start + part * (len(content) - 2 - start - len(middle)))
    return content[:at] + middle + content[at + len(middle) :]


@pytest.mark.parametrize("how", OPTIONS[:2], ids=str)
@pytest.mark.parametrize("zeros", [0.1, 0.5, 0.9])
def test_an_end_of_zeros_with_an_end_marker(how, zeros):
    """As of a download that never came, and whose last bytes did."""
    content = encoded(photo(300, 300), **how)
    middle = bytes(int(zeros * (len(content) - 700)))
    assert jpeg.damage(damaged(content, 1, middle)).startswith("its compressed data")


def test_markers_that_nobody_writes():
    content = encoded(photo(64, 64))
    assert jpeg.damage(damaged(content, 0.5, b"\xff\x01")) == jpeg.ENDED
    assert "Unsupported JPEG process" in jpeg.damage(damaged(content, 0.5, b"\xff\xc8"))
    rows = encoded(photo(64, 64), restart_marker_rows=1)
    assert "found marker 0xd5 instead of RST1" in jpeg.damage(rows.replace(b"\xff\xd1", b"\xff\xd5", 1))
    assert jpeg.damage(content[:-2]) == "it has no end marker"


def test_most_damage_in_the_middle_is_seen():
    """Not all: the decoder may come out at the very place where the data end."""
    content, random = encoded(photo(128, 128)), np.random.default_rng(0)
    plain = Image.open(io.BytesIO(content)).tobytes()
    seen = tried = 0
    for part in np.linspace(0.05, 0.9, 30):
        for middle in (bytes(50), random.integers(0, 255, 50, np.uint8).tobytes()):
            other = damaged(content, part, middle)
            assert Image.open(io.BytesIO(other)).tobytes() != plain, "damaged, and decoded"
            tried, seen = tried + 1, seen + bool(jpeg.damage(other))
    assert seen >= 0.7 * tried


def decoded(content):
    """Return the pixels, or why there are none, and the damage that the same decoding gives."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            picture, why = jpeg.decoded(content, image)
            return picture.convert(image.mode).tobytes(), why
    except OSError as error:
        return str(error), ""


def plain(content):
    try:
        return Image.open(io.BytesIO(content)).tobytes()
    except OSError as error:
        return str(error)


@pytest.mark.parametrize("how", OPTIONS, ids=str)
def test_one_decoding_gives_pillows_pixels_and_the_damage(how):
    grey = Image.new("RGB", (50, 40), (128, 128, 128))
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (70, 33, 3), np.uint8))
    for image in (photo(64, 64), photo(101, 47, 30), photo(1, 1), noise, grey):
        for mode in ("RGB", "L", "CMYK"):
            content = encoded(image.convert(mode), quality=85, **how)
            assert decoded(content) == (plain(content), "")


def ruined(content, random):
    """Yield the file with damage in the middle, with an end too early, and with one too late, by few bytes and by many."""
    for part in np.linspace(0.1, 1, 10):
        for length in (1, 40):
            yield damaged(content, part, random.integers(0, 255, length, np.uint8).tobytes())
    for count in (1, 2, 3, 6, 7, 8, 9, 30):
        yield content[: -2 - count] + content[-2:]
        yield content[:-2] + random.integers(0, 255, count, np.uint8).tobytes() + content[-2:]
        yield content[: -2 - count] + bytes(count) + content[-2:]


@pytest.mark.parametrize("how", OPTIONS, ids=str)
def test_a_damaged_file_has_the_pixels_that_pillow_makes_up(how):
    seen, random = 0, np.random.default_rng(0)
    for image in (photo(64, 64), photo(101, 77, 30), photo(120, 150, 60)):
        for mode in ("RGB", "L", "CMYK"):
            for other in ruined(encoded(image.convert(mode), quality=85, **how), random):
                pixels, found = decoded(other)
                assert pixels == plain(other)
                if not isinstance(pixels, str):
                    assert found == jpeg.damage(other), "an eighth of the size tells the same"
                    seen += found != ""
    assert seen > 200


@pytest.mark.parametrize("missing", [1, 2, 3, 8, 60])
def test_any_byte_that_is_missing_at_the_end_is_seen(missing):
    content = encoded(photo(64, 64))
    assert jpeg.damage(content[: -2 - missing] + content[-2:]) == jpeg.ENDED


@pytest.mark.parametrize("more", [9, 100])
def test_more_data_than_the_decoder_looks_ahead_are_seen(more):
    content = encoded(photo(64, 64))
    assert jpeg.damage(content[:-2] + bytes(more) + content[-2:]) == jpeg.CONTINUED


def test_an_intact_photo_is_decoded_only_once(monkeypatch):
    """Else the decoder has learned to tell more of what Pillow decodes without a word."""
    picture = photo(300, 401)
    monkeypatch.setattr(jpeg, "damage", None)
    monkeypatch.setattr(JpegImageFile, "load", None)
    for how in ({}, {"optimize": True}, {"subsampling": 0}, {"progressive": True}):
        for mode in ("RGB", "L"):
            content = encoded(picture.convert(mode), quality=90, **how)
            with Image.open(io.BytesIO(content)) as image:
                assert jpeg.decoded(content, image)[1] == ""


def test_a_picture_whose_data_end_a_block_early_is_not_taken_for_whole():
    content = encoded(photo(64, 64))
    whole = content.replace(b"\xff\xc0\x00\x11\x08\x00\x40\x00\x40", b"\xff\xc0\x00\x11\x08\x00\x41\x00\x40")
    assert whole != content, "its header says that there is one more row of blocks"
    assert decoded(whole)[1] == jpeg.damage(whole) == "its compressed data end before the picture does"
    low = content.replace(b"\xff\xc0\x00\x11\x08\x00\x40\x00\x40", b"\xff\xc0\x00\x11\x08\x00\x30\x00\x40")
    assert decoded(low)[1] == jpeg.damage(low) == "its compressed data continue after the picture has ended"


def test_colours_as_photoshop_stores_them():
    """As brightness, two colours and black: Pillow writes none, but the transform is a byte of the header."""
    plainly = encoded(photo(64, 64).convert("CMYK"), quality=90)
    place = plainly.index(b"Adobe") + 11
    content = plainly[:place] + b"\x02" + plainly[place + 1 :]
    assert plain(content) != plain(plainly), "they are taken for other colours"
    assert jpeg.damage(content) == "" and decoded(content) == (plain(content), "")
    assert jpeg.damage(content[:-12] + content[-2:]) == jpeg.ENDED


def test_a_phone_that_has_a_second_picture_behind_the_first():
    content = encoded(photo(64, 64)) + encoded(photo(32, 32))
    assert decoded(content) == (plain(content), "")
