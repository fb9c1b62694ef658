"""Parse untrusted JSON: any fault is one `ValueError` with a one-line message.

Python's parser accepts more than other programs do, and more than our code can use: non-finite numbers, text that
UTF-8 cannot encode, nesting that ends in a `RecursionError`, a key that appears twice in one object.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from tapeline.runtime.errors import plain

DEEPEST = 100
"""Levels of nested lists and mappings. None of our files has ten."""
DIGITS = 300
"""Digits of an integer: more do not fit in a float."""
HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a surrogate pair, which is not a character by itself."""


class NotJson(ValueError):
    """The one-line reason why a text is not usable JSON."""


def parsed(content: bytes | str, *, finite: bool = True) -> Any:
    """Return the value of a JSON text in UTF-8. Raises `NotJson`.

    finite: refuse NaN and infinities, which Python writes although JSON lacks them.
    """
    hooks: dict[str, Any] = {"object_pairs_hook": _distinct}
    if finite:
        hooks |= {"parse_constant": _refuse, "parse_float": _float, "parse_int": _int}
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        value = json.loads(text, **hooks)
        if HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise NotJson(f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise NotJson(f"nested more than {DEEPEST} levels deep") from None
    except ValueError as error:
        raise NotJson(plain(str(error))) from None
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        raise NotJson(f"nested more than {DEEPEST} levels deep")
    return value


def mapping(content: bytes | str, *, finite: bool = True) -> dict[str, Any]:
    """Return the value of a JSON text that is an object. Raises `NotJson`, also for any other value."""
    value = parsed(content, finite=finite)
    if not isinstance(value, dict):
        raise NotJson("not an object")
    return value


def as_json(value: Any) -> Any:
    """Return a structure of numbers with NaN and infinities, which JSON lacks, replaced by None."""
    if isinstance(value, Mapping):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise NotJson(f"key {plain(twice)[:40]!r} appears twice in one object")
    return value


def _refuse(word: str) -> NoReturn:
    raise NotJson(f"{word} is not a JSON number")


def _float(word: str) -> float:
    value = float(word)
    if math.isinf(value):
        raise NotJson(f"{word[:40]} is too large for a number")
    return value


def _int(word: str) -> int:
    if len(word) > DIGITS:
        raise NotJson(f"{word[:20]}... is too large for a number")
    return int(word)


def _depth(value: Any) -> int:
    """Return how deeply a value is nested, counting at most one level beyond the limit."""
    level, depth = [value], 0
    while level and depth <= DEEPEST + 1:
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [part for parts in inner for part in parts]
        depth += 1
    return depth - 1
