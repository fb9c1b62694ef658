"""Names of a library that are not its API, and may be gone in its next version."""

import importlib
from importlib import metadata

import pytest


def hint(library: str, name: str) -> str:
    """Return what helps when a name of TensorFlow or Keras is gone."""
    return (
        f"{library} {metadata.version(library)} has no {name} any more: give its function in "
        f"src/tapeline/runtime/{library}_private.py another way, then raise the bound on {library} in pyproject.toml"
    )


def find(library: str, module: str, name: str) -> None:
    """Fail, with the hint, if a module or a name in it is not there."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        pytest.fail(hint(library, module))
    for part in name.split("."):
        assert hasattr(found, part), hint(library, f"{module}.{name}")
        found = getattr(found, part)
