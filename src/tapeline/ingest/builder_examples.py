"""What a builder's examples hold, compared with what TFDS will store of them: it casts without a word."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tapeline.ingest import tfds_reader
from tapeline.runtime.errors import InputError


def check_each(builder: Any, columns: tuple[str, ...] | None) -> None:
    """Have the builder raise `InputError` for an example with an integer that its feature does not hold.

    Call it before the builder is prepared.
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
    for key, example in examples:
        for name, dtype in integers.items():
            _check_integers(_inner(example, name), dtype, f"{split} example {key!r}: feature {name!r}")
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
