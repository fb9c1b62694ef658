"""Replace several files so that a kill leaves all old, or enough to finish: what to write is on the disk before.

journal.write(folder, root, {"params.yaml": "..."}, removed=[], restored=["runs/p/train/run.json"])
journal.finish(folder, root)     # also what the next call does if this one was killed
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.repository.rebuilding import dvc
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError

INDEX = "index.json"


def write(
    folder: Path, root: Path, texts: Mapping[str, str], *, removed: Iterable[str], restored: Iterable[str]
) -> None:
    """Write all of it to `folder`, which appears at once.

    texts: content by path below the root. removed: files to delete. restored: outputs that DVC checks out.
    """
    removed = list(removed)
    with files.replacing(folder) as partial:
        names = {str(number): path for number, path in enumerate(texts)}
        for number, path in names.items():
            (partial / number).write_text(texts[path], encoding="utf-8")
        before = {path: _sha256(root / path) for path in (*texts, *removed)}
        index = {"texts": names, "removed": removed, "restored": list(restored), "before": before}
        (partial / INDEX).write_text(json.dumps(index, sort_keys=True), encoding="utf-8")


def is_left(folder: Path) -> bool:
    """Return whether a call was killed between `write` and the end of `finish`."""
    return (folder / INDEX).exists()


def finish(folder: Path, root: Path) -> str:
    """Replace, remove and check out what `write` was given, then drop it. May be repeated.

    Returns why outputs could not be checked out (another file is in their place); empty if they were. Raises `RunError`
    if the journal was altered, and `InputError`, with nothing written, if a file has neither its old nor its new
    content, or if an older version wrote the journal, which does not tell.
    """
    try:
        index = json_text.mapping(files.read_bytes(folder / INDEX))
    except json_text.NotJson as error:
        raise RunError(f"{folder / INDEX} was altered ({error}): `git checkout .` and remove {folder}") from None
    _check_unchanged(index, folder, root)
    for number, path in index["texts"].items():
        files.write_bytes(root / path, files.read_bytes(folder / number))
    for path in index["removed"]:
        (root / path).unlink(missing_ok=True)
    failure = ""
    if present := [path for path in index["restored"] if (root / path).exists()]:
        try:
            dvc(root, "checkout", "--quiet", *present)
        except RunError as error:
            failure = str(error)
    (folder / INDEX).unlink()
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    return failure


def _check_unchanged(index: Mapping[str, Any], folder: Path, root: Path) -> None:
    way_out = f"remove {folder}, look at `git status`, and call `tapeline upgrade` again"
    if "before" not in index:
        raise InputError(f"an upgrade by an older version was killed while it wrote: {way_out}")
    after = {path: _sha256(folder / number) for number, path in index["texts"].items()}
    for path, old in index["before"].items():
        if _sha256(root / path) not in (old, after.get(path, "")):
            raise InputError(f"{path} has changed since an upgrade was killed while it wrote: {way_out}")


def _sha256(path: Path) -> str:
    return files.sha256(path) if path.is_file() else ""
