"""Load and build a recipe from its file, and trace an error in it to the line where it happened."""

import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

import keras
import pydantic
import tensorflow as tf

from tapeline.config.hyperparameters import RecipeParams
from tapeline.config.mistakes import mistakes_in
from tapeline.dataset.columns import Feature
from tapeline.dataset.statistics import TrainStatistics
from tapeline.recipe import global_settings
from tapeline.recipe.contract import SET_BY_ENGINE, Recipe
from tapeline.runtime import files, keras_private, own_modules, tensorflow_files, tensorflow_private
from tapeline.runtime.errors import InputError, RunError, TapelineError, graph_reason

MODULE = "tapeline_recipe_"
"""How the name of a recipe's module begins."""
_INTERNAL = sorted(name for name in vars(Recipe) if name.startswith("_") and not name.startswith(("__", "_abc_")))
"""What `Recipe` has for itself."""


def load(path: Path) -> type[Recipe]:
    """Return the one concrete `Recipe` that a file defines.

    Raises `InputError` if the file fails to run, or defines none or several.
    """
    name = f"{MODULE}{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"recipe {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    own_modules.use(path)
    files.refuse_pointer(path)
    registered = tensorflow_private.registered_anew(name)
    with global_settings.unchanged(path), blaming(path, InputError, "does not load"), registered:
        try:
            spec.loader.exec_module(module)
        except ImportError as error:
            if "relative import" not in str(error):
                raise
            known = "write `import helper` for a helper.py beside it, `from package import helper` for a package's"
            raise InputError(f"recipe {path}: {error}: {known}") from error
    kinds = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Recipe)]
    found = [*dict.fromkeys(kind for kind in kinds if kind.__module__ == name)]  # one may have two names
    if len(found) != 1:
        names = ", ".join(recipe.__name__ for recipe in found) or "none"
        raise InputError(
            f"recipe {path} must define exactly one class derived from Recipe or Supervised, but defines {names}"
        )
    if abstract := sorted(getattr(found[0], "__abstractmethods__", ())):
        raise InputError(f"recipe {path}: {found[0].__name__} lacks {', '.join(abstract)}")
    own = {name for kind in found[0].__mro__ if kind not in Recipe.__mro__ for name in vars(kind)}
    if taken := [name for name in (*SET_BY_ENGINE, *_INTERNAL) if name in own]:
        raise InputError(
            f"recipe {path}: {found[0].__name__} defines {taken[0]}, which every recipe has from Tapeline: rename it"
        )
    if not (isinstance(found[0].Params, type) and issubclass(found[0].Params, RecipeParams)):
        raise InputError(f"recipe {path}: {found[0].__name__}.Params must derive from RecipeParams of tapeline.recipe")
    _check_arguments(path, found[0])
    return found[0]


