"""Copies of registered models that `tapeline predict` made from DVC's cache."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tapeline.repository.retention.item import DAY, Item, Limits, age, discard_unused, size_of, used_in, younger
from tapeline.runtime.files import PARTIAL
from tapeline.runtime.locks import is_held


def model_copies(folder: Path, *, limits: Limits, now: float) -> Iterator[Item]:
    """Yield the copies in a folder, by name; one is kept while it is being written, or if it was used recently.

    A partial copy of a killed process is kept for at most a day; `now` is in seconds since 1970. Links are left alone.
    Raises `InputError` for a lock that is no file.
    """
    for copy, used in sorted(used_in(folder, _used).items()):
        name = copy.name.removeprefix(".").removesuffix(PARTIAL).removesuffix(".old")
        lock = folder / f"{name}.lock"
        old = now - used
        days = min(limits.days, 1) if copy.name.endswith(PARTIAL) else limits.days
        kept = younger(days) if old < days * DAY else ""
        if is_held(lock):
            kept = "a copy is in progress"
        which = f"{name[:10]}, used {age(old)} ago"
        remove = partial(discard_unused, copy, lock=lock, last=_used, listed=used)
        yield Item(kind="model copy", name=which, size=size_of(copy), kept=kept, remove=remove)


def _used(copy: Path) -> float:
    return copy.stat().st_mtime
