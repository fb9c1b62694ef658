"""Parse untrusted YAML: any fault is one `ValueError` with a one-line message, raised early.

The text is scanned before any value is created, so that aliases cannot expand a few hundred bytes to gigabytes.
"""

import itertools
import re
from collections.abc import Iterable
from datetime import date
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, ScalarEvent

from tapeline.runtime.errors import plain

DEEPEST = 100
"""Levels of nested lists and mappings. None of our files has ten."""
MOST = 1_000_000
"""Values, counting each repetition by an alias. The largest `dvc.lock` of the gallery has a hundredth of this."""
LARGEST = 10**300
"""Larger integers do not fit in a float, and are too long to print."""

CONFLICT = re.compile(r"^<<<<<<< ", re.MULTILINE)
"""What Git writes into a file that it could not merge."""

PYTHON = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, AssertionError)
"""What a constructor raises for an invalid value: a thirteenth month, text that is not base 64, a key twice."""


class NotYaml(ValueError):
    """The one-line reason why a text is not usable YAML."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(plain(reason))
        self.where = f", line {line}" if line else ""
        """To append to the file's name."""


def parsed(content: bytes | str) -> Any:
    """Return the value of a YAML text in UTF-8: mappings, lists, text, numbers, dates. Raises `NotYaml`."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        _check_size(YAML(typ="safe").parse(text))
        value = _reader().load(text)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise NotYaml(f"not UTF-8: {error.reason}", line) from None
    except YAMLError as error:
        if conflict := CONFLICT.search(text):
            raise NotYaml("an unresolved merge conflict", text.count("\n", 0, conflict.start()) + 1) from None
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or next(iter(str(error).splitlines()), "")
        if mark and text[mark.index : mark.index + 1] == "\t":
            reason = "a tab: indent with spaces"
        raise NotYaml(reason, mark.line + 1 if mark else None) from None
    except PYTHON as error:
        raise (
            error if isinstance(error, NotYaml) else NotYaml(str(error) or "a value is not what its tag says")
        ) from None
    _check_kinds(value)
    return value


def parsed_or_none(content: bytes | str) -> Any:
    """Return the value of a YAML text; None if it is not YAML."""
    try:
        return parsed(content)
    except NotYaml:
        return None


def _reader() -> YAML:
    yaml = YAML(typ="safe")
    yaml.Constructor = _Constructor
    return yaml


class _Constructor(SafeConstructor):
    """Reports the line of an invalid value."""

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except YAMLError:
            raise
        except PYTHON as error:
            shown = repr(node.value)[:60] if isinstance(node.value, str) else node.tag
            raise ConstructorError(None, None, f"{shown}: {error}", node.start_mark) from None


def _check_size(events: Iterable[Any]) -> None:
    """Raise `NotYaml` for a text that is nested too deeply, or has too many values once aliases are expanded."""
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    count = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, AliasEvent):
            if any(anchor == event.anchor for anchor, _ in opened):
                raise NotYaml(f"the alias *{event.anchor} is inside what it stands for", line)
            count += sizes.get(event.anchor, 1)
        elif isinstance(event, CollectionStartEvent):
            opened.append((event.anchor, count))
            count += 1
        elif isinstance(event, CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = count - before
        elif isinstance(event, ScalarEvent):
            count += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if len(opened) > DEEPEST:
            raise NotYaml(f"nested more than {DEEPEST} levels deep", line)
        if count > MOST:
            raise NotYaml(f"more than {MOST:,} values, counting repeated aliases each time", line)


def _check_kinds(value: Any) -> None:
    """Raise `NotYaml` for values without a JSON equivalent: bytes, sets, list keys, text that UTF-8 cannot encode."""
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) in (dict, list):
            if id(one) not in seen:
                seen.add(id(one))
                waiting += itertools.chain(*one.items()) if isinstance(one, dict) else one
                if isinstance(one, dict) and any(isinstance(key, date) for key in one):
                    raise NotYaml("a date cannot be a key: put it in quotes")
        elif isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError:
                raise NotYaml(f"{one[:60]!a} is not UTF-8 text") from None
        elif isinstance(one, int) and abs(one) >= LARGEST:
            raise NotYaml("a whole number has more than 300 digits")
        elif not (one is None or isinstance(one, int | float | date)):
            raise NotYaml(
                f"{type(one).__name__} is not a supported kind of value: use text, numbers, lists and mappings"
            )
