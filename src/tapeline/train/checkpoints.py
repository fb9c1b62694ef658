"""Checkpoints: a folder each, written aside and renamed, checksummed; a damaged one is skipped and said.

<pipeline>/<fingerprint>/lock
<pipeline>/<fingerprint>/fingerprint.json      what the fingerprint is made of
<pipeline>/<fingerprint>/step-000000001200/    manifest, state.index, state.data-00000-of-00001
"""

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline import files
from tapeline.errors import InputError
from tapeline.recipe import variables
from tapeline.train.settings import CheckpointPolicy
from tapeline.train.state import Snapshot

PREFIX = "step-"
DAMAGED = "damaged-"
FINAL = "final-"
"""The state at the end of a run that succeeded: only `--extend` reads it."""
MANIFEST = "manifest"
BUNDLE = "state"


class Damaged(Exception):
    """A checkpoint whose bytes are not those that were written."""


def write(folder: Path, snapshot: Snapshot, prefix: str = PREFIX) -> Path:
    """Write one checkpoint and return its folder. Safe to call from any thread; the same step is written once."""
    final = folder / f"{prefix}{snapshot.step:012d}"
    if final.exists():
        return final
    partial = folder / f".{final.name}.{threading.get_ident()}{files.PARTIAL}"
    partial.mkdir(parents=True)
    try:
        variables.write_bundle(partial / BUNDLE, snapshot.tensors)
        sums = {path.name: files.sha256(path) for path in sorted(partial.iterdir())}
        body = files.canonical_json({"files": sums, "record": snapshot.record})
        (partial / MANIFEST).write_text(f"{sha256(body.encode()).hexdigest()}\n{body}", encoding="utf-8")
        files.sync_tree(partial)
        partial.rename(final)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    files.sync(folder)
    return final


def read(path: Path, expected: Callable[[Mapping[str, Any]], dict[str, tf.Variable]]) -> Snapshot:
    """Return a checkpoint. Raises `Damaged` when any byte of it is not what was written."""
    try:
        checksum, body = (path / MANIFEST).read_bytes().split(b"\n", 1)
    except (OSError, ValueError):
        raise Damaged(f"{path}: no whole manifest") from None
    if sha256(body).hexdigest().encode() != checksum:
        raise Damaged(f"{path}: the manifest was altered")
    manifest = json.loads(body)
    for name, recorded in manifest["files"].items():
        if not (path / name).is_file() or files.sha256(path / name) != recorded:
            raise Damaged(f"{path}: {name} was altered")
    record = manifest["record"]
    return Snapshot(record["step"], variables.read_bundle(path / BUNDLE, expected(record)), record)


def saved(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, newest first."""
    return sorted(folder.glob(f"{PREFIX}*"), reverse=True)


def newest(
    folder: Path, expected: Callable[[Mapping[str, Any]], dict[str, tf.Variable]], say: Callable[[str], None]
) -> Snapshot | None:
    """Return the newest whole checkpoint, or `None`. A damaged one is said and put aside, out of the count."""
    for path in saved(folder):
        try:
            return read(path, expected)
        except (Damaged, InputError) as error:
            say(f"checkpoint is damaged and not used: {error}")
            path.rename(_free(path.with_name(f"{DAMAGED}{path.name}")))
    return None


def _free(path: Path) -> Path:
    taken = (path.with_name(f"{path.name}.{number}") for number in range(2, 1 << 20))
    return path if not path.exists() else next(other for other in taken if not other.exists())


def remove_all(folder: Path) -> None:
    """Remove every checkpoint in a folder, damaged ones too."""
    for path in [*saved(folder), *folder.glob(f"{DAMAGED}*")]:
        shutil.rmtree(path)


def final(folder: Path, expected: Callable[[Mapping[str, Any]], dict[str, tf.Variable]]) -> Snapshot | None:
    """Return the state at the end of a run that succeeded, or `None`. Raises `InputError` for a damaged one."""
    try:
        return next((read(path, expected) for path in folder.glob(f"{FINAL}*")), None)
    except Damaged as error:
        raise InputError(f"the end of the shorter run is damaged: {error}") from None


def any_saved(folder: Path) -> bool:
    """Return whether a run left anything to go on from."""
    return any(saved(folder)) or any(folder.glob(f"{FINAL}*"))


def keep_final(folder: Path, snapshot: Snapshot) -> None:
    """Keep the end of a run in place of its checkpoints, and of the end of the pipeline's run before it."""
    write(folder, snapshot, FINAL)
    remove_all(folder)
    for path in folder.parent.glob(f"*/{FINAL}*"):
        if path.parent != folder:
            shutil.rmtree(path)


def superseded(paths: list[Path], keep: int) -> Iterator[Path]:
    """Yield the checkpoints that the policy lets go: all but the `keep` newest."""
    yield from sorted(paths, reverse=True)[keep:]


def is_due(policy: CheckpointPolicy, *, last: int, step: int, seconds: float) -> bool:
    """Return whether a checkpoint is due at `step`, so many seconds after the one at step `last`."""
    every = policy.every_steps
    return step > last and (seconds >= policy.every_seconds or bool(every and step // every > last // every))


class Writer:
    """Writes snapshots in a thread while training goes on; an error there is raised at the next call."""

    def __init__(self, folder: Path, *, keep: int, on_saved: Callable[[int, Path, float], None]) -> None:
        self._folder, self._keep, self._on_saved = folder, keep, on_saved
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._lock = threading.Lock()
        self.busy = False
        """Whether a snapshot is being written."""

    def start(self, snapshot: Snapshot) -> None:
        """Begin to write, after whatever was begun before."""
        self.wait()
        self.busy = True
        self._pending = self._thread.submit(self.write, snapshot)

    def write(self, snapshot: Snapshot) -> None:
        """Write now, in the calling thread, and remove what the policy lets go."""
        with self._lock:
            began = time.monotonic()
            path = write(self._folder, snapshot)
            for old in superseded(saved(self._folder), self._keep):
                shutil.rmtree(old)
            self.busy = False
            self._on_saved(snapshot.step, path, time.monotonic() - began)

    def wait(self) -> None:
        """Wait for what was begun; raise what went wrong in it."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def close(self) -> None:
        """Finish what was begun."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()
