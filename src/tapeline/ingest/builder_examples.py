"""What a builder's examples hold, compared with what TFDS will store of them: it casts silently.

What would be refused of the stored examples is refused here, too, where an example still has its key: TFDS shuffles
them by a hash of it.
"""

import functools
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from tapeline.ingest import checks, pixels, remarks, tfds_reader
from tapeline.ingest.cells import is_measured, whole_number
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

LACKING = object()
"""No number, label or image: each check leaves it to TFDS. NumPy would make a NaN of None."""
INTEGER = "declare an integer type, or give smaller units"


@dataclass
class Doubt:
    """Whether a feature's floats are measurements, and what to say of the first whole one that its dtype rounds."""

    measured: bool = False
    rounded: str = ""


@contextmanager
def each_checked(builder: Any, columns: tuple[str, ...] | None) -> Iterator[None]:
    """Have the builder raise `InputError` for an example that is unusable, or of which TFDS would store something else.

    That is a label that is no class, a float that is not finite, an integer that its feature does not hold, and for an
    image of 8 bits, also one of a sequence or a video, a file of another size, of more than 8 bits a channel or of
    several frames. Prepare the builder in the block. At its end, raises `InputError` for a whole float that is rounded
    in a feature that holds no measurements.
    """
    features = tfds_reader.chosen(builder, columns)
    doubts = {name: Doubt() for name, feature in features.items() if _stored(feature).kind == "f"}
    generate = builder._split_generators

    @functools.wraps(generate)  # TFDS looks at its parameters
    def generate_checked(*given: Any, **named: Any) -> Any:
        found = generate(*given, **named)
        if not isinstance(found, Mapping):  # TFDS's older form
            found = {str(one.name): builder._generate_examples(**one.gen_kwargs) for one in found}
        return {
            split: _checked(split, examples, features, doubts) if isinstance(examples, Iterable) else examples
            for split, examples in found.items()
        }

    builder._split_generators = generate_checked
    yield
    for doubt in doubts.values():
        if doubt.rounded and not doubt.measured:
            raise InputError(doubt.rounded)


def _checked(
    split: str, examples: Iterable[Any], features: Mapping[str, Any], doubts: Mapping[str, Doubt]
) -> Iterator[Any]:
    integers = {name: dtype for name, feature in features.items() if (dtype := _integer(feature)) is not None}
    floats = {name: _stored(features[name]) for name in doubts}
    labels = {name: feature for name, feature in features.items() if _is_label(feature)}
    images = {name: feature for name, feature in features.items() if _is_image(_innermost(feature))}
    for key, example in examples:
        of = f"{split} example {key!r}"
        for name, dtype in integers.items():
            _check_integers(_inner(example, name), dtype, f"{of}: feature {name!r}")
        for name, dtype in floats.items():
            _check_floats(_inner(example, name), dtype, name, of, doubts[name])
        for name, feature in labels.items():
            _check_label(_inner(example, name), feature, name, of)
        for name, feature in images.items():
            _check_images(_inner(example, name), feature, f"{of}: feature {name!r}")
        yield key, example


def _stored(feature: Any) -> Any:
    """Return the dtype of a column."""
    return np.dtype(feature.get_tensor_info().np_dtype)


def _innermost(feature: Any) -> Any:
    """Return the feature of which a sequence or a video consists; a feature of another kind as it is."""
    while isinstance(feature, tfds.features.Sequence):
        feature = feature.feature
    return feature


def _integer(feature: Any) -> Any:
    """Return the dtype of integers or booleans, in sequences too, also of labels; None for another kind of feature."""
    inner = _innermost(feature)
    labels = inner is not feature and isinstance(inner, tfds.features.ClassLabel)
    if not labels and type(inner) not in (tfds.features.Tensor, tfds.features.Scalar, tfds.features.Audio):
        return None
    dtype = np.dtype(inner.np_dtype)
    return dtype if dtype.kind in "biu" else None


def _inner(example: Any, name: str) -> Any:
    """Return the value of a feature; `LACKING` if the example lacks it, which TFDS says better."""
    try:
        return tfds_reader.inner(example, name)
    except (KeyError, TypeError, IndexError):
        return LACKING


def _check_integers(value: Any, dtype: Any, where: str) -> None:
    """Raise `InputError` for a number that this dtype does not hold. What is no number is left to TFDS."""
    try:
        plain = np.asarray(value)
    except ValueError:  # lists of different lengths
        return
    if plain.dtype == dtype or plain.dtype.kind not in "iuf" or not plain.size:
        return
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if plain.dtype.kind != "f" and least <= int(plain.min()) and int(plain.max()) <= most:
        return
    for one in np.asarray(value, object).flat:  # as they are: NumPy makes floats of signed and unsigned integers
        if not (least <= one <= most and int(one) == one):
            raise InputError(f"{where} has {one}, which {dtype} cannot hold: declare a type that can, or fix the value")


