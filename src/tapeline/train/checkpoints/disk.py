"""Checkpoints: one folder each, checksummed, written to a temporary name and renamed; damaged ones are skipped.

<pipeline>/<fingerprint>/lock
<pipeline>/<fingerprint>/fingerprint.json             what the fingerprint is made of
<pipeline>/<fingerprint>/made.json, answers.json      what a start made, and what it predicted: later ones are compared
<pipeline>/<fingerprint>/step-000000001200/           manifest, state.index, state.data-00000-of-00001
<pipeline>/<fingerprint>/damaged-step-000000001200/   a checkpoint that was found to be damaged
<pipeline>/<fingerprint>/final-000000002400/          as a checkpoint: the end of the pipeline's last successful run
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import tensorflow as tf

from tapeline.config.train import CheckpointPolicy
from tapeline.parsing import json_text
from tapeline.recipe import bundles
from tapeline.runtime import files, locks
from tapeline.runtime.errors import InputError, Interrupted, RunError, TapelineError
from tapeline.train.checkpoints import record_json
from tapeline.train.engine.state import Snapshot

LOCK = "lock"
PREFIX = "step-"
DAMAGED = "damaged-"
FINAL = "final-"
"""The state at the end of a successful run: only `--extend` reads it."""
MANIFEST = "manifest"
BUNDLE = "state"
SAVED = "its checkpoint is saved"
"""Part of the message when a run ends early; `Writer.truthful` corrects it if saving failed."""

Ended = TypeVar("Ended", bound=TapelineError | Interrupted)


Expected = Callable[[Mapping[str, Any]], dict[str, tf.Variable]]
"""A checkpoint's record → the tensors that it must hold, as name → variable of the same type. Raises `InputError`."""


class Damaged(Exception):
    """A checkpoint whose bytes are not as written."""


def write(folder: Path, snapshot: Snapshot, prefix: str = PREFIX, *, again: bool = False) -> Path:
    """Write one checkpoint and return its folder. Safe to call from any thread; a step is written once, or `again`."""
    final = folder / f"{prefix}{snapshot.step:012d}"
    if final.exists() and not again:
        return final
    partial = folder / f".{final.name}.{threading.get_ident()}{files.PARTIAL}"
    try:
        files.make_folder(folder)
        partial.mkdir()
        bundles.write(partial / BUNDLE, snapshot.tensors)
        sums = {path.name: files.sha256(path) for path in sorted(partial.iterdir())}
        body = files.canonical_json({"files": sums, "record": record_json.written(snapshot.record)})
        (partial / MANIFEST).write_text(f"{sha256(body.encode()).hexdigest()}\n{body}", encoding="utf-8")
        files.sync_tree(partial)
        if again:
            files.discard(final, ignore_errors=False)
        partial.rename(final)
    except BaseException:
        files.discard(partial)
        raise
    files.sync(folder)
    return final


def read(path: Path, expected: Expected, *, remedy: str = "start at step 0 with --fresh") -> Snapshot:
    """Return a checkpoint.

    expected: takes the record. Raises `Damaged` if any byte of the checkpoint is not as written, and `InputError`,
    ending in `remedy`, if it is intact but does not fit.
    """
    try:
        files.check_tree(path)
    except InputError as error:
        raise Damaged(str(error)) from None
    try:
        checksum, body = files.read_bytes(path / MANIFEST).split(b"\n", 1)
    except (OSError, InputError, ValueError):
        raise Damaged(f"{path}: the manifest is incomplete") from None
    if sha256(body).hexdigest().encode() != checksum:
        raise Damaged(f"{path}: the manifest was altered")
    try:
        manifest = json_text.mapping(body)
        sums, record = {**manifest["files"]}, record_json.read({**manifest["record"]})  # only mappings, unlike `dict`
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path}: the manifest is invalid ({error})") from None
    there = {file.name for file in path.iterdir() if file.is_file()}
    for name, recorded in sums.items():
        if name not in there or files.sha256(path / name) != recorded:
            raise Damaged(f"{path}: {name} was altered")
    try:
        variables_there = expected(record)
    except InputError as error:
        raise InputError(f"{path}: {error}: {remedy}") from None
    return Snapshot(record["step"], bundles.read(path / BUNDLE, variables_there, remedy=remedy), record)


