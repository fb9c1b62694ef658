"""The one reader of `dvc.lock`: its stages, typed and validated.

lock = Lock.read(content, of="HEAD")
lock.stages["train@digits"].deps     # (Entry("data/digits", md5="....dir"), ...)

`tapeline prune` alone reads more: it looks for hashes in every version of the file, damaged ones too, so as to keep
what any of them may name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from tapeline.parsing import yaml_text
from tapeline.runtime.errors import InputError

LOCK = "dvc.lock"
MD5 = re.compile(r"[0-9a-f]{32}(\.dir)?")


@dataclass(frozen=True)
class Entry:
    """A dependency or an output of a stage."""

    path: str
    """As in the file: relative to the folder of `dvc.lock`."""
    md5: str | None
    """With `.dir` for a folder; not validated, see `Lock.md5`."""
    has_size: bool = True
    """Whether the entry says how many bytes it has, as every complete one does."""
    is_of_bytes: bool = True
    """Whether a file's MD5 is that of its bytes: DVC 2 took line ends of texts for one."""


@dataclass(frozen=True)
class Stage:
    """What one stage was made of, and what it made."""

    deps: tuple[Entry, ...] = ()
    outs: tuple[Entry, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """File → key → value."""

    def read_from(self, file: str) -> Mapping[str, Any]:
        """Return the parameters that the stage read from a file, by key."""
        return self.params.get(file, {})


@dataclass(frozen=True)
class Lock:
    """The stages by name, and whose lock it is, for messages: `HEAD`, `runs/brave-otter`."""

    stages: Mapping[str, Stage]
    name: str = ""

    @classmethod
    @lru_cache(maxsize=8)  # a command reads the same lock for several purposes, and a large one takes 70 ms
    def read(cls, content: bytes | str, *, of: str = "") -> "Lock":
        """Read a lock; an empty one has no stages. Raises `InputError` for one in conflict, truncated or altered."""
        check_merged(content, of=of)
        try:
            return cls.parsed(yaml_text.parsed(content), of=of)
        except ValueError as error:
            whose = f" of {of}" if of else ""
            raise InputError(
                f"{LOCK}{whose} was truncated or altered ({error}): `tapeline repair` restores the committed one"
            ) from None

    @classmethod
    def parsed(cls, tree: Any, *, of: str = "") -> "Lock":
        """Return the lock of parsed YAML. Raises `ValueError` with a short reason."""
        if tree is None:
            return cls({}, of)
        found: Any = tree.get("stages") if isinstance(tree, dict) else None
        if not isinstance(found, dict):
            raise ValueError("no stages")
        return cls({_name(name): _stage(entry, name) for name, entry in found.items()}, of)

    def outs(self) -> Iterator[Entry]:
        """Yield the outputs of all stages."""
        for stage in self.stages.values():
            yield from stage.outs

    def md5(self, entry: Entry) -> str:
        """Return an entry's MD5. Raises `InputError` if it is malformed, since it becomes a path in the cache."""
        if not MD5.fullmatch(str(entry.md5)):
            whose = f" of {self.name}" if self.name else ""
            raise InputError(f"{LOCK}{whose}: {entry.path} has {entry.md5!r}, which is not an MD5: it was altered")
        return str(entry.md5)


def in_conflict(content: bytes | str) -> bool:
    """Return whether Git could not merge the file, and has put the lines of both sides into it."""
    return bool(
        yaml_text.CONFLICT.search(content.decode("utf-8", "replace") if isinstance(content, bytes) else content)
    )


def check_merged(content: bytes | str, *, of: str = "") -> None:
    """Raise `InputError` if the file has a merge conflict inside."""
    if in_conflict(content):
        whose, remedy = (
            (f" of {of}", "commit it without the conflict")
            if of
            else ("", "`tapeline repair` merges it stage by stage")
        )
        raise InputError(f"{LOCK}{whose} has a Git merge conflict: {remedy}")


def entries(content: bytes | str) -> dict[str, dict[str, Any]]:
    """Return the stages as they are written, for who writes them back. Raises `InputError` as `Lock.read` does."""
    Lock.read(content)
    found: dict[str, dict[str, Any]] = (yaml_text.parsed(content) or {"stages": {}})["stages"]
    return found


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the stage {name} is not a mapping")
    return name


def _stage(entry: Any, name: str) -> Stage:
    if not isinstance(entry, dict):
        raise ValueError(f"the stage {name} is not a mapping")
    deps, outs = (_entries(entry.get(kind, []), f"{kind} of {name}") for kind in ("deps", "outs"))
    return Stage(deps, outs, _params(entry.get("params", {}), name))


def _entries(entries: Any, of: str) -> tuple[Entry, ...]:
    if not isinstance(entries, list):
        raise ValueError(f"{of} are not a list")
    return tuple(_entry(entry, of) for entry in entries)


def _entry(entry: Any, of: str) -> Entry:
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str) or "\0" in entry["path"]:
        raise ValueError(f"one of {of} has no path")
    return Entry(entry["path"], str(entry["md5"]) if "md5" in entry else None, "size" in entry, "hash" in entry)


def _params(params: Any, name: str) -> Mapping[str, Mapping[str, Any]]:
    nested = isinstance(params, Mapping) and all(isinstance(values, Mapping) for values in params.values())
    if not nested or not all(isinstance(key, str) for values in params.values() for key in values):
        raise ValueError(f"params of {name} are not values by key")
    return dict(params)
