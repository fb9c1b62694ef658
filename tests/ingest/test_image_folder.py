import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import deep_png
from PIL import Image

from tapeline.config.ingest import ImageFolderSource
from tapeline.dataset.columns import Dataset
from tapeline.ingest import image_folder
from tapeline.ingest.split import held_out
from tapeline.runtime.errors import InputError

SETTINGS: dict[str, Any] = {"source": "images", "needs": "pictures", "size": [4, 6]}
Ingested = Callable[..., Path]
Refused = Callable[[dict[str, Any], str], None]


def image(height: int = 4, width: int = 6, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8))


def save(project: Path, name: str, picture: Image.Image | None = None, **options: Any) -> Path:
    path = project / "pictures" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (picture or image()).save(path, **options)
    return path


def test_a_folder_becomes_images_and_labels_in_the_order_of_the_paths(project: Path, ingested: Ingested) -> None:
    names = ["train/dog/b.png", "train/cat/z.png", "train/cat/A.png", "test/dog/x.bmp", "validation/cat/y.png"]
    pictures = {name: image(seed=seed) for seed, name in enumerate(names)}
    for name, picture in pictures.items():
        save(project, name, picture)
    (project / "pictures" / ".DS_Store").touch()
    (project / "pictures" / "train" / "cat" / ".hidden").touch()
    dataset = Dataset.open(ingested(SETTINGS))
    assert dataset.splits == ("test", "train", "val")
    assert dataset.features["image"].shape == (4, 6, 3)
    assert dataset.features["label"].classes == ("cat", "dog")
    expected = [np.asarray(pictures[name]) for name in ("train/cat/A.png", "train/cat/z.png", "train/dog/b.png")]
    assert np.array_equal(dataset.column("train", "image"), expected)
    assert dataset.column("train", "label").tolist() == [0, 0, 1]
    assert np.array_equal(dataset.column("test", "image")[0], np.asarray(pictures["test/dog/x.bmp"]))
    assert dataset.column("test", "label").tolist() == [1]
    assert np.array_equal(dataset.column("val", "image")[0], np.asarray(pictures["validation/cat/y.png"]))


def test_all_grey_images_have_one_channel_and_one_of_colour_makes_it_three(project: Path, ingested: Ingested) -> None:
    grey = image().convert("L")
    save(project, "train/a/1.png", grey)
    save(project, "train/a/2.png", grey.convert("1"))
    dataset = Dataset.open(ingested(SETTINGS))
    assert np.array_equal(dataset.column("train", "image")[0, :, :, 0], np.asarray(grey))
    assert set(np.unique(dataset.column("train", "image")[1])) <= {0, 255}
    save(project, "train/b/3.png")
    dataset = Dataset.open(ingested(SETTINGS))
    assert np.array_equal(dataset.column("train", "image")[0], np.asarray(grey.convert("RGB")))


@pytest.mark.parametrize("before", [0, image_folder.HEADER - 30, 3 * image_folder.HEADER])
@pytest.mark.parametrize(("colours", "channels"), [("L", 1), ("RGB", 3)])
def test_a_jpeg_s_channels_are_found_behind_any_preview(
    project: Path, ingested: Ingested, before: int, colours: str, channels: int
) -> None:
    path = save(project, "train/a/1.jpg", image().convert(colours), comment=b"x" * before)
    path.with_name("2.jpg").symlink_to(path)
    assert Dataset.open(ingested(SETTINGS)).column("train", "image").shape == (2, 4, 6, channels)


def test_images_are_turned_as_their_exif_says(project: Path, ingested: Ingested) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90° clockwise
    save(project, "train/a/1.png", image(6, 4), exif=exif)
    dataset = Dataset.open(ingested(SETTINGS))
    assert np.array_equal(dataset.column("train", "image")[0], np.rot90(np.asarray(image(6, 4)), -1))


@pytest.mark.parametrize("name", ["1.ppm", "1.sgi", "1.jp2", "1.webp", "1.tif", "1.gif"])
def test_each_format_of_one_image_is_taken(project: Path, ingested: Ingested, name: str) -> None:
    path = save(project, f"train/a/{name}")
    column = Dataset.open(ingested(SETTINGS)).column("train", "image")
    with Image.open(path) as opened:
        assert np.array_equal(column[0], np.asarray(opened.convert("RGB")))