def _check_floats(value: Any, dtype: Any, name: str, of: str, doubt: Doubt) -> None:
    """Raise `InputError` for a number that is not usable as this dtype, or an integer that it rounds.

    What is no number is left to TFDS. `doubt` is told of floats.
    """
    try:
        plain = np.asarray(value)
        with np.errstate(over="ignore"):
            stored = plain.astype(dtype)
    except (TypeError, ValueError):
        return
    if (wrong := checks.unusable(stored)).any():
        raise checks.bad_value(name, plain[wrong][0], of, checks.float_rule(dtype))
    given = plain.astype(np.float64) if plain.dtype.kind in "SU" else plain
    if given.dtype.kind == "f":
        doubt.measured = doubt.measured or is_measured(given.reshape(-1))
    floats = plain.dtype.kind == "f"
    if plain.dtype == dtype or (floats and (doubt.measured or doubt.rounded)):
        return
    large = (plain != stored) if floats else np.abs(stored) > 1 / np.finfo(dtype).eps
    for number, there in zip(plain[large].tolist(), stored[large].tolist(), strict=True):
        text = number.decode() if isinstance(number, bytes) else number
        whole = whole_number(text)
        if whole is not None and whole != int(there):
            raise InputError(f"{_rounded(name, text, there, dtype, of)}: {INTEGER}")
        if not doubt.measured and not doubt.rounded and whole is None and float(text) != there:
            doubt.rounded = f"{_rounded(name, text, there, dtype, of)}, and no value has a fraction: {INTEGER}"


def _rounded(name: str, given: object, stored: float, dtype: Any, of: str) -> str:
    return f"{of}: feature {name!r} has {given}, which would become {int(stored)} as {dtype}"


def _is_label(feature: Any) -> bool:
    return isinstance(feature, tfds.features.ClassLabel) and bool(feature.num_classes)


def _check_label(value: Any, feature: Any, name: str, of: str) -> None:
    """Raise `InputError` for what is none of the classes: TFDS takes -1, and cuts off a fraction."""
    if isinstance(value, str | bytes):
        word = value if isinstance(value, str) else value.decode("utf-8", "replace")
        try:
            feature.str2int(word)
        except (KeyError, ValueError):
            classes = remarks.named(feature.names)
            raise checks.bad_value(name, repr(word), of, f"a label must be one of the classes, {classes}") from None
        return
    number = np.asarray(value)
    if number.ndim or number.dtype.kind not in "biuf":  # which TFDS says
        return
    if not 0 <= number < feature.num_classes or number != np.trunc(number):
        raise checks.bad_value(name, value, of, checks.class_rule(feature.num_classes))


def _is_image(feature: Any) -> bool:
    kinds = (tfds.features.Image, tfds.features.LabeledImage)
    return type(feature) in kinds and feature.np_dtype == np.uint8 and len(feature.shape) == 3


def _check_images(value: Any, feature: Any, where: str) -> None:
    """Do what `_check_image` does for an image, or each one of a sequence. The file of a video is left to TFDS."""
    if not isinstance(feature, tfds.features.Sequence):
        _check_image(value, feature, where)
    elif isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype.kind in "OSU"):
        for number, one in enumerate(value):
            _check_images(one, feature.feature, f"{where}, image {number}")


def _check_image(value: Any, feature: Any, where: str) -> None:
    """Raise `InputError` for an image of another size, of more than 8 bits a channel, or of several frames.

    And for one whose numbers TFDS would replace by greys, such as a mask with a palette.
    """
    if isinstance(value, Image.Image):
        if value.mode not in pixels.GREY | pixels.COLOUR:
            raise InputError(f"{where} has pixels of type {value.mode}: give it {pixels.kind_for(value.mode)}")
        _check_size(value, feature.shape, where)
        _check_greys(value, feature, where)
    elif (content := _content(value)) is not None:
        shown = f"{where}: {_shown(value)}"
        with pixels.decoded(io.BytesIO(content), shown) as image:
            _check_size(image, feature.shape, shown)
            pixels.refuse_misread(image, feature.shape[2], shown)
            _check_greys(image, feature, shown)


def _check_size(image: Image.Image, shape: tuple[int | None, ...], shown: str) -> None:
    height, width = shape[:2]
    if (height or image.height, width or image.width) != (image.height, image.width):
        raise InputError(f"{shown} is {image.width}×{image.height}, and its feature {width}×{height}: scale it first")


def _check_greys(image: Image.Image, feature: Any, shown: str) -> None:
    """Raise `InputError` for a palette whose colours would become greys, and a mask whose numbers are not its greys."""
    is_mask = isinstance(feature, tfds.features.LabeledImage)
    if feature.shape[2] != 1 or image.mode == "L" or not (is_mask or image.mode == "P"):
        return
    colours = np.asarray(image.convert("RGB"))
    numbers = np.asarray(image, np.uint8) if is_mask and image.mode in ("P", "1") else colours[..., 0]
    if (colours != numbers[..., np.newaxis]).any():
        raise InputError(
            f"{shown} is of Pillow's mode {image.mode}, and TFDS would store the brightness of its colours, not "
            "numbers of classes or of a palette: save these as a grey image of 8 bits (mode L)"
        )


def _content(value: Any) -> bytes | None:
    """Return an image file's bytes; None for pixels, and for a file that TFDS alone can read, or not even TFDS."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str | os.PathLike):
        try:
            return files.read_bytes(Path(value))
        except OSError:
            return None
    if not hasattr(value, "seekable") or not value.seekable():
        return None
    place = value.tell()
    content: bytes = value.read()
    value.seek(place)
    return content


def _shown(value: Any) -> str:
    return Path(value).name if isinstance(value, str | os.PathLike) else "its file"
