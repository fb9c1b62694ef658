"""A recipe's state in Python: attributes at any depth, its module's globals, and the global random generators.

No checkpoint holds any of it. Where Python runs at each step or validation (`compile: eager`, `evaluate`), a change to
it would make a resumed run differ, so all of it is compared before and after. In a graph Python runs once, when the
step is traced; what it changes then becomes a constant, the same at each start. There public names are compared,
because a recipe's author would expect what they hold to change at each step, and numbers anywhere: one that two traces
in turn change is a count, one that only the first changes is a memo.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapeline.runtime.errors import InputError, NotRepeatable
from tapeline.train.checks.python_objects import TRACED, Found, Look, digest

_GLOBAL = ("Python's random", "np.random")
"""The global random generators. Threads of others may draw from them, so the recipe's own places are named first."""

State = Mapping[str, Found]
"""Place of a value, as the recipe's author would write it → what is there."""


def look(recipe: Any, *, generators: bool = True) -> State:
    """Return the Python state reachable from the recipe.

    generators: include the states of Python's and NumPy's global random generators.
    Raises `InputError` for an iterator, whose position is hidden: a generator, an open file, a tf.data iterator.
    """
    seen = Look(recipe)
    if seen.iterators:
        path, kind = seen.iterators[0]
        raise InputError(
            f"{path} is an iterator ({kind}), whose position no checkpoint holds: derive what it yields from "
            f"context.step, or make it a column of the dataset"
        )
    found = {**seen.inner, **seen.own}
    if generators:
        states = (random.getstate(), np.random.get_state(legacy=False))
        found |= {name: Found(digest(repr(state).encode())) for name, state in zip(_GLOBAL, states, strict=True)}
    return found


def glance(recipe: Any, *, but: Sequence[Any] = ()) -> State:
    """Return what a light `Look` finds, without container sizes; iterators may be among it. but: as there."""
    seen = Look(recipe, light=True, but=but)
    return {place: found for place, found in {**seen.inner, **seen.own}.items() if found.kind != "size"}


class Tracing:
    """Checks that tracing a recipe's methods changes nothing under a public name, since this object was created.

    Attributes that appear for the first time (a layer that is built, a memo) do not count as changes.
    """

    def __init__(self, recipe: Any) -> None:
        self._recipe, self._before, self._numbers = recipe, Look(recipe, traced=True), _numbers(recipe)

    def counts(self, where: str, again: Callable[[], object]) -> None:
        """Raise `InputError` naming a number that each trace changes. again: traces the method `where` once more."""
        before, first = self._numbers, _numbers(self._recipe)
        if changed := {place for place in before.keys() & first.keys() if not before[place].is_like(first[place])}:
            again()
            second = _numbers(self._recipe)
            same = changed & second.keys()
            self._refuse(where, difference({n: first[n] for n in same}, {n: second[n] for n in same}))

    def __call__(self, where: str) -> None:
        """Raise `InputError` naming what has changed. where: the method that was traced."""
        before, after = self._before, Look(self._recipe, traced=True)
        both = before.inner.keys() & after.inner.keys()
        changed = difference(before.own, after.own) or difference(
            {name: before.inner[name] for name in both}, {name: after.inner[name] for name in both}
        )
        self._refuse(where, changed)

    def _refuse(self, where: str, changed: str) -> None:
        if changed:
            is_flag = changed.partition(" (")[0].endswith(".trainable")
            raise InputError(
                f"{where} changes the Python attribute {changed}, which happens only once, when it is traced: "
                f"{_WHEN_TO_TRAIN if is_flag else 'make it a tf.Variable, or derive it from context.step'}"
            )


def _numbers(recipe: Any) -> State:
    return {place: found for place, found in glance(recipe).items() if found.kind == "number"}


_WHEN_TO_TRAIN = (
    "set it in build; to train a layer only from a certain step on, multiply its gradients by "
    "tf.cast(context.step >= 1000, tf.float32)"
)


class Watch:
    """Checks that a recipe's Python state is unchanged since this object was created.

    What is made in the first call that it watches, such as a function that is kept, is no change.
    """

    def __init__(self, recipe: Any, where: str, *, generators: bool = True) -> None:
        self._recipe, self._where, self._generators = recipe, where, generators
        self._before, self._is_first = look(recipe, generators=generators), True
        if leaked := [path for path, said in self._before.items() if said.text == TRACED and generators]:
            raise InputError(
                f"{where} keeps {leaked[0]}, a tensor that belongs to one step, and that no checkpoint holds: make it "
                f"a tf.Variable that is an attribute of the recipe"
            )

    def __call__(self) -> None:
        """Raise `NotRepeatable` naming what has changed."""
        now = look(self._recipe, generators=self._generators)
        made = {place: found for place, found in now.items() if found.which is not None} if self._is_first else {}
        if changed := difference({**made, **self._before}, now):
            raise NotRepeatable(
                f"{self._where} changes {changed} in Python, where no checkpoint holds it: make it a tf.Variable that "
                f"is an attribute of the recipe, or derive it from context.step or a fixed seed"
            )
        self._before, self._is_first = now, False


def difference(before: State, after: State) -> str:
    """Return the first place where two states differ, with both values; "" if they are equal."""
    for name in sorted(before.keys() | after.keys(), key=lambda name: (name in _GLOBAL, name)):
        old, new = before.get(name), after.get(name)
        if old is None or not old.is_like(new):
            said = [found.text if found else "absent" for found in (old, new)]
            return f"{name} ({said[0]} → {said[1] if said[0] != said[1] else 'another one'})"
    return ""
