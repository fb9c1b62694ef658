"""Start from another run's weights: take those with the same name and shape, and report the others.

Rows that belong to classes are matched by class name.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline.recipe import variables
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.train.checkpoints.class_rows import ClassRows


def content(folder: Path) -> str:
    """Return the SHA-256 over the weight files, for the fingerprint."""
    return files.sha256_of_files(sorted(folder.glob(f"{variables.BUNDLE}.*")))


def take(
    folder: Path,
    weights: Mapping[str, tf.Variable],
    say: Callable[[str], None],
    rows: Sequence[ClassRows] | None = (),
) -> None:
    """Assign the weights in `folder` that fit. Raises `InputError` if none fits or the folder holds none.

    rows: the labels whose classes differ from those that the weights were trained on, and whose rows are matched by
    name; None if those classes are unknown.
    """
    prefix = folder / variables.BUNDLE
    try:
        stored = variables.open_bundle(prefix)
    except InputError as error:
        raise InputError(f"train.init_from: {folder} holds no weights: {error}") from None
    shapes = stored.shapes
    following = {name: label for label in rows or () for name in label.axes}
    found = _fitting(stored, weights, following)
    if not found:
        raise InputError(
            f"train.init_from: none of the {len(shapes)} weights in {folder} fits this recipe; it has {_few(weights)}, "
            f"they are {_few(shapes)}"
        )
    for name, value in found.items():
        weights[name].assign(tf.cast(value, weights[name].dtype))
    say(f"{len(found)} of {len(weights)} weights are taken from {folder}")
    for label in rows or ():
        _say_rows(label, found.keys(), say)
    if left := weights.keys() - found.keys() - following.keys():
        say(f"left as initialized, because none there has their name and shape: {', '.join(sorted(left))}")
    if unused := shapes.keys() - weights.keys():
        say(f"not used, because the recipe has none of their name: {', '.join(sorted(unused))}")
    if rows is None:
        say(f"nothing in {folder} says which classes its weights know: they are taken by place, as if it were these")


def _fitting(
    stored: variables.Bundle, weights: Mapping[str, tf.Variable], following: Mapping[str, ClassRows]
) -> dict[str, Any]:
    """Return the stored values that fit, by name. following: the weights whose rows belong to classes."""
    found = {}
    for name, value in stored.read(sorted(weights.keys() & stored.shapes.keys())).items():
        if name in following:
            value = following[name].aligned(name, weights[name].numpy(), np.asarray(value))
        elif not weights[name].shape.is_compatible_with(stored.shapes[name]):
            value = None
        if value is not None:
            found[name] = value
    return found


def _say_rows(label: ClassRows, found: Collection[str], say: Callable[[str], None]) -> None:
    if by_name := sorted(label.axes.keys() & found):
        new = [name for name in label.now if name not in label.common]
        rest = f"; as initialized: {', '.join(new)}" if new else ""
        say(f"{', '.join(by_name)}: the rows of {', '.join(label.common)} are taken by name{rest}")
    if left := sorted(label.axes.keys() - found):
        why = f"they follow the classes of {label.label}, which are others"
        say(f"left as initialized, because {why}: {', '.join(left)}")


def _few(names: Mapping[str, object]) -> str:
    first = sorted(names)[:3]
    return ", ".join(first) + (" …" if len(names) > len(first) else "")
