"""Write a value as YAML on one line, for a command or a generated file."""

import json
import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

WORDS = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
"""Words that YAML, of some version, does not read as strings."""
UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON leaves unescaped inside quotes, but YAML does not."""


def yaml_flow(value: Any) -> str:
    """Return a value as YAML on one line; strings are quoted only if needed.

    >>> yaml_flow({"a": [1, "b", "no"], "rate": float("inf")})
    '{a: [1, b, "no"], rate: .inf}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{yaml_flow(key)}: {yaml_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(yaml_flow, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, date):
        return value.isoformat()
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./]*", value) and value.lower() not in WORDS
    quoted = value if plain else json.dumps(value, ensure_ascii=False)
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", str(quoted))
