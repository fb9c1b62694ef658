"""Run the code of the checkout in which a command is called, if that has its own: a fork, or another commit's worktree.

An editable install finds the checkout that it was made in, which would silently run the wrong code. Only what Git has
counts: a folder of data may bring code, and so may another user in a folder above, such as `/tmp`.
"""

import os
import shlex
from pathlib import Path

from tapeline.runtime import git_call
from tapeline.runtime.errors import InputError
from tapeline.runtime.interpreter import SOURCE, begin_anew

PROGRAM = Path("tapeline", "__main__.py")


def use(folder: Path, *, having: str = "") -> None:
    """Start again with the code of the checkout that `folder` belongs to, if this code is from another one.

    having: a package that the other code must have; an older one without it is left alone. Raises `InputError` as
    `of` does, and for a path that Python could not find again.
    """
    source = of(folder)
    if source and source.resolve() != SOURCE and (source / "tapeline" / having).is_dir():
        if os.pathsep in str(source):
            raise InputError(f"{source} contains a {os.pathsep}, which PYTHONPATH cannot hold: rename the folder")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
        begin_anew()


def of(folder: Path) -> Path | None:
    """Return the folder with the code of the checkout that `folder` belongs to; None if that has none.

    Raises `InputError` for a checkout that Git does not use, since it is another user's.
    """
    for tree in (folder, *folder.parents):
        if (tree / "src" / PROGRAM).is_file() and _is_tracked(tree):
            return tree / "src"
        if (tree / ".git").exists():
            return None  # what is above belongs to another checkout, which this one stands in
    return None


def _is_tracked(tree: Path) -> bool:
    """Return whether Git has the code of a checkout, or this is it."""
    if (tree / "src").resolve() == SOURCE:
        return True
    asked = git_call.called(tree, "ls-files", "--error-unmatch", "--", str("src" / PROGRAM))
    if b"dubious ownership" in asked.stderr:
        top = os.fsdecode(asked.stderr).split("'")[1]
        trust = f"git config --global --add safe.directory {shlex.quote(top)}"
        raise InputError(f"{tree / 'src'} is another user's code: if you trust them, `{trust}`")
    return asked.returncode == 0
