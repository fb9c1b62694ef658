"""Translate pydantic's validation errors into the terms of the settings file."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

_RULES = {
    "missing": "is missing",
    "extra_forbidden": "no such setting",
    "list_type": "be a list",
    "tuple_type": "be a list",
    "dict_type": "be a mapping",
    "model_type": "be a mapping",
    "model_attributes_type": "be a mapping",
    "bool_type": "be true or false",
}
_SHOULD = re.compile(r"\w+ should (.+?)(?:, unable .*)?")
_LENGTHS = {"too_short": "at least {min_length}", "too_long": "at most {max_length}"}
_PATTERNS: dict[str, str] = {}
"""Pattern → its rule in words."""
_WHOLE = ("missing", "extra_forbidden", "value_error", "assertion_error")
"""Kinds whose rule is the whole message: the value is not repeated."""

_LONGEST = 60
"""Characters of a value to show."""


def pattern(text: str, rule: str) -> str:
    """Return a pattern for pydantic's `Field`. rule: what a mistake then says that a value must do."""
    _PATTERNS[text] = rule
    return text


@dataclass(frozen=True)
class Mistake:
    """One invalid value: its place, pydantic's error type, the value, and the rule it breaks.

    location: the place as pydantic reports it, including the names of its types.
    """

    location: tuple[int | str, ...]
    place: tuple[str, ...]
    kind: str
    value: Any
    rule: str

    def told(self, where: str) -> str:
        """Return the message. where: the text before the place, including the separator."""
        key = f"{where}{'.'.join(self.place)}" if self.place else where.rstrip(".: ")
        if self.kind == "missing":
            return f"{key} {self.rule}"
        if self.kind in _WHOLE:
            return f"{key}: {self.rule}"
        given = json.dumps(self.value, default=str, ensure_ascii=False)
        return f"{key} is {given if len(given) <= _LONGEST else given[:_LONGEST] + '...'}: must {self.rule}"


def mistakes_in(error: ValidationError, content: Any) -> list[Mistake]:
    """Return the mistakes in `content`, one for each place; unknown names first, because they explain missing ones.

    For a value that may be one of several types, report what is wrong inside it, or else that it matches none of them.
    """
    known = json.loads(json.dumps(content, default=str))
    every = [_mistake(part, known) for part in error.errors(include_url=False)]
    deepest = [one for one in every if not any(_is_inside(other, one) for other in every)]
    by_place: dict[tuple[str, ...], list[Mistake]] = {}
    for one in deepest:
        by_place.setdefault(one.place, []).append(one)
    mistakes = [_any_of(same) for same in by_place.values()]
    return sorted(mistakes, key=lambda mistake: mistake.kind != "extra_forbidden")


def _is_inside(one: Mistake, other: Mistake) -> bool:
    return len(one.place) > len(other.place) and one.place[: len(other.place)] == other.place


def _any_of(same: Sequence[Mistake]) -> Mistake:
    first = same[0]
    rules = dict.fromkeys(one.rule for one in same)
    return replace(first, rule=" or ".join(rules).replace(" or be ", " or "))


def _mistake(part: Mapping[str, Any], content: Any) -> Mistake:
    kind, place = str(part["type"]), _place(part["loc"], content, str(part["type"]))
    if kind in ("union_tag_invalid", "union_tag_not_found"):  # the discriminator is wrong or missing
        context = part["ctx"]
        place = (*place, context["discriminator"].strip("'"))
        if kind == "union_tag_not_found":
            return Mistake(part["loc"], place, "missing", None, _RULES["missing"])
        return Mistake(part["loc"], place, kind, context["tag"], f"be one of {context['expected_tags']}")
    return Mistake(part["loc"], place, kind, part["input"], _rule(kind, part))


def _place(location: Sequence[int | str], content: Any, kind: str) -> tuple[str, ...]:
    """Return the keys and indices of a location, without pydantic's type names."""
    place = []
    for part in location:
        if isinstance(content, Mapping) and str(part) in (keys := {str(key): key for key in content}):
            content = content[keys[str(part)]]
        elif isinstance(content, (list, tuple)) and isinstance(part, int) and part < len(content):
            content = content[part]
        elif not (kind == "missing" and part == location[-1]):
            continue
        place.append(str(part))
    return tuple(place)


def _rule(kind: str, part: Mapping[str, Any]) -> str:
    if kind in _LENGTHS:
        count = _LENGTHS[kind].format(**part["ctx"])
        return f"have {count} {'entry' if count.endswith(' 1') else 'entries'}"
    if kind == "string_pattern_mismatch" and part["ctx"]["pattern"] in _PATTERNS:
        return _PATTERNS[part["ctx"]["pattern"]]
    message = str(part["msg"]).partition("\n")[0]
    if kind in ("value_error", "assertion_error"):
        return message.partition(", ")[2]
    said = _SHOULD.fullmatch(message)
    return _RULES.get(kind) or (said[1] if said else f"be otherwise: {message}")
