"""A folder `<split>/<class>/<image>` as a source: TFDS's `ImageFolder` layout, decoded by Pillow. No TensorFlow here.

Every image is rotated according to its EXIF tag and becomes uint8 of the configured size: RGB without transparency, or
one channel if all images are grey. Pillow resizes 8-bit images in integer arithmetic: the same bytes on every machine.
An example's key is the image's path in the folder.

Files are read and decoded in as many threads as there are cores, in which Pillow releases Python's lock.
"""

import hashlib
import io
import os
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
from tapeline.ingest.pixels import GREY, array, decoding, resized, upright
from tapeline.ingest.remarks import named
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, piece, split_name
from tapeline.ingest.threads import threads
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.runtime.overlap import in_order

GROUP, LOOKED_AT = 8, 64
"""Images that a thread decodes, or looks at, in one go: fewer hand-overs between threads."""

HEADER = 2**14
"""Bytes in which a JPEG says how many channels it has, if it holds no large preview; other files are read whole."""

LARGE = 2**23
"""Pixels above which no more than two images are decoded at a time, however many threads there are."""
_FEW = threading.Semaphore(2)


_Stamp = tuple[int, int]
"""Bytes, and when it was written, in nanoseconds."""


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
    channels, stamps = _surveyed(folder, entries)
    classes = tuple(sorted({entry.label for entry in entries}))
    types = {"image": Feature((*settings.size, channels), "uint8"), "label": Feature((), "int64", classes)}
    kept = chosen_features(types, settings.columns, of=f"image folder {folder.name}")
    features = {name: types[name] for name in kept}
    origin = {"kind": "images", "name": folder.name}
    return Source(
        origin=origin,
        features=features,
        splits=tuple(split for split in SPLITS if any(entry.split == split for entry in entries)),
        examples=_examples(folder, entries, stamps, features, classes, notes, origin),
        total=len(entries),
        notes=notes,
    )


def _listed(folder: Path) -> Sequence[_File]:
    """Return the images of every split, ordered by split and path, ignoring names that start with a dot."""
    entries = []
    for split in _inside(folder, folder, folders=True):
        name = split_name(split, of=f"image folder {folder.name} (<split>/<class>/<image>)")
        labels = _inside(folder / split, folder, folders=True)
        if not labels:
            shown = _shown(folder / split, folder)
            raise InputError(f"{shown} is an empty split folder: put its classes there or remove it")
        for label in labels:
            images = _inside(folder / split / label, folder, folders=False)
            if not images:
                shown = _shown(folder / split / label, folder)
                raise InputError(f"{shown} is an empty class folder: put its images there or remove it")
            entries += [_File(f"{split}/{label}/{image}", name, label) for image in images]
    return sorted(entries, key=lambda entry: (SPLITS.index(entry.split), entry.key))


def _inside(folder: Path, root: Path, *, folders: bool) -> list[str]:
    """Return the names in a folder, which must all be of folders, or all of files."""
    if not folder.is_dir():
        raise InputError(f"{folder.name} is not a folder: an image folder is <split>/<class>/<image>")
    with os.scandir(folder) as found:
        entries = sorted((entry for entry in found if not entry.name.startswith(".")), key=lambda entry: entry.name)
    for entry in entries:
        if not entry.name.isprintable():
            raise InputError(f"{entry.name!a} in {folder.name} is not a printable name in UTF-8: rename it")
        path = folder / entry.name
        kind = path if entry.is_symlink() else entry  # an entry raises for links in a circle
        if kind.is_dir() == folders and (folders or kind.is_file()):
            continue
        if path.is_symlink() and not path.exists():
            raise InputError(
                f"{_shown(path, root)} is a link to {path.readlink()}, which does not exist: fix or remove it"
            )
        if not (path.is_dir() or path.is_file()):  # reading a FIFO would block forever
            raise InputError(f"{_shown(path, root)} is a FIFO, a socket or a device, not a file: remove it")
        what = "a folder where images are" if path.is_dir() else "a file where folders are"
        raise InputError(f"{_shown(path, root)} is {what} expected: an image folder is <split>/<class>/<image>")
    return [entry.name for entry in entries]


def _shown(path: Path, folder: Path) -> str:
    return f"{folder.name}/{path.relative_to(folder).as_posix()}"


def _surveyed(folder: Path, entries: Sequence[_File]) -> tuple[int, dict[str, _Stamp]]:
    """Return the number of channels that fits all images, and by key how each file stood when it was looked at."""

    def look(some: Sequence[_File]) -> list[tuple[_Stamp, bool]]:
        return [_looked(folder, entry) for entry in some]

    Image.init()  # Pillow loads its formats, which no two threads should do
    with closing(in_order(_groups(entries, LOOKED_AT), look, workers=threads(), ahead=threads())) as found:
        looks = [one for some in found for one in some]
    stamps = {entry.key: stamp for entry, (stamp, _) in zip(entries, looks, strict=True)}
    return 1 if all(grey for _, grey in looks) else 3, stamps


