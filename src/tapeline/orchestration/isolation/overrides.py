"""Write a run's overrides into a `params.yaml`, keeping its comments and order."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tapeline.config.project import PARAMS
from tapeline.parsing import yaml_text
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def override(folder: Path, pipeline: str, overrides: Mapping[str, Any]) -> None:
    """Set each `section.key` of a pipeline in `folder/params.yaml`; without overrides, the file is not touched.

    Raises `InputError` if there is no such pipeline, or if a key leads through something that is not a mapping.
    The values are not checked here.
    """
    if not overrides:
        return
    path = folder / PARAMS
    text = files.read_bytes(path)
    wanted = _applied(yaml_text.parsed, text, pipeline, overrides, apart=True)
    written = _with_comments(text, pipeline, overrides)
    if not _says(written, wanted):  # an anchor shares a part with another pipeline, or text needs quotes
        written = _dumped(YAML(typ="safe"), wanted)
    if not _says(written, wanted):
        raise InputError(f"overrides {', '.join(overrides)}: one of the values cannot be written to {PARAMS}")
    files.write_text(path, written)


def _with_comments(text: bytes, pipeline: str, overrides: Mapping[str, Any]) -> str:
    """Return the file with the overrides and its comments; an empty string if ruamel cannot read the file."""
    readable = YAML()
    readable.preserve_quotes = True
    readable.width = 4096
    try:
        return _dumped(readable, _applied(readable.load, text, pipeline, overrides))
    except Exception:  # not libyaml's parser: some comments make it fail with arbitrary exceptions
        return ""


def _says(text: str, wanted: Any) -> bool:
    """Return whether a YAML text has this value; NaN equals NaN here."""
    try:
        return bool(_comparable(yaml_text.parsed(text)) == _comparable(wanted))
    except yaml_text.NotYaml:
        return False


def _comparable(value: Any) -> Any:
    """Return a value with NaN replaced, which does not equal itself."""
    if isinstance(value, dict):
        return {key: _comparable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_comparable(inner) for inner in value]
    return "NaN" if value != value else value


def _applied(
    load: Callable[[bytes], Any], text: bytes, pipeline: str, overrides: Mapping[str, Any], *, apart: bool = False
) -> Any:
    """Return the content with the overrides; `apart` makes the pipeline share nothing with another one."""
    try:
        content = load(text)
        entry = content["pipelines"][pipeline]
    except (yaml_text.NotYaml, KeyError, TypeError):
        raise InputError(f"no pipeline {pipeline!r} in {PARAMS} at this ref") from None
    if apart:
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
