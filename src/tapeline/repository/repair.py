"""Repair what a killed DVC process leaves behind: DVC writes `.dvc/tmp/rwlock` and `dvc.lock` in place.

A truncated file is replaced and entries of dead processes are cleared; what a live process holds stays, and so does a
`dvc.lock` that Git could not merge.
"""

import json
import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tapeline.config.project import DVC_YAML, Project
from tapeline.parsing import json_text, yaml_text
from tapeline.repository import lock_merge
from tapeline.repository.dvc_errors import in_one_line
from tapeline.repository.dvc_lock import LOCK, Lock, in_conflict
from tapeline.repository.git import Git
from tapeline.repository.places import dvc_top
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError, TapelineError

RWLOCK = Path(".dvc") / "tmp" / "rwlock"
DVC_LOCK = Path(".dvc") / "tmp" / "lock"
PROBE = re.compile(r"\.[\w-]{22}\.tmp")
"""Name of the file with which DVC tests how it can link an output to its cache."""


def repair(project: Project) -> Iterator[str]:
    """Repair the repository around a project, and yield a line for each repair, and for what could not be checked.

    Raises `InputError` outside a DVC repository or for a merge conflict, `RunError` if Git cannot say what to restore,
    or a live DVC holds the lock that a repair needs.
    """
    top = _top(project)
    yield from _mend_rwlock(top / RWLOCK)
    for folder in _folders(project, top):
        yield from _mend_lock(folder / LOCK, top / DVC_LOCK)
        yield from _remove_probes(folder, top / DVC_LOCK)


def merge(project: Project) -> Iterator[str]:
    """Merge each `dvc.lock` around a project that Git could not, and yield a line for each. Raises `InputError`."""
    for folder in _folders(project, _top(project)):
        yield from _merge_lock(folder / LOCK)


def _top(project: Project) -> Path:
    top = dvc_top(project.folder)
    if top is None:
        raise InputError(f"{project.folder} is not in a DVC repository: nothing to repair")
    return top


def _folders(project: Project, top: Path) -> Iterable[Path]:
    """Return the project's folder and those of other projects, at any depth: a stage here may depend on one there."""
    tracked = Git(top).ask("ls-files", "-z", "--", f":(glob)**/{DVC_YAML}") or ""
    others = [(top / name).parent for name in tracked.split("\0") if name]
    others += [path.parent for path in top.glob(f"*/{DVC_YAML}")]  # one that is not in Git yet
    return dict.fromkeys((project.folder, *(folder for folder in others if folder.is_dir()), top))


def holder(project: Project) -> str:
    """Return the running process that reads or writes outputs by DVC's `rwlock`, as `PID COMMAND`; empty if none."""
    top = dvc_top(project.folder)
    if top is None or not (top / RWLOCK).exists():
        return ""
    try:
        held, _ = _held(top / RWLOCK)
    except ValueError:
        raise InputError(f"{top / RWLOCK} was truncated: `tapeline repair` repairs it") from None
    holders = [*held["write"].values(), *(one for several in held["read"].values() for one in several)]
    return next((f"{one['pid']} {one['cmd']}" for one in holders), "")


