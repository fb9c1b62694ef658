"""Compare a recorded output with a rebuilt one: byte by byte, but for what older versions wrote into three files.

`run.json` listed the hashes of library files, and lists the libraries' versions and hashes of further inputs, which may
be a model of another form; `model.json` holds the same. `dataset.json` names the columns of a table. One version may
know settings that the other does not. They say with what a result was made, and decide nothing: what was made is
compared byte by byte, the dataset too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.repository.rebuilding import Cached, Out, byte_range
from tapeline.runtime import files

RECORDS = ("run.json", "model.json", "dataset.json")
"""They hold hashes of other files, which are named first where they differ."""
MADE_WITH = {"code", "data", "libraries", "needs", "weights"}


def difference(recorded: Out, rebuilt: Out, cache: Cached) -> str:
    """Return the first file and bytes that differ, or an empty string. Both are in the cache."""
    if recorded.md5 == rebuilt.md5:
        return ""
    one, other = (_files(out, cache) for out in (recorded, rebuilt))
    for name in sorted(one.keys() | other.keys(), key=lambda name: (Path(name).name in RECORDS, name)):
        label = f"{recorded.path}/{name}" if name else recorded.path
        if name not in one or name not in other:
            return f"{label} is only in the {'new' if name in other else 'recorded'} result"
        if not (one[name].exists() and other[name].exists()):
            return f"{label} differs, and one of the two is missing from the cache"
        contents = files.read_bytes(one[name]), files.read_bytes(other[name])
        if contents[0] != contents[1] and not _is_of_another_form(Path(label).name, *contents):
            return f"{label} differs: {byte_range(*contents)}"
    return ""


def _files(out: Out, cache: Cached) -> dict[str, Path]:
    return cache.listed(out) if out.md5.endswith(".dir") else {"": cache.place(out.md5)}


def _is_of_another_form(name: str, old: bytes, new: bytes) -> bool:
    """Return whether two contents say the same of a run or a model, but for what it was made with."""
    if name not in RECORDS:
        return False
    try:
        before, after = (json_text.mapping(content) for content in (old, new))
    except json_text.NotJson:
        return False
    return _common(before, after) == _common(after, before)


def _common(record: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record says that the other's version could say too."""
    kept = {key: value for key, value in record.items() if key not in MADE_WITH}
    for key, reduced in (("settings", _both), ("run", _common), ("dataset", _dataset), ("source", _both)):
        if isinstance(mine := kept.get(key), dict) and isinstance(theirs := other.get(key), dict):
            kept[key] = reduced(mine, theirs)
    return kept


def _dataset(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a dataset, whose own bytes are compared, too: its hash says no more."""
    return {key: value for key, value in _common(mine, theirs).items() if key != "sha256"}


def _both(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in mine.items() if name in theirs}