def saved(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, newest first."""
    return sorted(folder.glob(f"{PREFIX}*"), reverse=True)


def newest(
    folder: Path,
    expected: Expected,
    say: Callable[[str], None],
    *,
    remedy: str = "start at step 0 with --fresh",
) -> Snapshot | None:
    """Return the newest intact checkpoint, or `None`. Damaged ones are reported and renamed, and no longer count.

    Raises `InputError` for an intact one that does not fit: only the user may discard it.
    """
    found = saved(folder)
    for path in found:
        try:
            return read(path, expected, remedy=remedy)
        except Damaged as error:
            say(f"ignoring a damaged checkpoint: {error}")
            path.rename(_free(path.with_name(f"{DAMAGED}{path.name}")))
    if found:
        say(f"no usable checkpoint in {folder}: all {len(found)} are damaged")
    return None


def _free(path: Path) -> Path:
    taken = (path.with_name(f"{path.name}.{number}") for number in range(2, 1 << 20))
    return path if not path.exists() else next(other for other in taken if not other.exists())


def remove_all(folder: Path) -> None:
    """Remove every checkpoint in a folder, including damaged ones."""
    for path in [*saved(folder), *folder.glob(f"{DAMAGED}*")]:
        files.discard(path, ignore_errors=False)


def final(folder: Path, expected: Expected, *, remedy: str) -> Snapshot | None:
    """Return the state at the end of a successful run, or `None`.

    Raises `InputError`, ending in `remedy`, for one that is damaged or does not fit.
    """
    try:
        return next((read(path, expected, remedy=remedy) for path in folder.glob(f"{FINAL}*")), None)
    except Damaged as error:
        raise InputError(f"the end of the shorter run is damaged: {error}: {remedy}") from None


def remove_partial(folder: Path) -> None:
    """Remove the partial files of killed writers. Nobody else may be writing in the folder."""
    for path in folder.glob(f".*{files.PARTIAL}"):
        files.discard(path, ignore_errors=False)


def any_saved(folder: Path) -> bool:
    """Return whether a run left anything to resume from or extend."""
    return any(saved(folder)) or any(folder.glob(f"{FINAL}*"))


def keep_final(folder: Path, snapshot: Snapshot) -> None:
    """Keep the final state of a run; remove its checkpoints and the final states of the pipeline's other runs.

    An earlier one of the same run is replaced: it may be damaged. Those of runs that hold their locks are left.
    """
    kept = write(folder, snapshot, FINAL, again=True)
    for path in folder.glob(f"{FINAL}*"):
        if path != kept:
            files.discard(path, ignore_errors=False)
    remove_all(folder)
    for path in folder.parent.glob(f"*/{FINAL}*"):
        if path.parent != folder:
            with locks.unless_held(path.parent / LOCK) as free:
                if free:
                    files.discard(path, ignore_errors=False)


def superseded(paths: list[Path], keep: int) -> Iterator[Path]:
    """Yield the checkpoints to delete: all but the `keep` newest."""
    yield from sorted(paths, reverse=True)[keep:]


def is_due(policy: CheckpointPolicy, *, last: int, step: int, seconds: float) -> bool:
    """Return whether a checkpoint is due at `step`, `seconds` after the one at step `last`."""
    every = policy.every_steps
    return step > last and (seconds >= policy.every_seconds or bool(every and step // every > last // every))


def pause(failures: int) -> float:
    """Return the seconds until the next try after `failures` failures in a row: 1, 2, 4 … and at most 300."""
    return min(2.0 ** min(failures - 1, 9), 300.0)


class Writer:
    """Writes snapshots in a thread while training continues. A disk failure is reported and does not stop training."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: int,
        on_saved: Callable[[int, Path, float], None],
        on_failed: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._folder, self._keep, self._on_saved, self._on_failed = folder, keep, on_saved, on_failed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._lock = threading.Lock()
        self.busy = False
        """Whether a snapshot is being written."""
        self.failures = 0
        """Consecutive snapshots that could not be written."""
        self.unsaved = ""
        """Replaces `SAVED` in the message if the final snapshot could not be written."""

    def start(self, snapshot: Snapshot) -> None:
        """Start writing once the previous write is done; `on_failed` is called in the writing thread."""
        self.wait()
        self.busy = True
        self._pending = self._thread.submit(self._try, snapshot)

    def _try(self, snapshot: Snapshot) -> None:
        try:
            path, seconds = self._write(snapshot)
        except (OSError, RunError) as error:
            if isinstance(error, OSError) and error.errno not in files.DISK_ERRORS:
                raise
            self.failures += 1
            again = f"training continues; next attempt in {pause(self.failures):.0f} s or later"
            self._on_failed(f"the checkpoint of step {snapshot.step} {self._failure(error)}; {again}")
        else:
            self.busy = False  # before reporting: a hook may then request the next one
            self._on_saved(snapshot.step, path, seconds)
        finally:
            self.busy = False

    def _write(self, snapshot: Snapshot) -> tuple[Path, float]:
        """Write now, in the calling thread, and remove superseded checkpoints; return the new one and the seconds."""
        with self._lock:
            began = time.monotonic()
            path = write(self._folder, snapshot)
            self.failures = 0
            for old in superseded(saved(self._folder), self._keep):
                files.discard(old, ignore_errors=False)
            return path, time.monotonic() - began

    def write_last(self, snapshot: Snapshot) -> None:
        """Write when the process is about to end; a failure is kept in `unsaved`."""
        try:
            path, seconds = self._write(snapshot)
        except (OSError, RunError) as error:
            self.unsaved = f"its checkpoint {self._failure(error)}"
        else:
            self._on_saved(snapshot.step, path, seconds)

    def truthful(self, error: Ended) -> Ended:
        """Return the error with its message corrected if the final checkpoint could not be written."""
        if self.unsaved:
            said = str(error)
            error.args = (said.replace(SAVED, self.unsaved) if SAVED in said else f"{said}; {self.unsaved}",)
        return error

    def _failure(self, error: Exception) -> str:
        earlier = next((int(path.name.removeprefix(PREFIX)) for path in saved(self._folder)), None)
        left = "there is no earlier one" if earlier is None else f"the checkpoint of step {earlier} remains"
        return f"could not be written ({_reason(error)}): {left}"

    def wait(self) -> None:
        """Wait for the pending write; re-raise its error, unless the disk caused it."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        """Finish the pending write and end the thread."""
        try:
            self.wait()
        finally:
            self._thread.shutdown()


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
