"""Write a run's overrides into a `params.yaml`, whose comments and order stay."""

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
    """Set each `section.key` of a pipeline in `folder/params.yaml`; no override leaves the file's bytes as they are.

    Raises `InputError` where there is no such pipeline, or where a key leads through something that is no mapping.
    The values are not checked here.
    """
    if not overrides:
        return
    path = folder / PARAMS
    text = files.read_bytes(path)
    wanted = _applied(yaml_text.parsed, text, pipeline, overrides, apart=True)
    written = _with_comments(text, pipeline, overrides)
    if not _says(written, wanted):  # the pipeline shares a part with another one by an anchor, or text needs quotes
        written = _dumped(YAML(typ="safe"), wanted)
    if not _says(written, wanted):
        raise InputError(f"overrides {', '.join(overrides)}: a value cannot be written into {PARAMS}")
    files.write_text(path, written)


def _with_comments(text: bytes, pipeline: str, overrides: Mapping[str, Any]) -> str:
    """Return the file with the overrides and its comments; nothing for one that ruamel's own reader does not take."""
    readable = YAML()
    readable.preserve_quotes = True
    readable.width = 4096
    try:
        return _dumped(readable, _applied(readable.load, text, pipeline, overrides))
    except Exception:  # it is another reader than libyaml, and fails at some comments as any code
        return ""


def _says(text: str, wanted: Any) -> bool:
    """Return whether a YAML text has this value; NaN is NaN here."""
    try:
        return bool(_comparable(yaml_text.parsed(text)) == _comparable(wanted))
    except yaml_text.NotYaml:
        return False


def _comparable(value: Any) -> Any:
    """Return a value that equals itself: no NaN does."""
    if isinstance(value, dict):
        return {key: _comparable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_comparable(inner) for inner in value]
    return "NaN" if value != value else value


def _applied(
    load: Callable[[bytes], Any], text: bytes, pipeline: str, overrides: Mapping[str, Any], *, apart: bool = False
) -> Any:
    """Return the content with the overrides; apart: whether the pipeline is made to share nothing with another one."""
    try:
        content = load(text)
        entry = content["pipelines"][pipeline]
    except (yaml_text.NotYaml, KeyError, TypeError):
        raise InputError(f"no pipeline {pipeline!r} in {PARAMS} of this ref") from None
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
