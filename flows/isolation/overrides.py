"""Write a run's overrides into a `params.yaml`, whose comments and order stay."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tapeline import files
from tapeline.errors import InputError
from tapeline.project import PARAMS


def override(folder: Path, pipeline: str, overrides: Mapping[str, Any]) -> None:
    """Set each `section.key` of a pipeline in `folder/params.yaml`; no override leaves the file's bytes as they are.

    Raises `InputError` where there is no such pipeline, or where a key leads through something that is no mapping.
    The values are not checked here.
    """
    if not overrides:
        return
    path = folder / PARAMS
    text = path.read_text(encoding="utf-8")
    wanted = _applied(YAML(typ="safe"), text, pipeline, overrides)
    readable = YAML()
    readable.preserve_quotes = True
    readable.width = 4096
    written = _dumped(readable, _applied(readable, text, pipeline, overrides))
    if YAML(typ="safe").load(written) != wanted:  # the pipeline shares a part with another one by an anchor
        written = _dumped(YAML(typ="safe"), wanted)
    files.write_text(path, written)


def _applied(yaml: YAML, text: str, pipeline: str, overrides: Mapping[str, Any]) -> Any:
    try:
        content = yaml.load(text)
        entry = content["pipelines"][pipeline]
    except (YAMLError, KeyError, TypeError):
        raise InputError(f"no pipeline {pipeline!r} in {PARAMS} of this ref") from None
    if yaml.typ == ["safe"]:
        entry = content["pipelines"][pipeline] = _copy(entry)
    for key, value in overrides.items():
        *path, last = key.split(".")
        inner = entry
        for part in path:
            inner = inner.setdefault(part, {}) if isinstance(inner, dict) else inner
        if not isinstance(inner, dict):
            raise InputError(f"overrides.{key}: pipelines.{pipeline}.{'.'.join(path)} is {inner!r}, which has no keys")
        inner[last] = value
    return content


def _copy(value: Any) -> Any:
    """Return a copy in which nothing is shared with another entry."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _dumped(yaml: YAML, content: Any) -> str:
    stream = io.StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()
