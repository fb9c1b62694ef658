"""Mend what a killed DVC leaves behind: it writes `.dvc/tmp/rwlock` and `dvc.lock` in place.

A cut file is replaced and entries of processes that are gone are cleared; what a living process holds stays.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tapeline import files
from tapeline.errors import InputError, RunError
from tapeline.project import Project

RWLOCK = Path(".dvc") / "tmp" / "rwlock"
LOCK = "dvc.lock"


def repair(project: Project) -> Iterator[str]:
    """Mend the repository around a project, and yield a line for each thing that was done.

    Raises `InputError` outside a DVC repository.
    """
    top = next((folder for folder in (project.folder, *project.folder.parents) if (folder / ".dvc").is_dir()), None)
    if top is None:
        raise InputError(f"{project.folder} is in no DVC repository: nothing to repair")
    yield from _mend_rwlock(top / RWLOCK)
    for folder in dict.fromkeys((project.folder, *(path.parent for path in top.glob("*/dvc.yaml")), top)):
        yield from _mend_lock(folder / LOCK)


def _mend_rwlock(path: Path) -> Iterator[str]:
    """Drop the entries of processes that are gone; an unreadable file becomes one without entries."""
    if not path.exists():
        return
    with _guarded(path):
        try:
            held = json.loads(path.read_bytes())
            write = {name: holder for name, holder in held.get("write", {}).items() if _runs(holder)}
            read = {name: [h for h in holders if _runs(h)] for name, holders in held.get("read", {}).items()}
        except (ValueError, AttributeError, KeyError, TypeError):
            files.write_text(path, "{}")
            yield f"{path}: was cut; it has no entries now"
            return
        kept = {"write": write, "read": {name: holders for name, holders in read.items() if holders}}
        if kept != {"write": held.get("write", {}), "read": held.get("read", {})}:
            files.write_text(path, json.dumps(kept))
            yield f"{path}: cleared entries of processes that are gone"


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """Hold the lock under which DVC itself edits the file."""
    from dvc.lock import LockError, make_lock

    guard = make_lock(f"{path}.lock", tmp_dir=str(path.parent), hardlink_lock=False)
    try:
        guard.lock()
    except LockError as error:
        raise RunError(f"{path} is being written by another DVC: {' '.join(str(error).split())}") from None
    try:
        yield
    finally:
        guard.unlock()


def _runs(holder: dict[str, Any]) -> bool:
    """Return whether this very process is there: another one may have its number by now."""
    try:
        command = psutil.Process(int(holder["pid"])).cmdline()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    program, *arguments = str(holder["cmd"]).split() or [""]
    running = " ".join(command)
    return running.endswith(" ".join(arguments)) and (bool(arguments) or Path(program).name in running)


def _mend_lock(path: Path) -> Iterator[str]:
    """Put a cut `dvc.lock` back to the committed one; DVC's run-cache gives back what was built since."""
    if not path.exists():
        return
    content = path.read_bytes()
    answer = subprocess.run(["git", "show", f"HEAD:./{LOCK}"], cwd=path.parent, capture_output=True, check=False)
    committed = answer.stdout if answer.returncode == 0 else b""
    beginning = committed.startswith(content) and content != committed
    if is_whole(content) and not beginning:
        return
    if committed:
        files.write_bytes(path, committed)
        yield f"{path}: was cut; it is the committed one again, and what was built since comes from the run-cache"
    else:
        path.unlink()
        yield f"{path}: was cut and is not committed; it is gone, and what was built comes from the run-cache"


def is_whole(content: bytes) -> bool:
    """Return whether a `dvc.lock` has DVC's schema and ends where DVC ends it: after a line, each size there."""
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from voluptuous import Invalid

    try:
        lock = COMPILED_LOCKFILE_SCHEMA(YAML(typ="safe").load(content.decode()))
    except (YAMLError, UnicodeDecodeError, Invalid):
        return False
    entries = [e for stage in lock.get("stages", {}).values() for kind in ("deps", "outs") for e in stage.get(kind, ())]
    return content.endswith(b"\n") and all("size" in entry for entry in entries if "md5" in entry)
