"""Find the weights that depend on the class list, and along which axis, to reuse weights trained on other classes.

Nothing in a weight tells this, so the recipe is built once more with one additional class: weights that change shape
depend on the list, and the axis that grows by one has a row for each class.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset.columns import Dataset, Feature
from tapeline.dataset.statistics import TrainStatistics
from tapeline.recipe import loading, variables
from tapeline.runtime.errors import InputError

Classes = Mapping[str, tuple[str, ...]]
"""Label → its class names, in the order of their ids."""


@dataclass(frozen=True)
class ClassRows:
    """One label whose classes differ from those that the weights were trained on."""

    label: str
    then: tuple[str, ...]
    now: tuple[str, ...]
    axes: Mapping[str, int | None]
    """Weight → its axis with a row for each class; None if it depends on the list in another way."""

    @property
    def common(self) -> list[str]:
        """The classes in both lists."""
        return [name for name in self.now if name in self.then]

    def aligned(self, name: str, initial: NDArray[Any], stored: NDArray[Any]) -> NDArray[Any] | None:
        """Return `initial` with the stored rows of the common classes; None if the shapes do not allow it."""
        axis = self.axes[name]
        if axis is None or not self.common or stored.ndim != initial.ndim or stored.shape[axis] != len(self.then):
            return None
        found = np.moveaxis(initial.copy(), axis, 0)
        given = np.moveaxis(stored, axis, 0)
        if found.shape[1:] != given.shape[1:]:
            return None
        for name_ in self.common:
            found[self.now.index(name_)] = given[self.then.index(name_)]
        return np.moveaxis(found, 0, axis)


def find(recipe: Path, params: Mapping[str, Any], dataset: Dataset, then: Classes) -> list[ClassRows]:
    """Return an entry for each label whose classes differ from those in `then`; builds the recipe twice for each.

    Raises `InputError` for a recipe that predicts such a label and has no weight that depends on its classes, because
    rows cannot then be matched to classes.
    """
    return [
        ClassRows(label, old, new, _axes(recipe, params, dataset, label, (old, new)))
        for label, old, new in _changed(dataset.features, then)
    ]


def _changed(features: Mapping[str, Feature], then: Classes) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    now = {name: feature.classes for name, feature in features.items() if feature.classes}
    renamed = next(iter(then.values())) if len(then) == len(now) == 1 else ()
    for name, new in now.items():
        old = then.get(name, renamed)
        if old != new:
            yield name, old, new


def _axes(
    recipe: Path,
    params: Mapping[str, Any],
    dataset: Dataset,
    label: str,
    differing: tuple[tuple[str, ...], tuple[str, ...]],
) -> dict[str, int | None]:
    old, new = differing
    features = dataset.features
    built = _build(recipe, params, dataset, features)
    shapes = _shapes(built)
    wider = {**features, label: replace(features[label], classes=(*new, "".join(new) + "+"))}
    try:
        wide = _shapes(_build(recipe, params, dataset, wider))
    except InputError:  # the recipe supports only this number of classes
        wide = shapes
    changed = [name for name in shapes if wide.get(name) != shapes[name]]
    if not changed and built.target == label:
        raise InputError(
            f"train.init_from: its weights have other classes of {label} ({_difference(old, new)}), but no weight of "
            f"{recipe.name} depends on self.features[{label!r}].classes, so rows cannot be matched to classes: size "
            "the output by the classes, or remove init_from"
        )
    return {name: _axis(shapes[name], wide.get(name), len(new)) for name in changed}


def _build(recipe: Path, params: Mapping[str, Any], dataset: Dataset, features: Mapping[str, Feature]) -> Any:
    return loading.build(recipe, params, features, statistics=TrainStatistics(dataset, features))


def _axis(shape: tuple[int, ...], wide: tuple[int, ...] | None, classes: int) -> int | None:
    if wide is None or len(wide) != len(shape):
        return None
    grown = [axis for axis, (one, other) in enumerate(zip(shape, wide, strict=True)) if one != other]
    fits = len(grown) == 1 and (shape[grown[0]], wide[grown[0]]) == (classes, classes + 1)
    return grown[0] if fits else None


def _shapes(built: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weight.shape) for name, weight in variables.find(built).weights.items()}


def _difference(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    added, gone = [one for one in new if one not in old], [one for one in old if one not in new]
    parts = [f"{word} {', '.join(names)}" for word, names in (("without", added), ("with", gone)) if names]
    return " and ".join(parts) or "in another order"
