"""The serving folder in TensorFlow Serving's layout: `serving/<name>/<integer>/`; the highest integer is live.

The folder is derived from the tags, by `promote`, `rollback`, `revoke` and `sync` alone. Integers only grow, and the
second-highest stays, so that a process that is still reading it can finish.
"""

import os
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.registry.store import Store, has_sums
from tapeline.repository import objects
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

INDEX = "version.json"
SAVED_MODEL = "saved_model/"
KEPT = 2
"""How many integers are kept: the live one and the previous one."""
LAST = ".{}.last"
"""The file beside the folder with the highest integer that was removed: who has seen it would not read it again."""
HIGHEST = 2**63 - 1
"""TensorFlow Serving reads names as 64-bit integers, and ignores others."""


class Serving:
    """One model's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def _mark(self) -> Path:
        return self.folder.with_name(LAST.format(self.folder.name))

    @property
    def exists(self) -> bool:
        """Whether anything was ever served here."""
        return self.folder.is_dir()

    def integers(self) -> list[int]:
        """Return the versions that TensorFlow Serving sees, lowest first."""
        if not self.exists:
            return []
        found = (entry.name for entry in os.scandir(self.folder) if entry.is_dir())
        return sorted(int(name) for name in found if _is_integer(name))

    def live(self) -> dict[str, Any] | None:
        """Return the index of the highest integer, if all its files have the recorded bytes."""
        numbers = self.integers()
        return intact(self.folder / str(numbers[-1])) if numbers else None

    def put(self, version: str, md5: str, store: Store, *, sums: Mapping[str, str] | None = None) -> None:
        """Make a version the highest integer, unless it already is. The bytes are checked against `md5` and `sums`.

        sums: the SHA-256 of each file of the model, by relative path.

        Written to a temporary folder, flushed and renamed: no partial version is ever visible.
        """
        live = self.live()
        if live and (live["version"], live["model"]) == (version, md5) and self._has(live, md5, store, sums):
            return
        self._prepare()
        number = self._next()
        partial = self.folder / f".{number}{files.PARTIAL}"
        files.discard(partial)
        partial.mkdir()
        try:
            store.write(md5, partial, below=SAVED_MODEL, sums=sums)
            md5s = {p.relative_to(partial).as_posix(): objects.md5_of(p) for p in partial.rglob("*") if p.is_file()}
            index = {"name": self.folder.name, "version": version, "model": md5, "files": dict(sorted(md5s.items()))}
            files.write_json(partial / INDEX, index)
            files.sync_tree(partial)
            partial.rename(self.folder / str(number))
        except BaseException:
            files.discard(partial)
            raise
        files.sync(self.folder)

    def served_as(self, md5: str, store: Store, *, sums: Mapping[str, str] | None) -> bool:
        """Return whether the highest integer's files are those of a model. Raises `InputError` as `put` does."""
        live = self.live()
        return live is not None and self._has(live, md5, store, sums)

    def _has(self, live: Mapping[str, Any], md5: str, store: Store, sums: Mapping[str, str] | None) -> bool:
        """Return whether the highest integer, whose index is `live`, has the model's files: by SHA-256 if known."""
        if sums is None:
            return bool(live["files"] == _served(store.listing(md5)))
        return live["files"].keys() == _served(sums).keys() and has_sums(
            self.folder / str(self.integers()[-1]), _served(sums)
        )

    def drop(self, versions: Container[str]) -> None:
        """Remove the integers of these versions."""
        for number in self.integers():
            try:
                index = json_text.mapping(files.read_bytes(self.folder / str(number) / INDEX))
            except (OSError, InputError, ValueError):
                index = {}
            if str(index.get("version")) in versions:
                self._remove(number)

    def tidy(self) -> None:
        """Remove what is no longer read: all but the last integers, and a killed process's temporary folders."""
        for number in self.integers()[:-KEPT]:
            self._remove(number)
        for left in self.folder.glob(f".*{files.PARTIAL}"):
            files.discard(left)

    def clear(self) -> None:
        """Serve nothing."""
        for number in self.integers():
            self._remove(number)

    def _remove(self, number: int) -> None:
        if number > self._last():
            files.write_text(self._mark, f"{number}\n")
        aside = self.folder / f".{number}.old{files.PARTIAL}"
        files.discard(aside)
        (self.folder / str(number)).rename(aside)
        files.discard(aside)

    def _prepare(self) -> None:
        for path in (self.folder.parent, self.folder):
            if os.path.lexists(path) and not path.is_dir():
                raise InputError(f"{path} is not a folder, so nothing can be served from it: move it away")
        self.folder.mkdir(parents=True, exist_ok=True)
        ignore = self.folder.parent / ".gitignore"
        if not os.path.lexists(ignore):
            files.discard(ignore.with_name(f".{ignore.name}{files.PARTIAL}"))
            files.write_text(ignore, "*\n")

    def _next(self) -> int:
        """Return the first integer above all that are there, be they folders or not, and all that ever were."""
        names = (entry.name for entry in os.scandir(self.folder))
        number = max((int(name) for name in names if _is_integer(name)), default=0)
        number = max(number, self._last()) + 1
        if number > HIGHEST:
            raise InputError(f"{self.folder / str(HIGHEST)} has the highest number that can be served: move it away")
        return number

    def _last(self) -> int:
        """Return the highest integer that was removed; 0 if none was, or if nobody can tell any more."""
        try:
            said = files.read_bytes(self._mark).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return 0
        return int(said) if _is_integer(said) else 0


def _served(of_model: Mapping[str, str]) -> dict[str, str]:
    """Return the part of a model's files that is served, by path in the served folder."""
    return {name.removeprefix(SAVED_MODEL): one for name, one in of_model.items() if name.startswith(SAVED_MODEL)}


def _is_integer(name: str) -> bool:
    return name.isascii() and name.isdecimal() and int(name) <= HIGHEST


def intact(folder: Path) -> dict[str, Any] | None:
    """Return the index of a served version if exactly its files are there, with their recorded bytes."""
    try:
        index: dict[str, Any] = json_text.mapping(files.read_bytes(folder / INDEX))
        recorded = {objects.safe(name): md5 for name, md5 in dict(index["files"]).items()}
    except (OSError, InputError, ValueError, KeyError, TypeError):
        return None
    found = {p.relative_to(folder).as_posix(): objects.md5_of(p) for p in folder.rglob("*") if p.is_file()}
    found.pop(INDEX)
    return index if found == recorded and {"name", "version", "model"} <= index.keys() else None