def _held(path: Path) -> tuple[dict[str, Any], bool]:
    """Return what running processes hold by DVC's `rwlock`, in its form, and whether it has other entries.

    Raises `ValueError` for a truncated file.
    """
    found = json_text.mapping(files.read_bytes(path))
    try:
        write, read = found.get("write", {}), found.get("read", {})
        writing = {name: one for name, one in write.items() if _runs(one)}
        reading = {name: running for name, several in read.items() if (running := list(filter(_runs, several)))}
    except (AttributeError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not DVC's form: {error}") from None
    return {"write": writing, "read": reading}, (writing, reading) != (write, read)


def _mend_rwlock(path: Path) -> Iterator[str]:
    """Drop the entries of dead processes; an unreadable file is replaced by an empty one."""
    if not path.exists():
        return
    with _guarded(path.with_name(f"{path.name}.lock")):
        try:
            held, has_others = _held(path)
        except ValueError:
            files.write_text(path, "{}")
            yield f"{path}: was truncated; emptied it"
            return
        if has_others:
            files.write_text(path, json.dumps(held))
            yield f"{path}: cleared the entries of processes that no longer exist"


@contextmanager
def _guarded(path: Path) -> Iterator[None]:
    """Hold DVC's own lock at `path`. Raises `RunError` if a live process holds it, or for an unreadable setting."""
    from tapeline.repository.dvc.exceptions import LockError
    from tapeline.repository.dvc.locking import file_lock
    from tapeline.repository.dvc.settings import Settings

    with in_one_line():
        settings = Settings(path.parents[1])
    files.make_folder(path.parent)  # a clone in which no DVC has run has none
    with ExitStack() as stack:
        try:
            stack.enter_context(file_lock(path, hardlink=settings.hardlink_lock))
        except LockError:
            with suppress(BlockingIOError, FileNotFoundError):
                os.close(files.locked(path, os.O_RDWR))  # a disk without locks raises what it lacks
            raise RunError(f"{path} is held by another DVC: run again when that has ended") from None
        yield


def _runs(holder: dict[str, Any]) -> bool:
    """Return whether this exact process is running: another one may have its PID by now."""
    try:
        command = psutil.Process(int(holder["pid"])).cmdline()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    program, *arguments = str(holder["cmd"]).split() or [""]
    running = " ".join(command)
    return running.endswith(" ".join(arguments)) and (bool(arguments) or Path(program).name in running)


def _mend_lock(path: Path, guard: Path) -> Iterator[str]:
    """Restore the committed `dvc.lock` if it was truncated; DVC's run-cache recovers what was built since.

    A live DVC writes it in place and holds `guard` meanwhile: what looks truncated is read again with that lock.
    """
    if (yield from _instead(path)) is None:
        return
    with _guarded(guard):
        committed = yield from _instead(path)
        if committed is None:
            return
        if committed:
            files.write_bytes(path, committed)
            yield f"{path}: was truncated; restored the committed one; later results come from DVC's run cache"
        else:
            path.unlink()
            yield f"{path}: was truncated and is not committed; removed it; its results come from DVC's run cache"


def _instead(path: Path) -> Generator[str, None, bytes | None]:
    """Return what replaces a truncated `dvc.lock`, empty if nothing is committed; None for a whole one.

    A cut between two stages leaves a whole lock, with which the committed one begins, and which no commit ever had.
    Yields a line for one that could not be compared.
    """
    if not path.exists():
        return None
    content = files.read_bytes(path)
    if in_conflict(content):
        raise InputError(f"{path} has a Git merge conflict: `tapeline repair` merges it stage by stage")
    if lock_merge.sides(path.parent):  # HEAD's is only one of them
        if not is_whole(content):
            raise InputError(f"{path} was truncated in a Git merge: `tapeline repair` merges it stage by stage")
        return None
    try:
        committed = Git(path.parent).blob("HEAD", f"./{LOCK}") or b""
    except TapelineError as error:
        if not is_whole(content):
            raise RunError(
                f"{path} was truncated and left as it is, since the committed one cannot be read: {error}"
            ) from None
        yield f"{path}: not compared with the committed one: {error}"
        return None
    if committed and content == committed:
        return None
    return None if is_whole(content) and not (committed.startswith(content) and _is_new(path)) else committed


def _is_new(path: Path) -> bool:
    """Return whether Git has no object of a file's content: an earlier commit's lock was put there by somebody."""
    git = Git(path.parent)
    return git.ask("cat-file", "-e", git("hash-object", "--no-filters", "--", path.name)) is None


def _merge_lock(path: Path) -> Iterator[str]:
    """Merge a `dvc.lock` that Git could not, unless somebody has."""
    content = files.read_bytes(path) if path.exists() else b""
    versions = lock_merge.sides(path.parent)
    if not versions:
        if in_conflict(content):
            remedy = f"`git checkout --merge {LOCK}` restores both sides, unless it was committed like this"
            raise InputError(f"{path} has the markers of a merge conflict that Git considers resolved: {remedy}")
        return
    side = lock_merge.chosen(versions, content)
    if side is None and is_whole(content):
        return
    try:
        merged = lock_merge.merged(versions, side)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if merged.text.encode() == content:
        return
    files.write_text(path, merged.text)
    both = f"changed on both sides, from {lock_merge.NAMES[side]}" if side else ""
    parts = (("from ours", merged.ours), ("from theirs", merged.theirs), (both, merged.both))
    taken = "; ".join(f"{where}: {', '.join(names)}" for where, names in parts if names)
    yield f"{path}: merged stage by stage; {taken or 'nothing differed'}; `git add {LOCK}` next"


def is_whole(content: bytes) -> bool:
    """Return whether a `dvc.lock` has DVC's schema and is complete: it ends with a newline, and no size is missing."""
    from tapeline.repository.dvc.lock_file import is_lock

    try:
        tree = yaml_text.parsed(content)
        if not is_lock(tree):
            return False
        lock = Lock.parsed(tree if "stages" in tree else None)  # DVC's old form has none
    except ValueError:
        return False
    entries = [entry for stage in lock.stages.values() for entry in (*stage.deps, *stage.outs)]
    return content.endswith(b"\n") and all(entry.has_size for entry in entries if entry.md5 is not None)


def _remove_probes(folder: Path, lock: Path) -> Iterator[str]:
    """Remove the empty files that DVC leaves next to a recorded output when a disk is full."""
    try:
        recorded = Lock.read(files.read_bytes(folder / LOCK))
    except (FileNotFoundError, InputError):
        return
    outs = (folder / out.path for out in recorded.outs())
    beside = {out.parent for out in outs if out.resolve().is_relative_to(folder.resolve())}
    found = [path for place in sorted(beside) for path in place.glob(".*.tmp") if _is_probe(path)]
    if found:
        with _guarded(lock):
            for path in found:
                path.unlink(missing_ok=True)
                yield f"{path}: removed; DVC left it when it tested links on a full disk"


def _is_probe(path: Path) -> bool:
    return bool(PROBE.fullmatch(path.name)) and path.is_file() and not path.is_symlink() and path.stat().st_size == 0
