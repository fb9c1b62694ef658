"""A value in parsed YAML by a key such as `pipelines.digits.train`, as DVC writes those of `params.yaml`."""

from collections.abc import Iterator, Mapping
from typing import Any


def at(content: Any, key: str) -> Iterator[Any]:
    """Yield the value at a key, whose parts name entries of mappings and lists; nothing if there is none."""
    for part in key.split("."):
        if isinstance(content, Mapping) and part in content:
            content = content[part]
        elif isinstance(content, list) and part.isdecimal() and int(part) < len(content):
            content = content[int(part)]
        else:
            return
    yield content