@pytest.mark.parametrize("content", [b"P1\n6 4\n" + b"0 1 " * 12, b"P2\n6 4\n15\n" + b"3 7 " * 12, b"P4\n6 4\n0123"])
def test_pixmaps_of_few_bits_are_taken(project: Path, ingested: Ingested, content: bytes) -> None:
    path = save(project, "train/a/1.ppm")
    path.write_bytes(content)
    with Image.open(path) as opened:
        expected = np.asarray(opened.convert("L"))
    assert np.array_equal(Dataset.open(ingested(SETTINGS)).column("train", "image")[0, :, :, 0], expected)


def test_the_previews_in_a_photo_or_a_tiff_are_passed_over(project: Path, ingested: Ingested) -> None:
    save(project, "train/a/1.mpo", save_all=True, append_images=[image(seed=1)])
    reduced = image(2, 3, seed=1)
    reduced.encoderinfo = {"tiffinfo": {254: 1}}
    path = save(project, "train/a/2.tif", save_all=True, append_images=[reduced])
    with Image.open(path) as pages:
        pages.seek(1)
        assert pages.tag_v2[254] == 1
    column = Dataset.open(ingested(SETTINGS)).column("train", "image")
    assert np.array_equal(column[1], np.asarray(image()))


def test_transparency_is_dropped_and_a_palette_resolved(project: Path, ingested: Ingested) -> None:
    opaque = image()
    opaque.putalpha(7)
    save(project, "train/a/1.png", opaque)
    few = image().quantize(8)
    save(project, "train/a/2.png", few, transparency=0)
    columns = Dataset.open(ingested(SETTINGS)).column("train", "image")
    assert np.array_equal(columns[0], np.asarray(image()))
    assert np.array_equal(columns[1], np.asarray(few.convert("RGB")))


def test_other_sizes_are_resized_by_pillow(project: Path, ingested: Ingested) -> None:
    save(project, "train/a/1.png", image(9, 17))
    expected = image(9, 17).resize((6, 4), Image.Resampling.BILINEAR)
    column = Dataset.open(ingested(SETTINGS)).column("train", "image")
    assert np.array_equal(column[0], np.asarray(expected))


def test_an_image_stays_on_its_side_of_the_cut_whatever_is_added(project: Path, ingested: Ingested) -> None:
    names = [f"train/a/{number:03}.png" for number in range(60)]
    before: dict[bytes, str] = {}
    for count in (40, 60):
        for seed, name in enumerate(names[:count]):
            save(project, name, image(seed=seed))
        dataset = Dataset.open(ingested({**SETTINGS, "validation": 0.3}))
        sides = {row.tobytes(): split for split in dataset.splits for row in dataset.column(split, "image")}
        assert sides.items() >= before.items()
        assert dataset.examples("val") == held_out(names[:count], 0.3).sum()
        before = sides


def test_the_order_of_creation_changes_no_byte(
    project: Path, ingested: Ingested, hashes: Callable[[Path], dict[str, str]]
) -> None:
    names = [f"{split}/{label}/{number}.jpg" for split in ("train", "test") for label in "ba" for number in (10, 9, 1)]
    for name in names:
        save(project, name)
    first = hashes(ingested(SETTINGS))
    (project / "pictures").rename(project / "old")
    for name in reversed(names):
        save(project, name)
    assert hashes(ingested(SETTINGS, out="data/again")) == first


def test_one_column_can_be_kept(project: Path, ingested: Ingested) -> None:
    save(project, "train/a/1.png")
    folder = ingested({**SETTINGS, "columns": ["label"]})
    assert sorted(path.name for path in (folder / "train").iterdir()) == ["label.npy"]


def test_the_index_tells_a_changed_image(project: Path, ingested: Ingested) -> None:
    save(project, "train/a/1.png")
    first = json.loads((ingested(SETTINGS) / "dataset.json").read_bytes())["source"]
    save(project, "train/a/1.png", image(seed=1))
    second = json.loads((ingested(SETTINGS) / "dataset.json").read_bytes())["source"]
    assert first["name"] == second["name"] == "pictures"
    assert first["sha256"] != second["sha256"]


