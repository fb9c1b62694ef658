"""JSON that somebody else may have written or altered: whatever is wrong with it is one `ValueError` in one line.

Python's reader takes more than other programs do, and than the code behind it can use: numbers that are not finite,
text that has no UTF-8, nesting that ends in a `RecursionError`.
"""

import json
import math
import re
from typing import Any, NoReturn

from tapeline.runtime.errors import plain

DEEPEST = 100
"""Lists and mappings inside one another. Nothing of ours has ten."""
DIGITS = 300
"""Of a whole number: more do not fit a float."""
HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
"""Half of a character beyond 16 bits, which alone is none."""


class NotJson(ValueError):
    """Why a text is no JSON that can be used, in one line."""


def parsed(content: bytes | str, *, finite: bool = True) -> Any:
    """Return the value of a JSON text in UTF-8. Raises `NotJson`.

    finite: refuse NaN and infinities, which JSON has not and Python writes.
    """
    hooks: dict[str, Any] = {"parse_constant": _refuse, "parse_float": _float, "parse_int": _int} if finite else {}
    try:
        text = content.decode("utf-8-sig") if isinstance(content, bytes) else content
        value = json.loads(text, **hooks)
        if HALF_PAIR.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise NotJson(f"not UTF-8: {error.reason}") from None
    except RecursionError:
        raise NotJson(f"nested more than {DEEPEST} deep") from None
    except ValueError as error:
        raise NotJson(plain(str(error))) from None
    if text.count("[") + text.count("{") > DEEPEST and _depth(value) > DEEPEST:
        raise NotJson(f"nested more than {DEEPEST} deep")
    return value


def mapping(content: bytes | str, *, finite: bool = True) -> dict[str, Any]:
    """Return the value of a JSON text that is an object. Raises `NotJson`, for another value too."""
    value = parsed(content, finite=finite)
    if not isinstance(value, dict):
        raise NotJson("not an object")
    return value


def _refuse(word: str) -> NoReturn:
    raise NotJson(f"{word} is no number of JSON")


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
    """Return how deep a value is nested, as far as one level beyond what is allowed."""
    level, depth = [value], 0
    while level and depth <= DEEPEST + 1:
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [part for parts in inner for part in parts]
        depth += 1
    return depth - 1
