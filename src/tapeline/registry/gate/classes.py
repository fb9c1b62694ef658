"""Match classes by name between models or datasets: a class id means nothing outside the dataset that assigned it.

known = ("cat", "dog")                         # the champion's, from its own dataset
aligned({"class": [0, 1]}, known, ("ant", "cat", "dog"))   # {"class": [1, 2]}
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.runtime.errors import InputError


def label(features: Mapping[str, Mapping[str, Any]], name: str) -> tuple[str, ...] | None:
    """Return the class names of a dataset's feature `name`, or else of its only label; None without either."""
    named = {key: tuple(kind["classes"]) for key, kind in features.items() if kind.get("classes")}
    if name in named:
        return named[name]
    return next(iter(named.values())) if len(named) == 1 else None


def aligned(
    answers: Mapping[str, NDArray[Any]], known: Sequence[str], wanted: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return a classifier's answers with class ids mapped by name from `known` to `wanted`.

    answers: `class`, ids of shape (examples,), and perhaps `probabilities`, shape (examples, classes); others are
    unchanged. A class missing in `wanted` gets an id and a column after all of `wanted`'s: never right, never lost.
    Raises `InputError` for an id or a number of columns that `known` does not have.
    """
    if tuple(known) == tuple(wanted):
        return dict(answers)
    ids = {name: number for number, name in enumerate(wanted)}
    for name in known:
        ids.setdefault(name, len(ids))
    places = np.array([ids[name] for name in known])
    chosen = answers["class"]
    if ((chosen < 0) | (chosen >= len(known))).any():
        raise InputError(f"it answers class {int(chosen.max())}, and its dataset has {len(known)} classes")
    found = {**answers, "class": places[chosen].astype(chosen.dtype)}
    if (given := answers.get("probabilities")) is not None:
        if given.ndim != 2 or given.shape[1] != len(known):
            shape = "x".join(map(str, given.shape[1:]))
            raise InputError(f"it answers {shape} probabilities, and its dataset has {len(known)} classes")
        found["probabilities"] = np.zeros((len(given), len(ids)), given.dtype)
        found["probabilities"][:, places] = given
    return found


def changes(known: Sequence[str], wanted: Sequence[str], name: str) -> Iterator[str]:
    """Yield what a person must know about a comparison across different classes; nothing if they are the same."""
    added = [one for one in wanted if one not in known]
    gone = [one for one in known if one not in wanted]
    if added:
        yield f"classes that {name} does not know, so it cannot be right there: {', '.join(added)}"
    if gone:
        yield f"classes of {name} that the test data no longer has: {', '.join(gone)}"
    if not added and not gone and tuple(known) != tuple(wanted):
        yield f"classes are in another order than those of {name}: compared by name"
