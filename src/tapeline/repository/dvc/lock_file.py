"""A `dvc.lock` as DVC checks and writes it."""

from collections.abc import Mapping
from typing import Any

from dvc.schema import COMPILED_LOCKFILE_SCHEMA
from dvc.utils.serialize import dumps_yaml
from voluptuous import Invalid


def is_lock(tree: Any) -> bool:
    """Return whether parsed YAML has the schema of a `dvc.lock`."""
    try:
        COMPILED_LOCKFILE_SCHEMA(tree)
    except Invalid:
        return False
    return True


def lock_text(content: Mapping[str, Any]) -> str:
    """Return the text that DVC would write for the content of a `dvc.lock`."""
    return str(dumps_yaml(content))
