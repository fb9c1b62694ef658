"""Prepared TFDS data as a source: which features can be columns, and the examples in TFDS's stored order.

TFDS stores no keys, and its order changes as soon as an example is added. So messages name an example by its position
in the split, and the validation split goes by content.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tapeline.dataset.columns import Feature
from tapeline.ingest.prepare import one_line
from tapeline.ingest.source import Examples, Source, chosen_features, piece
from tapeline.runtime.errors import InputError
from tapeline.runtime.untuned import untuned

INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMBERS = {"bool", *INTEGERS, "float16", "float32", "float64"}


def read(
    builder: Any, *, origin: Mapping[str, Any], splits: Mapping[str, str], columns: tuple[str, ...] | None
) -> Source:
    """Open a prepared builder's data; `splits` maps our splits to TFDS split expressions.

    Raises `InputError` for a missing split and for a selected feature that is not numeric with one fixed shape.
    """
    of = f"TFDS dataset {builder.name}"
    available = _flat(builder.info.features, of)
    features = {name: _type(name, available[name], of) for name in sorted(chosen_features(available, columns, of=of))}
    rounded = [name for name in features if is_rounded(available[name])]
    datasets = {split: _dataset(builder, expression, of) for split, expression in splits.items()}
    sizes = [int(dataset.cardinality()) for dataset in datasets.values()]
    return Source(
        origin=origin,
        features=features,
        splits=tuple(splits),
        examples=_examples(datasets, features),
        total=sum(sizes) if min(sizes) >= 0 else None,
        notes=[
            f"feature {name!r} is float64, which TFDS stores as float32: its values are rounded" for name in rounded
        ],
    )


def check_features(builder: Any, columns: tuple[str, ...] | None) -> None:
    """Raise `InputError` for features that `read` would refuse; works before the builder is prepared."""
    for name, feature in chosen(builder, columns).items():
        _type(name, feature, f"TFDS dataset {builder.name}")


def chosen(builder: Any, columns: tuple[str, ...] | None) -> dict[str, Any]:
    """Return TFDS's features by name, those to keep; none of a builder that has them only once prepared."""
    if builder.info.features is None:
        return {}
    of = f"TFDS dataset {builder.name}"
    available = _flat(builder.info.features, of)
    return {name: available[name] for name in chosen_features(available, columns, of=of)}


def is_rounded(feature: Any) -> bool:
    """Return whether TFDS stores a feature of float64 as float32, as all that it does not encode to bytes."""
    stored = feature.get_serialized_info()
    return isinstance(stored, tfds.features.TensorInfo) and stored.np_dtype == np.float64


def _flat(features: Any, of: str, prefix: str = "") -> dict[str, Any]:
    """Return the features by name; nested ones are named `outer/inner`."""
    if not isinstance(features, tfds.features.FeaturesDict):
        raise InputError(
            f"{of} has no named features: write a builder of your own that yields a dictionary (`source: builder`)"
        )
    flat: dict[str, Any] = {}
    for name, feature in features.items():
        if isinstance(feature, tfds.features.FeaturesDict):
            flat |= _flat(feature, of, f"{prefix}{name}/")
        else:
            flat[prefix + name] = feature
    return flat


def _type(name: str, feature: Any, of: str) -> Feature:
    remedy = (
        "leave it out by `columns`, or yield it as numbers from a builder of your own (`source: builder`), such as a "
        "text's bytes as a tfds.features.Tensor"
    )
    info = feature.get_tensor_info()
    if not isinstance(info, tfds.features.TensorInfo):
        raise InputError(f"{of}: feature {name!r} is a sequence of examples; a column needs one fixed shape: {remedy}")
    dtype = np.dtype(info.np_dtype).name
    if dtype not in NUMBERS:
        what = "text" if dtype.startswith(("object", "str", "bytes")) else dtype
        raise InputError(f"{of}: feature {name!r} is {what}; a column needs numbers of one fixed shape: {remedy}")
    if not all(info.shape):
        raise InputError(f"{of}: feature {name!r} has the shape {info.shape}; a column needs one fixed shape: {remedy}")
    if info.sequence_rank > 1:
        raise InputError(
            f"{of}: feature {name!r} is a sequence of sequences, which TFDS cannot read back where their lengths are "
            f"fixed: declare one tfds.features.Tensor of the shape {info.shape}, or images one by one"
        )
    classes = tuple(feature.names) if isinstance(feature, tfds.features.ClassLabel) and feature.num_classes else None
    return Feature(tuple(info.shape), dtype, classes)


