"""Prepared TFDS data as a source: which features can be columns, and their examples in TFDS's stored order.

TFDS stores no keys. Its order is a function of the keys (or the order of generation, with `disable_shuffling`), so an
example's place in its split is the key here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tapeline.dataset import Feature
from tapeline.errors import InputError
from tapeline.ingest.prepare import one_line
from tapeline.ingest.source import Examples, Source, chosen_features, piece

INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMBERS = {"bool", *INTEGERS, "float16", "float32", "float64"}


def read(
    builder: Any, *, origin: Mapping[str, Any], splits: Mapping[str, str], columns: tuple[str, ...] | None
) -> Source:
    """Open a prepared builder's data; `splits` maps our splits to TFDS split expressions.

    Raises `InputError` for a split that is not there and for a chosen feature that is no number of one fixed shape.
    """
    of = f"TFDS dataset {builder.name}"
    available = _flat(builder.info.features, of)
    features = {name: _type(name, available[name], of) for name in sorted(chosen_features(available, columns, of=of))}
    datasets = {split: _dataset(builder, expression, of) for split, expression in splits.items()}
    sizes = [int(dataset.cardinality()) for dataset in datasets.values()]
    return Source(
        origin=origin,
        features=features,
        splits=tuple(splits),
        examples=_examples(datasets, features),
        total=sum(sizes) if min(sizes) >= 0 else None,
    )


def _flat(features: Any, of: str, prefix: str = "") -> dict[str, Any]:
    """Return the features by name, those of nested dictionaries as `outer/inner`."""
    if not isinstance(features, tfds.features.FeaturesDict):
        raise InputError(
            f"{of} has no named features: write a builder of your own that gives a dictionary (`source: builder`)"
        )
    flat: dict[str, Any] = {}
    for name, feature in features.items():
        if isinstance(feature, tfds.features.FeaturesDict):
            flat |= _flat(feature, of, f"{prefix}{name}/")
        else:
            flat[prefix + name] = feature
    return flat


def _type(name: str, feature: Any, of: str) -> Feature:
    remedy = "keep others with `columns`, or write a builder of your own that makes it so (`source: builder`)"
    info = feature.get_tensor_info()
    if not isinstance(info, tfds.features.TensorInfo):
        raise InputError(f"{of}: feature {name!r} is a sequence of examples; a column needs one fixed shape: {remedy}")
    dtype = np.dtype(info.np_dtype).name
    if dtype not in NUMBERS:
        what = "text" if dtype.startswith(("object", "str", "bytes")) else dtype
        raise InputError(f"{of}: feature {name!r} is {what}; a column needs numbers of one fixed shape: {remedy}")
    if not all(info.shape):
        raise InputError(f"{of}: feature {name!r} has the shape {info.shape}; a column needs one fixed shape: {remedy}")
    classes = tuple(feature.names) if isinstance(feature, tfds.features.ClassLabel) and feature.num_classes else None
    return Feature(tuple(info.shape), dtype, classes)


def _dataset(builder: Any, expression: str, of: str) -> Any:
    order = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    try:
        return builder.as_dataset(split=expression, shuffle_files=False, read_config=order)
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
        return {name: _inner(example, name) for name in features}

    for split, dataset in datasets.items():
        place = 0
        for columns in dataset.map(keep).batch(size).as_numpy_iterator():
            count = len(next(iter(columns.values())))
            yield Examples(split, [str(place + index) for index in range(count)], columns)
            place += count


def _inner(example: Any, name: str) -> Any:
    """Return a feature of a nested example; a name with `/` may also be that of one feature."""
    if name in example:
        return example[name]
    outer, _, rest = name.partition("/")
    return _inner(example[outer], rest)
