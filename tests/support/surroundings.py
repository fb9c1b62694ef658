"""Which processes work in a folder, and their locks: for tests that stop or kill them."""

import json
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tapeline.runtime import processes

ORPHANS = 120.0
"""Seconds after which no process of a stopped or killed run may be left."""


def below(folder):
    """Return the processes that work in a folder: flow, server, DVC, stage. Their `info` has the command lines."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            if Path(process.cwd()).is_relative_to(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def wait_for_none(folder, *, but=()):
    """Wait until no process works in the folder, and return the seconds it took."""
    began = time.monotonic()
    while left := [process for process in below(folder) if process.pid not in but]:
        assert time.monotonic() < began + ORPHANS, [process.cmdline() for process in left]
        time.sleep(0.05)
    return time.monotonic() - began


def running_stage(folder):
    """Return the stage that ran last, by the newest progress file."""
    files = sorted((folder / ".tapeline" / "progress").glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    return files[-1].name.split("@")[0] if files else "start"


def locks_are_free(folder):
    """Return whether DVC's record of files in use is empty."""
    rwlock = folder / ".dvc" / "tmp" / "rwlock"
    return not rwlock.exists() or not any(json.loads(rwlock.read_text()).values())


def started_by(pid):
    """Return the processes that a process has started: for a guard process, its child instead."""
    found = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found += started_by(child.pid) if processes.__file__ in child.cmdline() else [child]
    return found