def truncated(project: Path) -> None:
    path = save(project, "train/a/1.png", image(50, 50))
    path.write_bytes(path.read_bytes()[:-200])


def text(project: Path) -> None:
    path = save(project, "train/a/1.png")
    path.write_text("hello\n\nworld")


def sixteen_bit(project: Path) -> None:
    save(project, "train/a/1.png", Image.fromarray(np.ones((4, 6), np.uint16)))


def program(project: Path) -> None:
    save(project, "train/a/1.eps").rename(project / "pictures/train/a/1.png")


def lab(project: Path) -> None:
    save(project, "train/a/1.tif", Image.new("LAB", (6, 4)))


def sixteen_bit_colour(project: Path) -> None:
    save(project, "train/a/1.png").write_bytes(deep_png(4, 6))


def sixteen_bit_pixmap(project: Path) -> None:
    save(project, "train/a/1.ppm").write_bytes(b"P6\n6 4\n65535\n" + bytes(6 * 4 * 3 * 2))


def ten_bit_plain_pixmap(project: Path) -> None:
    save(project, "train/a/1.ppm").write_bytes(b"P3\n6 4\n1023\n" + b"1000 " * (6 * 4 * 3))


def sixteen_bit_sgi(project: Path) -> None:
    path = save(project, "train/a/1.sgi")
    content = bytearray(path.read_bytes())
    content[3] = 2  # bytes a channel
    path.write_bytes(content + bytes(6 * 4 * 3))


def sixteen_bit_jpeg_2000(project: Path) -> None:
    path = save(project, "train/a/1.jp2")
    content = bytearray(path.read_bytes())
    depths = content.index(b"\xff\x4f\xff\x51") + 42
    content[depths : depths + 9 : 3] = b"\x0f\x0f\x0f"
    path.write_bytes(content)


TEN_BITS = (
    "AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUEAAADybWV0YQAAAAAAAAAoaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAA"
    "AGxpYmF2aWYAAAAADnBpdG0AAAAAAAEAAAAeaWxvYwAAAABEAAABAAEAAAABAAABGgAAAB8AAAAoaWluZgAAAAAAAQAAABppbmZl"
    "AgAAAAABAABhdjAxQ29sb3IAAAAAamlwcnAAAABLaXBjbwAAABRpc3BlAAAAAAAAAAgAAAAIAAAAEHBpeGkAAAAAAwoKCgAAAAxh"
    "djFDgSBAAAAAABNjb2xybmNseAABAA0ABoAAAAAXaXBtYQAAAAAAAAABAAEEAQKDBAAAACdtZGF0EgAKCDgIv2MBDQaQMhEWQAkk"
    "kkQARnQdVO5/Vil7sA=="
)
"""An AVIF image of 10 bits, which Pillow reads and cannot write."""


def ten_bit_avif(project: Path) -> None:
    save(project, "train/a/1.avif").write_bytes(base64.b64decode(TEN_BITS))


def frames(name: str) -> Callable[[Path], None]:
    def made(project: Path) -> None:
        save(project, f"train/a/{name}", save_all=True, append_images=[image(seed=1), image(seed=2)])

    return made


def dangling(project: Path) -> None:
    save(project, "train/a/1.png").with_name("2.png").symlink_to("nowhere.png")


def circular(project: Path) -> None:
    save(project, "train/a/1.png").with_name("2.png").symlink_to("2.png")


def fifo(project: Path) -> None:
    os.mkfifo(save(project, "train/a/1.png").with_name("2.png"))


def device(project: Path) -> None:
    save(project, "train/a/1.png").with_name("2.png").symlink_to("/dev/zero")


def file_for_split(project: Path) -> None:
    save(project, "train/a/1.png")
    (project / "pictures" / "README.md").touch()


def file_for_class(project: Path) -> None:
    save(project, "train/1.png")


def too_deep(project: Path) -> None:
    save(project, "train/a/b/1.png")


def empty_class(project: Path) -> None:
    save(project, "train/a/1.png")
    (project / "pictures" / "train" / "b").mkdir()


def empty_split(project: Path) -> None:
    save(project, "train/a/1.png")
    (project / "pictures" / "test").mkdir()


def other_split(project: Path) -> None:
    save(project, "training/a/1.png")


