"""Running an exported signature over a split: what validate records and export must reproduce."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.dataset import Dataset
from tapeline.errors import InputError

DEFAULT = "serving_default"


def predictions(
    signature: Callable[..., Mapping[str, tf.Tensor]], dataset: Dataset, split: str, batch_size: int
) -> dict[str, NDArray[Any]]:
    """Return a signature's outputs for every example of a split, in order, by output name.

    Raises `InputError` when the signature asks for an input that is no feature of the dataset.
    """
    names = inputs(signature)
    if unknown := sorted(set(names) - set(dataset.features)):
        raise InputError(
            f"the model takes {', '.join(unknown)}, which {dataset.name} has not: {', '.join(dataset.features)}"
        )
    columns = {name: dataset.column(split, name) for name in names}
    parts: dict[str, list[NDArray[Any]]] = {}
    for start in range(0, dataset.examples(split), batch_size):
        batch = [tf.constant(columns[name][start : start + batch_size]) for name in names]
        for name, value in signature(*batch).items():
            parts.setdefault(name, []).append(value.numpy())
    return {name: np.concatenate(values) for name, values in sorted(parts.items())}


def inputs(signature: Any) -> list[str]:
    """Return the names of a `tf.function`'s inputs, in the order in which it takes them."""
    return [spec.name for spec in tf.nest.flatten(signature.input_signature)]
