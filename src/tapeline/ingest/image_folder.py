"""A folder `<split>/<class>/<image>` as a source: TFDS's `ImageFolder` layout, decoded by Pillow. No TensorFlow here.

Every image is rotated according to its EXIF tag and becomes uint8 of the configured size: RGB without transparency, or
one channel if all images are grey. Pillow resizes 8-bit images in integer arithmetic: the same bytes on every machine.
An example's key is the image's path in the folder.

Files are read and decoded in as many threads as there are cores, in which Pillow releases Python's lock.
"""

import hashlib
import io
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tapeline.config.ingest import ImageFolderSource
from tapeline.dataset.columns import Feature
from tapeline.ingest import jpeg
from tapeline.ingest.in_order import in_order
from tapeline.ingest.pixels import GREY, decoding, upright
from tapeline.ingest.remarks import named
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, piece, split_name
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

LARGE = 2**23
"""Pixels above which no more than two images are decoded at a time, however many threads there are."""
_FEW = threading.Semaphore(2)


@dataclass(frozen=True)
class _File:
    """One image: its path in the folder (with `/`), its split and its class."""

    key: str
    split: str
    label: str


def read(settings: ImageFolderSource, folder: Path) -> Source:
    """Open an image folder. Raises `InputError` for another layout and for a file that is not an 8-bit image.

    Call it, and take the examples, within `pixels.quiet`.
    """
    entries = _listed(folder)
    notes: list[str] = []
    unseen = settings.columns is not None and "image" not in settings.columns
    channels, hashes = _surveyed(folder, entries, notes, damage=unseen)
    digest = hashlib.sha256("".join(f"{key}\0{sha256}\n" for key, sha256 in hashes.items()).encode()).hexdigest()
    classes = tuple(sorted({entry.label for entry in entries}))
    types = {"image": Feature((*settings.size, channels), "uint8"), "label": Feature((), "int64", classes)}
    kept = chosen_features(types, settings.columns, of=f"image folder {folder.name}")
    features = {name: types[name] for name in kept}
    return Source(
        origin={"kind": "images", "name": folder.name, "sha256": digest},
        features=features,
        splits=tuple(split for split in SPLITS if any(entry.split == split for entry in entries)),
        examples=_examples(folder, entries, hashes, features, classes, notes),
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


def _surveyed(folder: Path, entries: Sequence[_File], notes: list[str], *, damage: bool) -> tuple[int, dict[str, str]]:
    """Return the number of channels that fits all images, and the SHA-256 of each image by key.

    damage: whether to look for damaged files already here, for a source whose images are not decoded later.
    """
    hashes: dict[str, str] = {}
    damaged = []
    grey = True

    def look(entry: _File) -> tuple[_File, bool, str, str]:
        content = _content(folder, entry)
        with decoding(io.BytesIO(content), _shown(folder / entry.key, folder)) as image:
            plain = image.mode in GREY
        return entry, plain, jpeg.damage(content) if damage else "", hashlib.sha256(content).hexdigest()

    Image.init()  # Pillow loads its formats, which no two threads should do
    with closing(in_order(entries, look, ahead=16)) as found:
        for entry, plain, why, sha256 in found:
            grey = grey and plain
            hashes[entry.key] = sha256
            damaged += [f"{entry.key}: {why}"] if why else []
    notes += _damaged(damaged)
    return 1 if grey else 3, hashes


def _damaged(files: Sequence[str]) -> Sequence[str]:
    if not files:
        return ()
    return (f"JPEG files that seem damaged, so that some of their pixels are made up: {named(files)}",)


def _examples(
    folder: Path,
    entries: Sequence[_File],
    hashes: Mapping[str, str],
    features: Mapping[str, Feature],
    classes: Sequence[str],
    notes: list[str],
) -> Iterator[Examples]:
    size, damaged = piece(features), list[str]()
    with closing(_pictures(folder, entries, hashes, features)) as pictures:
        for split in SPLITS:
            chosen = [entry for entry in entries if entry.split == split]
            for start in range(0, len(chosen), size):
                some = chosen[start : start + size]
                columns: dict[str, NDArray[Any]] = {}
                if "image" in features:
                    columns["image"] = np.empty((len(some), *features["image"].shape), np.uint8)
                    for place, (pixels, why) in enumerate(islice(pictures, len(some))):
                        columns["image"][place] = pixels
                        damaged += [f"{some[place].key}: {why}"] if why else []
                if "label" in features:
                    columns["label"] = np.array([classes.index(entry.label) for entry in some], np.int64)
                yield Examples(split, [entry.key for entry in some], columns)
    notes += _damaged(damaged)


def _pictures(
    folder: Path, entries: Sequence[_File], hashes: Mapping[str, str], features: Mapping[str, Feature]
) -> Generator[tuple[NDArray[np.uint8], str], None, None]:
    """Yield every image's pixels, and in a few words the damage of its file; nothing if images are not wanted."""
    if "image" not in features:
        return
    shape = features["image"].shape
    yield from in_order(entries, lambda entry: _pixels(folder, entry, hashes[entry.key], shape))


def _pixels(folder: Path, entry: _File, sha256: str, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], str]:
    """Return one image as uint8 of `shape` (height, width, channels), resized bilinearly if its size differs."""
    height, width, channels = shape
    shown, content = _shown(folder / entry.key, folder), _content(folder, entry)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise InputError(f"{shown} changed while the folder was read: ingest again when nothing writes there")
    file = jpeg.Watched(content)
    with decoding(file, shown) as image, _FEW if image.width * image.height > LARGE else nullcontext():
        file.watch(image)
        image.load()
        why = file.damage(image)
        plain = upright(image, channels)
        if plain.size != (width, height):
            plain = plain.resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(plain, np.uint8).reshape(shape), why


def _content(folder: Path, entry: _File) -> bytes:
    try:
        return files.read_bytes(folder / entry.key)
    except PermissionError:
        shown = _shown(folder / entry.key, folder)
        raise InputError(f"{shown} cannot be read by this user: allow it with `chmod u+r`") from None
    except FileNotFoundError:
        shown = _shown(folder / entry.key, folder)
        raise InputError(f"{shown} disappeared while the folder was read: ingest again") from None
