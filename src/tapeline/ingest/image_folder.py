"""A folder `<split>/<class>/<image>` as a source: TFDS's `ImageFolder` layout, decoded by Pillow. No TensorFlow here.

Every image is turned as its EXIF tag says and becomes uint8 of the size asked for: RGB, transparency dropped, unless
all of them are grey, which gives one channel. Pillow resizes 8-bit images in integers: the same bytes everywhere.
An example's key is the image's path in the folder.
"""

import hashlib
import io
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from tapeline.dataset import Feature
from tapeline.errors import InputError
from tapeline.ingest.settings import ImageFolderSource
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, piece, split_name

GREY = {"1", "L", "LA"}
COLOUR = {"P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"}

Result = TypeVar("Result")


@dataclass(frozen=True)
class _File:
    """One image: its path in the folder (with `/`), its split and its class."""

    key: str
    split: str
    label: str


def read(settings: ImageFolderSource, folder: Path) -> Source:
    """Open an image folder. Raises `InputError` for another layout and for a file that is not an 8-bit image."""
    entries = _listed(folder)
    channels, digest = _surveyed(folder, entries)
    classes = tuple(sorted({entry.label for entry in entries}))
    types = {"image": Feature((*settings.size, channels), "uint8"), "label": Feature((), "int64", classes)}
    kept = chosen_features(types, settings.columns, of=f"image folder {folder.name}")
    features = {name: types[name] for name in kept}
    return Source(
        origin={"kind": "images", "name": folder.name, "sha256": digest},
        features=features,
        splits=tuple(split for split in SPLITS if any(entry.split == split for entry in entries)),
        examples=_examples(folder, entries, features, classes),
        total=len(entries),
    )


def _listed(folder: Path) -> Sequence[_File]:
    """Return the images of every split, ordered by split and path. Names that begin with a dot are passed over."""
    entries = []
    for split in _inside(folder, folder, folders=True):
        name = split_name(split.name, of=f"image folder {folder.name} (<split>/<class>/<image>)")
        labels = _inside(split, folder, folders=True)
        if not labels:
            raise InputError(f"{_shown(split, folder)} is an empty split folder: put its classes there or remove it")
        for label in labels:
            keys = [path.relative_to(folder).as_posix() for path in _inside(label, folder, folders=False)]
            if not keys:
                raise InputError(f"{_shown(label, folder)} is an empty class folder: put its images there or remove it")
            entries += [_File(key, name, label.name) for key in keys]
    return sorted(entries, key=lambda entry: (SPLITS.index(entry.split), entry.key))


def _inside(folder: Path, root: Path, *, folders: bool) -> list[Path]:
    if not folder.is_dir():
        raise InputError(f"{folder.name} is no folder: an image folder is <split>/<class>/<image>")
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in paths:
        if not path.name.isprintable():
            raise InputError(f"{path.name!a} in {folder.name} is no printable name in UTF-8: rename it")
        if path.is_dir() != folders:
            what = "a folder where images are" if path.is_dir() else "a file where folders are"
            raise InputError(f"{_shown(path, root)} is {what} expected: an image folder is <split>/<class>/<image>")
    return paths


def _shown(path: Path, folder: Path) -> str:
    return f"{folder.name}/{path.relative_to(folder).as_posix()}"


def _surveyed(folder: Path, entries: Sequence[_File]) -> tuple[int, str]:
    """Return the number of channels that suits all images, and one SHA-256 over their names and bytes."""
    digest = hashlib.sha256()
    grey = True
    for entry in entries:
        content = (folder / entry.key).read_bytes()
        mode = _decoded(folder, entry, content, lambda image: image.mode)
        if mode not in GREY | COLOUR:
            raise InputError(
                f"{_shown(folder / entry.key, folder)} has pixels of type {mode}: save it with 8 bits a channel"
            )
        grey = grey and mode in GREY
        digest.update(f"{entry.key}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return 1 if grey else 3, digest.hexdigest()


def _examples(
    folder: Path, entries: Sequence[_File], features: Mapping[str, Feature], classes: Sequence[str]
) -> Iterator[Examples]:
    size = piece(features)
    for split in SPLITS:
        chosen = [entry for entry in entries if entry.split == split]
        for start in range(0, len(chosen), size):
            some = chosen[start : start + size]
            columns = {}
            if "image" in features:
                columns["image"] = np.stack([_pixels(folder, entry, features["image"].shape) for entry in some])
            if "label" in features:
                columns["label"] = np.array([classes.index(entry.label) for entry in some], np.int64)
            yield Examples(split, [entry.key for entry in some], columns)


def _pixels(folder: Path, entry: _File, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return one image as uint8 of `shape` (height, width, channels), resized bilinearly where it has another size."""
    height, width, channels = shape

    def decode(image: Image.Image) -> NDArray[np.uint8]:
        upright = ImageOps.exif_transpose(image)
        if "transparency" in upright.info:
            upright = upright.convert("RGBA")
        plain = upright.convert("L" if channels == 1 else "RGB")
        if plain.size != (width, height):
            plain = plain.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(plain, np.uint8).reshape(shape)

    return _decoded(folder, entry, (folder / entry.key).read_bytes(), decode)


def _decoded(folder: Path, entry: _File, content: bytes, use: Callable[[Image.Image], Result]) -> Result:
    """Return what `use` makes of a file's image. Raises `InputError` naming a file that Pillow cannot decode."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # damaged metadata and large images: what matters is whether it decodes
            with Image.open(io.BytesIO(content)) as image:
                return use(image)
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError) as error:
        # The memory address of the buffer, which Pillow prints, says nothing.
        reason = str(error).split("<_io")[0].strip()
        raise InputError(
            f"{_shown(folder / entry.key, folder)} is not an image that can be decoded ({reason}): replace or remove it"
        ) from None
