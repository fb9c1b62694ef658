"""What a builder's examples hold, compared with what TFDS will store of them: it casts silently."""

import functools
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds
from PIL import Image

from tapeline.ingest import pixels, tfds_reader
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def check_each(builder: Any, columns: tuple[str, ...] | None) -> None:
    """Have the builder raise `InputError` for an example of which TFDS would store something else.

    That is an integer that its feature does not hold, and a file of more than 8 bits a channel or of several frames for
    an image of 8 bits. Call it before the builder is prepared.
    """
    features = tfds_reader.chosen(builder, columns)
    generate = builder._split_generators

    @functools.wraps(generate)  # TFDS looks at its parameters
    def generate_checked(*given: Any, **named: Any) -> Any:
        found = generate(*given, **named)
        if not isinstance(found, Mapping):  # TFDS's older form
            found = {str(one.name): builder._generate_examples(**one.gen_kwargs) for one in found}
        return {
            split: _checked(split, examples, features) if isinstance(examples, Iterable) else examples
            for split, examples in found.items()
        }

    builder._split_generators = generate_checked


def _checked(split: str, examples: Iterable[Any], features: Mapping[str, Any]) -> Iterator[Any]:
    integers = {name: dtype for name, feature in features.items() if (dtype := _integer(feature)) is not None}
    images = [name for name, feature in features.items() if _is_image(feature)]
    for key, example in examples:
        for name, dtype in integers.items():
            _check_integers(_inner(example, name), dtype, f"{split} example {key!r}: feature {name!r}")
        for name in images:
            _check_image(_inner(example, name), f"{split} example {key!r}: feature {name!r}")
        yield key, example


def _integer(feature: Any) -> Any:
    """Return the dtype of integers or booleans, in sequences too; None for another kind of feature."""
    inner = feature
    while isinstance(inner, tfds.features.Sequence):
        inner = inner.feature
    if type(inner) not in (tfds.features.Tensor, tfds.features.Scalar):
        return None
    dtype = np.dtype(inner.np_dtype)
    return dtype if dtype.kind in "biu" else None


def _inner(example: Any, name: str) -> Any:
    """Return the value of a feature; None if the example lacks it, which TFDS says better."""
    try:
        return tfds_reader.inner(example, name)
    except (KeyError, TypeError, IndexError):
        return None


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
            raise InputError(
                f"{where} has {one}, which {dtype} does not hold: declare a type that does, or mend the value"
            )


def _is_image(feature: Any) -> bool:
    return type(feature) is tfds.features.Image and feature.np_dtype == np.uint8 and len(feature.shape) == 3


def _check_image(value: Any, where: str) -> None:
    """Raise `InputError` for an image that TFDS would cut to 8 bits a channel, or to its first frame."""
    if isinstance(value, Image.Image):
        if value.mode not in pixels.GREY | pixels.COLOUR:
            raise InputError(f"{where} has pixels of type {value.mode}: make it 8 bits a channel")
        return
    if (content := _content(value)) is not None:
        with pixels.decoded(io.BytesIO(content), f"{where}: {_shown(value)}"):
            pass


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
