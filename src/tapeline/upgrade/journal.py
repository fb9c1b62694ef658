"""Replace several files so that a kill leaves all old, or enough to finish: what to write is on the disk before.

journal.write(folder, {Path("params.yaml"): "..."}, removed=[], restored=["runs/p/train/run.json"])
journal.finish(folder, root)     # also what the next call does if this one was killed
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tapeline.parsing import json_text
from tapeline.repository.rebuilding import dvc
from tapeline.runtime import files
from tapeline.runtime.errors import RunError

INDEX = "index.json"


def write(folder: Path, texts: Mapping[str, str], *, removed: Iterable[str], restored: Iterable[str]) -> None:
    """Write all of it to `folder`, which appears at once.

    texts: content by path below the root. removed: files to delete. restored: outputs that DVC checks out.
    """
    with files.replacing(folder) as partial:
        names = {str(number): path for number, path in enumerate(texts)}
        for number, path in names.items():
            (partial / number).write_text(texts[path], encoding="utf-8")
        index = {"texts": names, "removed": list(removed), "restored": list(restored)}
        (partial / INDEX).write_text(json.dumps(index, sort_keys=True), encoding="utf-8")


def is_left(folder: Path) -> bool:
    """Return whether a call was killed between `write` and the end of `finish`."""
    return (folder / INDEX).exists()


def finish(folder: Path, root: Path) -> str:
    """Replace, remove and check out what `write` was given, then drop it. May be repeated.

    Returns why outputs could not be checked out (another file is in their place); empty if they were.
    """
    try:
        index = json_text.mapping(files.read_bytes(folder / INDEX))
    except json_text.NotJson as error:
        raise RunError(f"{folder / INDEX} was altered ({error}): `git checkout .` and remove {folder}") from None
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