def _looked(folder: Path, entry: _File) -> tuple[_Stamp, bool]:
    """Return how a file stands now, and whether it has no colours."""
    for most in (HEADER, -1):
        content, stamp = _content(folder, entry, most)
        if (grey := jpeg.is_grey(content)) is not None:
            return stamp, grey
    with decoding(io.BytesIO(content), _shown(folder / entry.key, folder)) as image:
        return stamp, image.mode in GREY


def _groups(entries: Sequence[_File], size: int) -> Iterator[Sequence[_File]]:
    return (entries[start : start + size] for start in range(0, len(entries), size))


def _damaged(files: Sequence[str]) -> Sequence[str]:
    if not files:
        return ()
    return (f"JPEG files that seem damaged, so that some of their pixels are made up: {named(files)}",)


def _examples(
    folder: Path,
    entries: Sequence[_File],
    stamps: Mapping[str, _Stamp],
    features: Mapping[str, Feature],
    classes: Sequence[str],
    notes: list[str],
    origin: dict[str, str],
) -> Iterator[Examples]:
    """Yield all examples, then complete `origin` and `notes`."""
    size, damaged, whole = piece(features), list[str](), hashlib.sha256()
    numbers = {label: number for number, label in enumerate(classes)}
    with closing(_read(folder, entries, stamps, features)) as read:
        for split in SPLITS:
            chosen = [entry for entry in entries if entry.split == split]
            for start in range(0, len(chosen), size):
                some = chosen[start : start + size]
                columns: dict[str, NDArray[Any]] = {}
                if "image" in features:
                    columns["image"] = np.empty((len(some), *features["image"].shape), np.uint8)
                if "label" in features:
                    columns["label"] = np.array([numbers[entry.label] for entry in some], np.int64)
                for place, image in enumerate(islice(read, len(some))):
                    if image.pixels is not None:
                        columns["image"][place] = image.pixels
                    whole.update(f"{some[place].key}\0{image.sha256}\n".encode())
                    damaged += [f"{some[place].key}: {image.damage}"] if image.damage else []
                yield Examples(split, [entry.key for entry in some], columns)
    notes += _damaged(damaged)
    origin["sha256"] = whole.hexdigest()


@dataclass(frozen=True)
class _Image:
    """What was read of one file: pixels, uint8 (height, width, channels), if they are wanted."""

    pixels: NDArray[np.uint8] | None
    damage: str
    sha256: str


def _read(
    folder: Path, entries: Sequence[_File], stamps: Mapping[str, _Stamp], features: Mapping[str, Feature]
) -> Generator[_Image, None, None]:
    """Yield what is in each file, in order. Raises `InputError` for one that has changed since it was looked at."""
    shape = features["image"].shape if "image" in features else None

    def work(some: Sequence[_File]) -> list[_Image]:
        return [_image(folder, entry, stamps[entry.key], shape) for entry in some]

    with closing(in_order(_groups(entries, GROUP), work, workers=threads(), ahead=threads())) as done:
        for group in done:
            yield from group


def _image(folder: Path, entry: _File, stamp: _Stamp, shape: tuple[int, ...] | None) -> _Image:
    """Return one image, resized if its size differs from `shape`; without pixels if there is none."""
    content, now = _content(folder, entry)
    if now != stamp:
        shown = _shown(folder / entry.key, folder)
        raise InputError(f"{shown} changed while the folder was read: ingest again when nothing writes there")
    sha256 = hashlib.sha256(content).hexdigest()
    if shape is None:
        return _Image(None, jpeg.damage(content), sha256)
    height, width, channels = shape
    shown, formats = f"{folder.name}/{entry.key}", jpeg.formats(content)
    with (
        decoding(io.BytesIO(content), shown, formats) as image,
        _FEW if image.width * image.height > LARGE else nullcontext(),
    ):
        picture, why = jpeg.decoded(content, image)
        plain = resized(upright(picture, channels), height, width)
        return _Image(array(plain, channels), why, sha256)


def _content(folder: Path, entry: _File, most: int = -1) -> tuple[bytes, _Stamp]:
    """Return the first `most` bytes of a file, all of them if that is negative, and how it stood then."""
    try:
        with files.opened(f"{folder}/{entry.key}") as file:
            content, status = file.read(most), os.fstat(file.fileno())
    except PermissionError:
        shown = _shown(folder / entry.key, folder)
        raise InputError(f"{shown} cannot be read by this user: allow it with `chmod u+r`") from None
    except FileNotFoundError:
        shown = _shown(folder / entry.key, folder)
        raise InputError(f"{shown} disappeared while the folder was read: ingest again") from None
    return content, (status.st_size, status.st_mtime_ns)
