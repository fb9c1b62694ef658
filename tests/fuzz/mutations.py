"""Valid files with mutated parts, as Hypothesis draws them: of a structure, and of bytes."""

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

DEEP: Any = json.loads("[" * 150 + "]" * 150)
EDGES = [
    None, True, False, 0, 1, -1, 2, 255, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, 1e-320,
    float("inf"), float("-inf"), float("nan"), "", " ", "a", "a\nb", "\x1b[2J", "\0", "\ud800", "é", "../x", "/etc/passwd",
    "9" * 400, "2001-13-45", "NaN", "float32", "object", "int64", "S5", "[('a','<i4')]", "a" * 10_000, "{}", "%s", "\u2028",
    [], {}, [[]], [None], {"": None}, {"a": {"a": 1}}, [1, "a"], [-1], [2**70], DEEP,
]  # fmt: skip
VALUES = st.sampled_from(EDGES) | st.integers() | st.floats() | st.text(max_size=20)
ACTIONS = st.sampled_from(["replace", "replace", "replace", "remove", "rename", "copy", "wrap", "add"])
STEPS = st.lists(st.tuples(st.integers(0, 10_000), ACTIONS, VALUES), min_size=1, max_size=4)


def trees(valid: Sequence[Any]) -> st.SearchStrategy[Any]:
    """Return values of JSON's kinds that differ from a valid one in a few places."""
    return st.builds(_mutated, st.sampled_from(list(valid)), STEPS)


def json_files(valid: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """Return JSON texts of `trees`, and `mangled` ones."""
    texts = [json.dumps(tree).encode() for tree in valid]
    return trees(valid).map(lambda tree: json.dumps(tree).encode()) | mangled(texts, JSON_WORDS)


def _mutated(valid: Any, steps: Sequence[tuple[int, str, Any]]) -> Any:
    tree = [copy.deepcopy(valid)]
    for number, action, value in steps:
        places = list(_places(tree))
        parent, key = places[number % len(places)]
        _change(parent, key, action, copy.deepcopy(value))
    return tree[0] if tree else None


def _places(tree: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list) and depth < 20:
            yield from _places(tree[key], depth + 1)


def _change(parent: Any, key: Any, action: str, value: Any) -> None:
    inner = parent[key]
    if action == "remove" and isinstance(parent, dict):
        del parent[key]
    elif action == "rename" and isinstance(parent, dict):
        parent[value if isinstance(value, str) else str(value)[:50]] = parent.pop(key)
    elif action == "copy" and isinstance(parent, list):
        parent.insert(key, copy.deepcopy(inner))
    elif action == "wrap":
        parent[key] = [inner]
    elif action == "add" and isinstance(inner, dict):
        inner["more"] = value
    elif action == "add" and isinstance(inner, list):
        inner.append(value)
    else:
        parent[key] = value


BYTES = [b"", b"\0", b"\xff", b"\xff" * 8, b"\0" * 64, b"\n", b"\r\n", b'"', b"\xc3", b"\x1b[2J", b"\x80\0\0\0", b"\x7f\xff\xff\xff"]  # fmt: skip
JSON_WORDS = [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"[" * 3000, b'{"a":' * 200, b"\\ud800", b"null", b"9" * 5000, b"{}", b"[]", b","]  # fmt: skip
YAML_WORDS = [
    b"&a ", b"*a", b"&x [*x]", b"<<: *a\n", b"? [1]\n: 2\n", b"!!binary aGk=", b"!!set {a}", b"!!omap [a: 1]", b"!!python/object:os.system x",
    b"!!float x", b"!!timestamp x", b"2001-13-45", b"2001-01-01: 1\n", b".nan", b".inf", b"0x" + b"f" * 5000, b"1" * 5000, b"- ", b"- " * 300,
    b"[" * 300, b"{a: " * 300, b"\t", b"---\n", b"...\n", b"%YAML 9.9\n", b"|\n", b">-\n", b"null", b"~", b"''", b"\xe4\n", b"\xef\xbb\xbf",
    b"x: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n", b"1: 2\n", b"null: 2\n", b"true: 2\n", b"{}", b"[]", b"\\ud800", b'"\\0"', b'"\\e[2J"', b"1_000",
]  # fmt: skip
KINDS = st.sampled_from(["put", "put", "over", "cut", "drop", "double", "flip", "line"])
PLACES = st.floats(0, 1, allow_nan=False)


def mangled(valid: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Return valid contents with some bytes changed, put in, taken out; words: what to put in besides bytes."""
    payloads = st.sampled_from([*BYTES, *words]) | st.binary(max_size=12)
    steps = st.lists(st.tuples(KINDS, PLACES, payloads, st.integers(1, 64)), min_size=1, max_size=5)
    return st.builds(_mangled, st.sampled_from(list(valid)), steps)


def _mangled(content: bytes, steps: Sequence[tuple[str, float, bytes, int]]) -> bytes:
    for kind, part, payload, count in steps:
        at = int(part * len(content))
        if kind == "line":  # behind the end of a line, where text files have their structure
            at = content.find(b"\n", at) + 1
        if kind in ("put", "line"):
            content = content[:at] + payload + content[at:]
        elif kind == "over":
            content = content[:at] + payload + content[at + len(payload) :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[at + count :]
        elif kind == "double":
            content = content[: at + count] + content[at:]
        elif at < len(content):
            content = content[:at] + bytes([content[at] ^ (1 << count % 8)]) + content[at + 1 :]
    return content