def _check_arguments(path: Path, kind: type[Recipe]) -> None:
    """Raise `InputError` for a method that cannot be called as the one of Tapeline's that it overrides."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("tapeline.recipe.")]
    for name in dict.fromkeys(name for base in ours for name in vars(base)):
        own = inspect.getattr_static(kind, name)
        theirs = next(vars(base)[name] for base in ours if name in vars(base))
        if not (isinstance(own, FunctionType) and isinstance(theirs, FunctionType)) or own is theirs:
            continue
        asked = inspect.signature(theirs).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in asked):
            continue
        by_place = [one.name for one in asked if one.kind is one.POSITIONAL_OR_KEYWORD]
        by_name = [one.name for one in asked if one.kind is one.KEYWORD_ONLY]
        try:
            inspect.signature(own).bind(*by_place, **dict.fromkeys(by_name))
        except TypeError:
            takes, given = (", ".join(inspect.signature(one).parameters) for one in (theirs, own))
            raise InputError(
                f"recipe {path}, line {own.__code__.co_firstlineno}: {kind.__name__}.{name} must take ({takes}), but "
                f"takes ({given})"
            ) from None


def build(
    path: Path,
    params: Mapping[str, Any],
    features: Mapping[str, Feature],
    *,
    statistics: TrainStatistics | None = None,
    seed: int = 0,
    precision: str = "float32",
) -> Recipe:
    """Return a recipe with its models and optimizers created; the same initial weights for the same seed.

    statistics: of the train split, for a recipe that uses them.
    Sets the global seeds of Python, NumPy and TensorFlow, and resets Keras' state and name counters.
    """
    kind = load(path)
    try:
        # Through JSON, as `params.yaml` is checked: lists are then accepted as tuples, and strings as integer keys.
        typed = kind.Params.model_validate_json(json.dumps(dict(params), default=str))
    except pydantic.ValidationError as error:
        first = mistakes_in(error, dict(params))[0]
        raise InputError(first.told(f"params of recipe {path}: ")) from None
    keras_private.no_masks_in_inference()
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(precision)
    try:
        with global_settings.unchanged(path), blaming(path, InputError, "does not build"):
            recipe = kind(typed, dict(features), statistics)  # a copy: a recipe may change it
            recipe.build()
    finally:
        keras.config.set_dtype_policy(before)
    return recipe


_BOLD = re.compile(r"\x1b\[[0-9;]*m")
_TOO_LARGE = re.compile(r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+)")
_IN_PREPARE = re.compile(
    r"(\{\{function_node [^}]*\}\} )?Error in user-defined function passed to \S+ transformation with iterator: \S+: "
)
"""How tf.data, which calls `prepare`, begins an error in it."""
_KERAS = re.compile(r"Exception encountered when calling [^\n]*\n(.*?)(?:\n\s*Arguments received by|\Z)", re.DOTALL)
"""How Keras wraps an error in a layer: a sentence, the reason, the arguments."""


@contextmanager
def blaming(path: Path, kind: type[TapelineError], what: str, *, features: Collection[str] = ()) -> Iterator[None]:
    """Turn any exception into a one-line message that names the line in the recipe.

    features: what a batch has, named when a key is missing.
    """
    try:
        with tensorflow_files.disk_errors():
            yield
    except TapelineError as error:
        raise _as_raised(error) from None
    except SystemExit as error:
        raise kind(f"recipe {path}{_at(path, error)} {what}: it calls sys.exit({error.code!r})") from error
    except OSError as error:
        if error.errno in files.DISK_ERRORS:
            raise
        raise kind(f"recipe {path} {what}: {_describe(error)}") from error
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        raise RunError(f"recipe {path}{_at(path, error)} {what}: out of memory{_tensor(error)}") from error
    except Exception as error:
        what = "fails in prepare" if _IN_PREPARE.match(str(error)) else what
        known = f"; a batch has {', '.join(sorted(features))}" if features and isinstance(error, KeyError) else ""
        raise kind(f"recipe {path}{_at(path, error)} {what}: {_describe(error)}{known}") from error


def _as_raised(error: BaseException) -> BaseException:
    """Return our exception as it was raised: AutoGraph adds a stack trace to its message, a Keras layer its call."""
    while str(error).startswith("in user code:") and type(error.__context__) is type(error):
        error = error.__context__
    if wrapped := _KERAS.match(_BOLD.sub("", str(error.args[0]) if error.args else "")):
        error.args = (wrapped[1].strip(),)
    return error


def _at(path: Path, error: BaseException) -> str:
    """Return `, line 7` of an error in `path`; nothing of one whose line is unknown."""
    line = _line_in(path, error)
    return f", line {line}" if line else ""


def _tensor(error: BaseException) -> str:
    """Return which tensor did not fit in memory, or the first line of the error."""
    if found := _TOO_LARGE.search(str(error)):
        return f": no room for a tensor of shape ({found[1].replace(',', ', ')}) and type {found[2]}"
    return f": {_first_line(str(error)) or type(error).__name__}"


def _line_in(path: Path, error: BaseException) -> int | None:
    """Return the innermost line of `path` in the error's traceback, or in the one AutoGraph put into its message."""
    if isinstance(error, SyntaxError):
        return error.lineno
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    written = re.findall(rf'File "{re.escape(str(path))}", line (\d+)', str(error))
    lines = [int(number) for number in written] or [line for line in own if line]
    return lines[-1] if lines else None


def _describe(error: BaseException) -> str:
    """Return the exception's type and the line of its message that states the cause."""
    text = _BOLD.sub("", str(error))
    if in_prepare := _IN_PREPARE.match(text):
        text = text[in_prepare.end() :]
        if re.match(r"[A-Za-z.]*(Error|Exception): ", text):  # Python's own, of a tf.numpy_function
            return _first_line(text)
    if keras_reason := _KERAS.search(text):
        text = keras_reason[1].strip()
    if text.startswith("in user code:"):
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        named = [line for line in lines if re.match(r"[A-Za-z.]*(Error|Exception)\b", line)]
        return named[-1] if named else lines[-1]
    if keras_reason:
        return f"{type(error).__name__}: {' '.join(text.split())}"
    if text.startswith("Graph execution error"):
        return f"{type(error).__name__}: {graph_reason(text)}"
    return f"{type(error).__name__}: {_first_line(text) or type(error).__name__}"


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")