def no_train(project: Path) -> None:
    save(project, "test/a/1.png")


def two_lines(project: Path) -> None:
    save(project, "train/a\nb/1.png")


def empty(project: Path) -> None:
    (project / "pictures").mkdir()


def no_folder(project: Path) -> None:
    (project / "pictures").touch()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (truncated, "pictures/train/a/1.png is not an image that can be decoded ("),
        (text, "pictures/train/a/1.png is not an image that can be decoded (cannot identify image file): replace or"),
        (sixteen_bit, "pictures/train/a/1.png has pixels of type I;16: save it with 8 bits a channel"),
        (program, "pictures/train/a/1.png is EPS, a program that Ghostscript would have to execute: save it as PNG"),
        (lab, "pictures/train/a/1.tif has pixels of type LAB: save it as RGB or grey"),
        (sixteen_bit_colour, "pictures/train/a/1.png has more than 8 bits a channel: save it with 8 bits a channel"),
        (sixteen_bit_pixmap, "pictures/train/a/1.ppm has more than 8 bits a channel: save it with 8 bits a channel"),
        (ten_bit_plain_pixmap, "pictures/train/a/1.ppm has more than 8 bits a channel: save it with 8 bits a channel"),
        (sixteen_bit_sgi, "pictures/train/a/1.sgi has more than 8 bits a channel: save it with 8 bits a channel"),
        (ten_bit_avif, "pictures/train/a/1.avif has more than 8 bits a channel: save it with 8 bits a channel"),
        (sixteen_bit_jpeg_2000, "pictures/train/a/1.jp2 has more than 8 bits a channel: save it with 8 bits a channel"),
        *(
            (frames(name), f"pictures/train/a/{name} has 3 frames or pages, but an example is one image: save each")
            for name in ("1.gif", "1.png", "1.webp", "1.tif")
        ),
        (dangling, "pictures/train/a/2.png is a link to nowhere.png, which does not exist: fix or remove it"),
        (circular, "pictures/train/a/2.png is a link to 2.png, which does not exist: fix or remove it"),
        (fifo, "pictures/train/a/2.png is a FIFO, a socket or a device, not a file: remove it"),
        (device, "pictures/train/a/2.png is a FIFO, a socket or a device, not a file: remove it"),
        (
            file_for_split,
            "pictures/README.md is a file where folders are expected: an image folder is <split>/",
        ),
        (file_for_class, "pictures/train/1.png is a file where folders are expected"),
        (too_deep, "pictures/train/a/b is a folder where images are expected"),
        (empty_class, "pictures/train/b is an empty class folder: put its images there or remove it"),
        (empty_split, "pictures/test is an empty split folder: put its classes there or remove it"),
        (other_split, "has a split 'training': name splits train, val (or validation) and test"),
        (no_train, "dataset 'set' has no train split, on which a model is trained (it has test)"),
        (two_lines, r"'a\nb' in train is not a printable name in UTF-8: rename it"),
        (empty, "dataset 'set' has no train split, on which a model is trained (it has none)"),
        (no_folder, "pictures is not a folder: an image folder is <split>/<class>/<image>"),
    ],
)
def test_a_bad_folder_is_refused(project: Path, refused: Refused, make: Callable[[Path], None], message: str) -> None:
    make(project)
    refused(SETTINGS, message)


def test_an_image_that_changes_while_it_is_read_is_refused(project: Path) -> None:
    save(project, "train/a/1.png")
    settings = ImageFolderSource(source="images", needs="pictures", size=(4, 6))
    source = image_folder.read(settings, project / "pictures")
    save(project, "train/a/1.png", image(seed=1))
    with pytest.raises(InputError, match="pictures/train/a/1.png changed while the folder was read"):
        list(source.examples)


def test_a_jpeg_without_its_end_is_said(project: Path, ingested: Ingested, capfd: pytest.CaptureFixture[str]) -> None:
    save(project, "train/a/1.jpg")
    path = save(project, "train/a/2.jpg", image(400, 400))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + bytes(len(content) // 2))  # as a file that was never filled
    ingested(SETTINGS)
    assert (
        "set: note: JPEG files that seem damaged, so that some of their pixels are made up: "
        "1 (train/a/2.jpg: it has no end marker)"
    ) in (capfd.readouterr().out)
