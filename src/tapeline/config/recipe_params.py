"""Check a recipe's hyperparameters without running the recipe, which would import TensorFlow (seconds).

A recipe declares them as a nested class `Params`. Only that class is extracted from the source and executed. It
may use `pydantic`, `typing`, and `RecipeParams` and `field` of `tapeline.recipe`; if it uses more, the check is
deferred until the recipe is imported.
"""

import ast
import typing
from importlib.util import decode_source
from pathlib import Path
from typing import Any

import pydantic

from tapeline.config.hyperparameters import RecipeParams, field
from tapeline.runtime import code, files
from tapeline.runtime.errors import InputError


def declared_params(path: Path) -> type[RecipeParams] | None:
    """Return the `Params` that the recipe file declares; plain `RecipeParams` if it declares none.

    `None` if the class uses names that only running the whole file would define. Raises `InputError` for a
    file that is missing or is not Python.
    """
    if path.suffix == ".ipynb":  # JSON, which Python can parse
        raise InputError(f"recipe {path} is a notebook: move the recipe's class to a .py file")
    try:
        with code.naming(path):
            tree = ast.parse(decode_source(files.read_bytes(path)))
    except FileNotFoundError:
        raise InputError(f"recipe {path} does not exist{_nearby(path)}") from None
    except IsADirectoryError:
        raise InputError(f"recipe {path} is not a Python file") from None
    except InputError as error:
        raise InputError(f"recipe {error}") from None
    nested = [
        node
        for outer in tree.body
        if isinstance(outer, ast.ClassDef)
        for node in outer.body
        if isinstance(node, ast.ClassDef) and node.name == "Params"
    ]
    if not nested:
        return RecipeParams
    names: dict[str, Any] = {**vars(typing), **vars(pydantic), "RecipeParams": RecipeParams, "field": field}
    names |= {"typing": typing, "pydantic": pydantic, "__name__": "tapeline.declared"}
    try:
        exec(compile(ast.Module([nested[0]], []), str(path), "exec"), names)
    except NameError:
        return None
    except Exception as error:  # the class is the user's own code
        raise InputError(f"recipe {path}, line {nested[0].lineno}: Params: {type(error).__name__}: {error}") from None
    declared: type[RecipeParams] = names["Params"]
    return declared


def _nearby(path: Path) -> str:
    known = sorted(file.name for file in path.parent.glob("*.py") if file.name != "__init__.py")
    return f"; {path.parent} has {', '.join(known)}" if known else ""
