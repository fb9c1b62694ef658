"""A folder `<split>/<class>/<image>` as a source: TFDS's `ImageFolder` layout, decoded by Pillow. No TensorFlow here.

Every image is rotated according to its EXIF tag and becomes uint8 of the configured size: RGB without transparency, or
one channel if all images are grey. Pillow resizes 8-bit images in integer arithmetic: the same bytes on every machine.
An example's key is the image's path in the folder.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tapeline.config.ingest import ImageFolderSource
from tapeline.dataset.columns import Feature
from tapeline.ingest import jpeg
from tapeline.ingest.pixels import GREY, decoded, upright
from tapeline.ingest.remarks import named
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, piece, split_name
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class _File:
    """One image: its path in the folder (with `/`), its split and its class."""

    key: str
    split: str
    label: str


def read(settings: ImageFolderSource, folder: Path) -> Source:
    """Open an image folder. Raises `InputError` for another layout and for a file that is not an 8-bit image."""
    entries = _listed(folder)
    notes: list[str] = []
    channels, hashes = _surveyed(folder, entries, notes)
    digest = hashlib.sha256("".join(f"{key}\0{sha256}\n" for key, sha256 in hashes.items()).encode()).hexdigest()
    classes = tuple(sorted({entry.label for entry in entries}))
    types = {"image": Feature((*settings.size, channels), "uint8"), "label": Feature((), "int64", classes)}
    kept = chosen_features(types, settings.columns, of=f"image folder {folder.name}")
    features = {name: types[name] for name in kept}
    return Source(
        origin={"kind": "images", "name": folder.name, "sha256": digest},
        features=features,
        splits=tuple(split for split in SPLITS if any(entry.split == split for entry in entries)),
        examples=_examples(folder, entries, hashes, features, classes),
        total=len(entries),
        notes=notes,
    )


def _listed(folder: Path) -> Sequence[_File]:
    """Return the images of every split, ordered by split and path, ignoring names that start with a dot."""
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
        raise InputError(f"{folder.name} is not a folder: an image folder is <split>/<class>/<image>")
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in paths:
        if not path.name.isprintable():
            raise InputError(f"{path.name!a} in {folder.name} is not a printable name in UTF-8: rename it")
        if path.is_symlink() and not path.exists():
            raise InputError(f"{_shown(path, root)} is a link to {path.readlink()}, where nothing is: fix or remove it")
        if not (path.is_dir() or path.is_file()):  # reading a FIFO would block forever
            raise InputError(f"{_shown(path, root)} is a FIFO, a socket or a device, and no file: remove it")
        if path.is_dir() != folders:
            what = "a folder where images are" if path.is_dir() else "a file where folders are"
            raise InputError(f"{_shown(path, root)} is {what} expected: an image folder is <split>/<class>/<image>")
    return paths


def _shown(path: Path, folder: Path) -> str:
    return f"{folder.name}/{path.relative_to(folder).as_posix()}"


def _surveyed(folder: Path, entries: Sequence[_File], notes: list[str]) -> tuple[int, dict[str, str]]:
    """Return the number of channels that fits all images, and the SHA-256 of each image by key."""
    hashes: dict[str, str] = {}
    damaged = []
    grey = True
    for entry in entries:
        content = _content(folder, entry)
        with decoded(io.BytesIO(content), _shown(folder / entry.key, folder)) as image:
            grey = grey and image.mode in GREY
        if why := jpeg.damage(content):
            damaged.append(f"{entry.key}: {why}")
        hashes[entry.key] = hashlib.sha256(content).hexdigest()
    if damaged:
        notes.append(f"JPEG files that seem damaged, so that some of their pixels are made up: {named(damaged)}")
    return 1 if grey else 3, hashes


def _examples(
    folder: Path,
    entries: Sequence[_File],
    hashes: Mapping[str, str],
    features: Mapping[str, Feature],
    classes: Sequence[str],
) -> Iterator[Examples]:
    size = piece(features)
    for split in SPLITS:
        chosen = [entry for entry in entries if entry.split == split]
        for start in range(0, len(chosen), size):
            some = chosen[start : start + size]
            columns = {}
            if "image" in features:
                shape = features["image"].shape
                columns["image"] = np.stack([_pixels(folder, entry, hashes[entry.key], shape) for entry in some])
            if "label" in features:
                columns["label"] = np.array([classes.index(entry.label) for entry in some], np.int64)
            yield Examples(split, [entry.key for entry in some], columns)


def _pixels(folder: Path, entry: _File, sha256: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return one image as uint8 of `shape` (height, width, channels), resized bilinearly if its size differs."""
    height, width, channels = shape
    shown, content = _shown(folder / entry.key, folder), _content(folder, entry)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{shown} changed while the folder was read: ingest again when nothing writes there")
    with decoded(io.BytesIO(content), shown) as image:
        plain = upright(image, channels)
        if plain.size != (width, height):
            plain = plain.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(plain, np.uint8).reshape(shape)


def _content(folder: Path, entry: _File) -> bytes:
    try:
        return files.read_bytes(folder / entry.key)
    except PermissionError:
        shown = _shown(folder / entry.key, folder)
        raise InputError(f"{shown} cannot be read by this user: allow it with `chmod u+r`") from None
    except FileNotFoundError:
        shown = _shown(folder / entry.key, folder)
        raise InputError(f"{shown} disappeared while the folder was read: ingest again") from None