def _dataset(builder: Any, expression: str, of: str) -> Any:
    order = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    try:
        return untuned(builder.as_dataset(split=expression, shuffle_files=False, read_config=order))
    except NotImplementedError:
        raise InputError(
            f"{of} is stored as {builder.info.file_format.value} in {builder.data_dir}, which cannot be read in order: "
            "convert it with `tfds convert_format --out_file_format=tfrecord`"
        ) from None
    except (ValueError, KeyError, AssertionError) as error:
        there = ", ".join(builder.info.splits) or "unknown"
        raise InputError(
            f"{of}: split {expression!r} cannot be read ({one_line(error)}); it has {there}: correct `splits`"
        ) from None


def _examples(datasets: Mapping[str, Any], features: Mapping[str, Feature]) -> Iterator[Examples]:
    size = piece(features)

    def keep(example: dict[str, Any]) -> dict[str, Any]:
        return {name: inner(example, name) for name in features}

    for split, dataset in datasets.items():
        place, kept = 0, dataset.map(keep)
        batches = _begun(kept.batch(size), split, features)
        while columns := _next(batches, kept, split, place, features):
            count = len(next(iter(columns.values())))
            yield Examples(split, [str(place + index) for index in range(count)], columns, own_keys=False)
            place += count


def _begun(batched: Any, split: str, features: Mapping[str, Feature]) -> Any:
    """Return an iterator. Raises `InputError` where TensorFlow sees beforehand that it can read no example."""
    import tensorflow as tf

    try:
        return batched.as_numpy_iterator()
    except tf.errors.OpError as error:
        raise InputError(f"{split} cannot be read: {_reason(error, sorted(features))}") from None


def _next(batches: Any, kept: Any, split: str, place: int, features: Mapping[str, Feature]) -> Any:
    """Return the next batch, or None at the end. Raises `InputError` for an example that cannot be read or batched."""
    import tensorflow as tf  # here: the import is noisy, and this module may be imported before it

    try:
        return next(batches, None)
    except tf.errors.OpError as error:
        first = error
    number = place
    try:
        for _ in kept.skip(place).as_numpy_iterator():
            number += 1
    except tf.errors.OpError as error:
        where = f"{split} example {number} in TFDS's order"
        raise InputError(f"{where} cannot be read: {_reason(error, sorted(features))}") from None
    where = f"{split} examples from {place} on in TFDS's order"
    raise InputError(f"{where} cannot be read: {_reason(first, sorted(features))}")


_NAMES = re.compile(
    r"\[\[.*|\[Op:.*|\{\{.*?\}\}|Error in user-defined function.*?: (?=Iterator)|Iterator::[\w:]+: ", re.DOTALL
)
"""The names of operations, functions and iterators in a TensorFlow error."""


def _reason(error: Any, names: Sequence[str]) -> str:
    """Return TensorFlow's reason. names: the features in the order of its components."""
    text = _NAMES.sub("", error.message)
    return str(one_line(ValueError(re.sub(r"component (\d+)", lambda found: f"{names[int(found[1])]!r}", text))))


def inner(example: Any, name: str) -> Any:
    """Return a feature of a nested example; a single feature's name may contain `/` too."""
    if name in example:
        return example[name]
    outer, _, rest = name.partition("/")
    return inner(example[outer], rest)
