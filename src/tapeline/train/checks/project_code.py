"""Which code is the project's, and which names it uses."""

import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import tensorflow as tf

from tapeline.recipe.loading import MODULE
from tapeline.runtime import own_modules

_FOREIGN = ("keras", "tensorflow", "numpy", "typing")
"""How libraries are called, among them `tensorflow_probability`; a person's own `keras_blocks.py` is none."""


def names_used(recipe: Any, but: Sequence[Any] = ()) -> set[str]:
    """Return the names in the code of a recipe and of its module: what may still run, or was traced.

    Left out are `build` and `hooks`, which only make things, and `but`: functions, and objects with their classes.
    """
    hooks = [one.func if isinstance(one, partial) else one for one in but]
    apart = [getattr(one, "__func__", one) for one in hooks]
    known, kinds = {id(one) for one in apart}, [type(one) for one in apart]
    codes = [one.__code__ for one in _functions(recipe, but=kinds) if id(one) not in known]
    if build := _function(inspect.getattr_static(type(recipe), "build")):  # it may make a lambda that the step calls
        codes += [made for made in build.__code__.co_consts if isinstance(made, CodeType)]
    return set().union(*map(names_in, codes))


def _functions(recipe: Any, but: Sequence[type]) -> Iterator[FunctionType]:
    """Yield the functions of a recipe's classes, of its module, and of the project's modules that this one uses."""
    own = [kind for kind in type(recipe).__mro__ if is_of_project(kind.__module__)]
    for kind in own:
        made = ("__init__", "build", "hooks")
        yield from filter(None, (_function(item) for name, item in vars(kind).items() if name not in made))
    apart = {id(kind) for kind in (*own, *but)}
    for module in _used_by(sys.modules[type(recipe).__module__]):
        for value in list(vars(module).values()):
            is_class = isinstance(value, type) and id(value) not in apart and is_of_project(value.__module__)
            yield from filter(None, map(_function, vars(value).values() if is_class else [value]))


def _used_by(module: ModuleType) -> list[ModuleType]:
    """Return a module and those of the project that it uses, by name or by a function or class of theirs."""
    found: dict[str, ModuleType] = {}
    waiting = [module]
    while waiting:
        one = waiting.pop()
        found[one.__name__] = one
        for value in list(vars(one).values()):
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if isinstance(name, str) and name not in found and name in sys.modules and is_of_project(name):
                waiting.append(sys.modules[name])
    return list(found.values())


def _function(value: Any) -> FunctionType | None:
    """Return the function of the project behind a method or a property."""
    if isinstance(value, (classmethod, staticmethod)):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, cached_property):
        value = value.func
    elif isinstance(value, tf.types.experimental.PolymorphicFunction):
        value = value.python_function
    elif not isinstance(value, type) and isinstance(getattr(value, "__wrapped__", None), FunctionType):
        value = value.__wrapped__  # what `functools.lru_cache` makes
    is_own = isinstance(value, FunctionType) and is_of_project(value.__module__ or "")
    return (
        inspect.unwrap(value, stop=lambda one: not isinstance(vars(one).get("__wrapped__"), FunctionType))
        if is_own
        else None
    )


def names_in(code: CodeType) -> set[str]:
    """Return the names that a function's code uses, and that of functions inside of it."""
    inner = (names_in(part) for part in code.co_consts if isinstance(part, CodeType))
    return {*code.co_names}.union(*inner)


def is_foreign(module: str) -> bool:
    """Return whether a module belongs to a library, whose internals may change without the recipe's doing."""
    top = module.partition(".")[0]
    if top == "tapeline" or top in sys.stdlib_module_names - {"types", "__main__"}:
        return True
    if not module.startswith(_FOREIGN):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or own_modules.is_library(Path(file).resolve())


def is_foreign_function(value: Any) -> bool:
    """Return whether a value is a function of a library's."""
    return isinstance(value, FunctionType) and value.__module__ is not None and is_foreign(value.__module__)


def is_of_project(module: str) -> bool:
    """Return whether a module is the recipe's or another one of the project's: its file is in no library's folder."""
    if module.startswith(MODULE):
        return True
    file = None if is_foreign(module) else getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not own_modules.is_library(Path(file).resolve())
