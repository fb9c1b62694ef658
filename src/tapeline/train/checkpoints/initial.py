"""Start from another run's weights: take those with the same name and shape, and report the others.

Rows that belong to classes are matched by class name. A variable that was a copy of a weight, such as the slow weights
of Lookahead or a target network, remains one.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline.recipe import bundles, variables
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, first_few
from tapeline.train.checkpoints.class_rows import ClassRows


def content(folder: Path) -> str:
    """Return the SHA-256 over the weight files, for the fingerprint."""
    return files.sha256_of_files(sorted(folder.glob(f"{bundles.WEIGHTS}.*")))


def take(
    folder: Path,
    weights: Mapping[str, tf.Variable],
    say: Callable[[str], None],
    rows: Sequence[ClassRows] | None = (),
    others: Mapping[str, tf.Variable] | None = None,
) -> None:
    """Assign the weights in `folder` that fit. Raises `InputError` if none fits or the folder holds none.

    others: variables that are no weights, such as an optimizer's slots; those that copy a weight follow it.
    rows: the labels whose classes differ from those that the weights were trained on, and whose rows are matched by
    name; None if those classes are unknown.
    """
    prefix = folder / bundles.WEIGHTS
    try:
        stored = bundles.open_(prefix)
    except InputError as error:
        raise InputError(f"train.init_from: {folder} holds no weights: {error}") from None
    shapes = stored.shapes
    following = {name: label for label in rows or () for name in label.axes}
    found = _fitting(stored, weights, following)
    if not found:
        ours, theirs = first_few(sorted(weights), 3), first_few(sorted(shapes), 3)
        raise InputError(
            f"train.init_from: none of the {len(shapes)} weights in {folder} fits this recipe: it has {ours}, the "
            f"folder has {theirs}"
        )
    rest = {name: variable for name, variable in {**weights, **(others or {})}.items() if name not in found}
    copied = _copies({name: variable for name, variable in weights.items() if name in found}, rest)
    for name, value in found.items():
        weights[name].assign(tf.cast(value, weights[name].dtype))
    for name, original in copied.items():
        rest[name].assign(weights[original])
    say(f"took {len(found)} of {len(weights)} weights from {folder}")
    for label in rows or ():
        _say_rows(label, found.keys(), say)
    for name, original in copied.items():
        say(f"{name}: follows {original}, because it began as a copy of it")
    if left := weights.keys() - found.keys() - following.keys() - copied.keys():
        say(f"left as initialized, because no weight there has the same name and shape: {', '.join(sorted(left))}")
    if unused := shapes.keys() - weights.keys():
        say(f"not used, because the recipe has no weight of that name: {', '.join(sorted(unused))}")
    if rows is None:
        say(
            f"{folder} does not record the classes of its weights: rows are taken by position, as if the classes were "
            "the same"
        )


def _fitting(
    stored: bundles.Bundle, weights: Mapping[str, tf.Variable], following: Mapping[str, ClassRows]
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


def _copies(weights: Mapping[str, tf.Variable], others: Mapping[str, tf.Variable]) -> dict[str, str]:
    """Return the names of `others` that have the value of a weight now, with its name.

    Zeros and ones are likely to be equal by chance: such a variable counts if it is beside a copy in the same order.
    """
    kinds = {_kind(variable) for variable in others.values()}
    originals: dict[Any, str] = {}
    for name, variable in weights.items():
        if _kind(variable) in kinds and (key := _content(variable)):
            originals.setdefault(key, name)
    found = {name: originals.get(_content(variable)) for name, variable in others.items()} if originals else {}
    copied = {name: original for name, original in found.items() if original}
    for order in (1, -1):
        after, following = _neighbours(weights, order), _neighbours(others, order)
        for first, its in list(copied.items()):
            pairs = zip(_chain(following, first), _chain(after, its), strict=False)
            for name, original in pairs:
                alike = _added(name, original) == _added(first, its) and _are_equal(others[name], weights[original])
                if name in copied or not alike:
                    break
                copied[name] = original
    return copied


def _added(name: str, original: str) -> set[str]:
    """Return the words that a copy's name has besides those of its original, such as `slow`: they say its role."""
    words, known = (set(re.findall("[a-z]+", one.lower())) for one in (name, original))
    return words - known


def _chain(after: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield the names after one."""
    while name in after:
        name = after[name]
        yield name


def _neighbours(names: Mapping[str, object], order: int) -> dict[str, str]:
    """Return which name comes after which one, or before it if `order` is -1."""
    return dict(pairwise(list(names)[::order]))


def _are_equal(one: tf.Variable, other: tf.Variable) -> bool:
    if _kind(one) != _kind(other):
        return False
    return variables.content(one.read_value()) == variables.content(other.read_value())


def _kind(variable: tf.Variable) -> tuple[tf.DType, tuple[int, ...]]:
    """Return type and shape as they are now: the variable's own may be unknown."""
    return variable.dtype, tuple(tf.shape(variable).numpy())


def _content(variable: tf.Variable) -> Any:
    """Return what identifies a variable's value; None if it is likely to be another's by chance."""
    value = variable.numpy()
    if not isinstance(value, np.ndarray) or value.dtype == object or value.size < 2 or (value == value.flat[0]).all():
        return None
    return variable.dtype, value.shape, hashlib.sha256(value.tobytes()).digest()


def _say_rows(label: ClassRows, found: Collection[str], say: Callable[[str], None]) -> None:
    if by_name := sorted(label.axes.keys() & found):
        new = [name for name in label.now if name not in label.common]
        rest = f"; as initialized: {', '.join(new)}" if new else ""
        say(f"{', '.join(by_name)}: took the rows of {', '.join(label.common)} by name{rest}")
    if left := sorted(label.axes.keys() - found):
        why = f"they depend on the classes of {label.label}, which differ"
        say(f"left as initialized, because {why}: {', '.join(left)}")
