"""What a disk may hold after a crash at any moment of an operation, for a file system that guarantees nothing.

    moments = crashes.recorded(folder, lambda: files.write_bytes(folder / "x", b"new"))
    for moment in moments: ...   # one before each rename, removal, opening and flush; the last is after the end

A folder's names are only durable if the folder was flushed since they changed; likewise a file's bytes.
"""

import os
import stat
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

Tree = dict[str, bytes]
"""Relative path → content of the files below a folder."""

_EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink"}
_recorders: list["_Recorder"] = []


@dataclass(frozen=True)
class Moment:
    """What can be found after a crash just before `what`."""

    what: str
    killed: Tree
    """After a kill: the kernel has everything."""
    names_only: Tree
    """After a power failure: all names exist, but only flushed bytes."""
    flushed: Tree
    """After a power failure: only what was flushed exists."""

    def trees(self) -> tuple[Tree, Tree, Tree]:
        """Return all three."""
        return self.killed, self.names_only, self.flushed


def recorded(root: Path, operation: Callable[[], object]) -> list[Moment]:
    """Run `operation`; return what a crash may leave of `root` at each moment. Existing files count as flushed."""
    with ExitStack() as stack:
        recorder = _Recorder(root, stack)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(os, "fsync", recorder.fsync)
        _recorders.append(recorder)
        stack.callback(_recorders.remove, recorder)
        operation()
        recorder.moment("the end")
    return recorder.moments


@dataclass
class _Recorder:
    root: Path
    stack: ExitStack
    moments: list[Moment] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._fsync, self._busy = os.fsync, False
        self._names: dict[int, dict[str, int]] = {}
        self._bytes: dict[int, bytes] = {}
        self._held: set[int] = set()
        for path in (self.root, *self.root.rglob("*")):
            self._flushed(path)

    def fsync(self, descriptor: int) -> None:
        """Flush, and record what becomes durable."""
        self.moment("fsync")
        self._fsync(descriptor)
        self._busy = True
        inode = os.fstat(descriptor).st_ino
        for path in (self.root, *self.root.rglob("*")):
            if path.stat().st_ino == inode:
                self._flushed(path)
        self._busy = False

    def _flushed(self, path: Path) -> None:
        inode = self._hold(path)
        if path.is_dir():
            self._names[inode] = {child.name: self._hold(child) for child in path.iterdir()}
        else:
            self._bytes[inode] = path.read_bytes()

    def _hold(self, path: Path) -> int:
        """Return the inode number, and keep the file open so that no other file reuses the number."""
        inode = path.stat().st_ino
        if inode not in self._held:
            descriptor = os.open(path, os.O_RDONLY)
            self.stack.callback(os.close, descriptor)
            self._held.add(inode)
            if stat.S_ISDIR(path.stat().st_mode):
                self._names.setdefault(inode, {})
            else:
                self._bytes.setdefault(inode, b"")
        return inode

    def moment(self, what: str) -> None:
        """Record what a crash would leave now."""
        if self._busy:
            return
        self._busy = True
        paths = [path for path in self.root.rglob("*") if path.is_file()]
        inodes = {path.relative_to(self.root).as_posix(): self._hold(path) for path in paths}
        for folder in (path for path in self.root.rglob("*") if path.is_dir()):
            self._hold(folder)
        killed = {path.relative_to(self.root).as_posix(): path.read_bytes() for path in paths}
        names_only = {name: self._bytes[inode] for name, inode in inodes.items()}
        self.moments.append(Moment(what, killed, names_only, self._certain(self.root.stat().st_ino)))
        self._busy = False

    def _certain(self, folder: int, prefix: str = "") -> Tree:
        tree: Tree = {}
        for name, inode in self._names[folder].items():
            if inode in self._names:
                tree |= self._certain(inode, f"{prefix}{name}/")
            else:
                tree[f"{prefix}{name}"] = self._bytes[inode]
        return tree


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _EVENTS and event in _EVENTS:  # at the interpreter's end it is None
        for recorder in _recorders:
            recorder.moment(f"{event} {arguments[0]}")


sys.addaudithook(_audit)
