"""Checkpoints: a folder for each fingerprint that a pipeline was ever trained with."""

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from tapeline.repository.retention.item import (
    DAY,
    Item,
    Limits,
    age,
    discard_unused,
    folders_in,
    size_of,
    statuses,
    used_in,
    younger,
)
from tapeline.runtime.files import PARTIAL
from tapeline.runtime.locks import is_held

LOCK = "lock"


def checkpoint_folders(folder: Path, *, pipelines: Collection[str], limits: Limits, now: float) -> Iterator[Item]:
    """Yield the folders `<pipeline>/<fingerprint>/`, newest first; `now` is in seconds since 1970.

    A folder is kept while a trainer holds it, if it is the newest of an existing pipeline (a run or `--extend` resumes
    from it), or if it is young; one without a checkpoint is young for a day at most. Links are left alone. Raises
    `InputError` for a lock that is no file.
    """
    for pipeline in sorted(folders_in(folder)):
        states = sorted(used_in(pipeline, _changed).items(), key=lambda state: state[1], reverse=True)
        newest = next((state for state, _ in states if _has_checkpoint(state)), None)
        for state, changed in states:
            full, old = _has_checkpoint(state), now - changed
            days = limits.days if full else min(limits.days, 1)
            if is_held(state / LOCK):
                kept = "a training is in progress"
            elif state == newest and pipeline.name in pipelines:
                kept = f"the newest of {pipeline.name}"
            else:
                kept = younger(days) if old < days * DAY else ""
            name = f"{pipeline.name}/{state.name}, {age(old)} old{'' if full else ', empty'}"
            remove = partial(discard_unused, state, lock=state / LOCK, last=_changed, listed=changed)
            yield Item(kind="checkpoints", name=name, size=size_of(state), kept=kept, remove=remove)


def _has_checkpoint(state: Path) -> bool:
    return not state.name.endswith(PARTIAL) and any(folders_in(state))


def _changed(state: Path) -> float:
    """Return when something was last written in the folder."""
    return max([state.lstat().st_mtime, *(status.st_mtime for status in statuses(state.iterdir()))])
