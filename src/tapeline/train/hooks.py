"""A recipe's own hooks: they watch training and may end it, and are held to changing nothing that decides results.

A checkpoint holds the tracked variables and nothing of a hook. So a hook that wrote to a variable, or to Python state
that later steps or `evaluate` read, would make a resumed run another one: it is refused by name, and what it wrote to
variables is undone before the checkpoint of the failed run is written.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline.recipe import Recipe, loading, variables
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, LimitReached, RunError, TapelineError, what_is
from tapeline.runtime.records import Hook, Pause, Record, Stop, Stopping, Validated
from tapeline.train.checkpoints.disk import SAVED
from tapeline.train.checks import python_state
from tapeline.train.checks.project_code import names_used
from tapeline.train.engine.state import State


class Watched:
    """What a hook may not change: variables, and the recipe's Python state.

    Where no Python runs later, a compiled step has the values of its trace. There a hook may keep what it likes in the
    recipe, but not change what was there before the first step and the rest of the recipe names: it would have no
    effect.

    eager: whether the steps are Python.
    """

    def __init__(self, path: Path, recipe: Recipe, state: State, *, eager: bool) -> None:
        self.path, self.recipe = path, recipe
        seeds = variables.find(recipe).seeds  # each step sets them
        self._variables = {name: value for name, value in state.variables.items() if name not in seeds}
        self._eager, self._python = eager, eager or type(recipe).evaluate is not Recipe.evaluate
        self._hooks: Sequence[Hook] = ()

    def know(self, hooks: Sequence[Hook]) -> None:
        """Leave out the state of the recipe's hooks, which is theirs, and the names in their code."""
        self._hooks = hooks
        self.__dict__.pop("_names", None)

    @contextmanager
    def unchanged(self, who: str) -> Iterator[None]:
        """Raise `RunError` if the block changes anything, and undo it in variables."""
        before, looked = variables.snapshot(self._variables), self._look()
        try:
            yield
        finally:
            after = variables.snapshot(self._variables)
            changed = [name for name, old in before.items() if _differ(old, after[name])]
            for name in changed:
                self._variables[name].assign(before[name])
        if changed:
            raise RunError(f"recipe {self.path}: {who} changes {changed[0]}: {_MAY_NOT}")
        if found := python_state.difference(looked, self._look()):
            raise RunError(f"recipe {self.path}: {who} changes {found}: {_MAY_NOT}; keep a hook's state in the hook")

    def _look(self) -> python_state.State:
        if self._python:
            return python_state.look(self.recipe, generators=self._eager)
        found = python_state.glance(self.recipe, but=self._hooks)
        return {place: found[place] for place in found.keys() & self._traced if self._is_read(place)}

    def _is_read(self, place: str) -> bool:
        """Return whether the recipe's code names what is at a place: its own attribute, or a part of another place."""
        names = re.findall(r"\w+", place)
        return bool(self._names.intersection(names[1:2] if names[0] == "self" else names))

    @cached_property
    def _traced(self) -> frozenset[str]:
        """The places that there are when the first look is taken: before the first step."""
        return frozenset(python_state.glance(self.recipe))

    @cached_property
    def _names(self) -> set[str]:
        return names_used(self.recipe, self._hooks)


_MAY_NOT = "a hook may only observe, because a resumed run would not repeat what it writes; change state in train_step"


def own_hooks(watched: Watched) -> list[Hook]:
    """Return the hooks of a recipe, each held to watching. Raises `InputError` for what is not a hook."""
    recipe, path = watched.recipe, watched.path
    if type(recipe).hooks is Recipe.hooks and "hooks" not in vars(recipe):
        return []
    with loading.blaming(path, InputError, "fails in hooks"):
        with watched.unchanged("hooks"):
            returned: Any = recipe.hooks()
        if not isinstance(returned, Sequence):
            what = what_is(returned)
            raise InputError(f"recipe {path}: hooks returns {what}: return a list of callables, such as [self.look]")
        if wrong := [hook for hook in returned if not callable(hook) or isinstance(hook, type)]:
            raise InputError(
                f"recipe {path}: hooks returns {wrong[0]!r}, which cannot be called with a record: return callables"
            )
    watched.know(returned)
    return [
        OwnStoppingHook(hook, watched) if isinstance(hook, Stopping) else OwnHook(hook, watched) for hook in returned
    ]


class OwnHook:
    """One hook of a recipe. It gets `Started`, `LoopEnded`, `Skipped` and `Validated`, on the main thread."""

    def __init__(self, hook: Hook, watched: Watched) -> None:
        self._hook, self._watched = hook, watched
        self._who = f"hook {getattr(hook, '__qualname__', type(hook).__qualname__)}"

    def __call__(self, record: Record) -> None:
        """Pass a record on. Raises `LimitReached` if the hook ends the run, `RunError` if it fails or changes state."""
        if isinstance(record, Pause | Validated):
            self._call(lambda: self._hook(record), record.step)

    def _call(self, act: Callable[[], Any], step: int) -> Any:
        watched, who = self._watched, self._who
        with watched.unchanged(who), loading.blaming(watched.path, RunError, f"fails in {who}"):
            try:
                return act()
            except Stop as stop:
                ended = f"recipe {watched.path}: {who} ends the run at step {step}: {stop}"
                raise LimitReached(f"{ended}; {SAVED}: run again to resume") from None
            except SystemExit:
                said = "calls sys.exit: raise tapeline.recipe.Stop to end a run"
                raise RunError(f"recipe {watched.path}: {who} {said}") from None
            except (TapelineError, OSError) as error:
                if isinstance(error, OSError) and error.errno not in files.DISK_ERRORS:
                    raise
                raise RunError(f"recipe {watched.path} fails in {who}: {error}") from error


class OwnStoppingHook(OwnHook):
    """One that says where loops must end."""

    _hook: Stopping

    def next_stop(self, step: int) -> int:
        """Return what the hook says. Raises `RunError` if that is not a later step."""
        found = self._call(lambda: self._hook.next_stop(step), step)
        if isinstance(found, bool) or not isinstance(found, int | np.integer) or found <= step:
            raise RunError(
                f"recipe {self._watched.path}: {self._who} has {found!r} as the next stop after step {step}: return a "
                "later step"
            )
        return int(found)


def _differ(old: tf.Tensor, new: tf.Tensor) -> bool:
    """Return whether two values of a variable differ. Without a write both are the same memory: nothing is compared."""
    if _address(old) == _address(new) != 0:
        return False
    return bool(old.shape != new.shape or variables.content(old) != variables.content(new))


def _address(value: tf.Tensor) -> int:
    """Return where a tensor's bytes are; 0 for a type without a buffer, such as bfloat16 and text."""
    try:
        return int(np.asarray(memoryview(value)).ctypes.data)
    except (BufferError, TypeError, ValueError):
        return 0
