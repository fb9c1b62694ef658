"""The stages of a `dvc.lock`, validated on reading; every reader of the file goes through here."""

import re
from collections.abc import Mapping
from typing import Any

from tapeline.parsing import yaml_text

LOCK = "dvc.lock"
MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")


def stages(content: bytes | str) -> dict[str, dict[str, Any]]:
    """Return the entries by stage name. Raises `ValueError` with a short reason.

    An empty file has no stages. An entry has `deps` and `outs`, lists of entries with a `path` and perhaps an `md5`,
    and `params`, by file and key. An `md5` is validated only where it becomes a path.
    """
    lock = yaml_text.parsed(content)
    if lock is None:
        return {}
    found: Any = lock.get("stages") if isinstance(lock, dict) else None
    if not isinstance(found, dict):
        raise ValueError("no stages")
    for name, stage in found.items():
        if not isinstance(name, str) or not isinstance(stage, dict):
            raise ValueError(f"the stage {name} is not a mapping")
        for kind in ("deps", "outs"):
            _check_entries(stage.get(kind, []), f"{kind} of {name}")
        _check_params(stage.get("params", {}), name)
    return dict(found)


def _check_entries(entries: Any, of: str) -> None:
    if not isinstance(entries, list):
        raise ValueError(f"{of} are no list")
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str) or "\0" in entry["path"]:
            raise ValueError(f"one of {of} has no path")


def _check_params(params: Any, name: str) -> None:
    keys = [key for values in params.values() for key in values] if _is_nested(params) else [None]
    if not all(isinstance(key, str) for key in keys):
        raise ValueError(f"params of {name} are no values by their key")


def _is_nested(params: Any) -> bool:
    return isinstance(params, Mapping) and all(isinstance(values, Mapping) for values in params.values())
