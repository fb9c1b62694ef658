"""Bring one stage up to date: run `dvc repro` in a child process if DVC finds the stage stale."""

import math
import os
import time
from collections import deque
from collections.abc import Callable
from typing import IO, Any, TypeVar

from tapeline.config.project import PARAMS, Project
from tapeline.orchestration.stages.child import Child, environment
from tapeline.orchestration.stages.dvc_stage import Busy, DvcProject, DvcStage
from tapeline.orchestration.stages.outcome import UNCHANGED, Outcome, judge, read_outcome, timed_out
from tapeline.orchestration.stages.progress_file import ProgressFile
from tapeline.repository import reproduction
from tapeline.runtime.streams import Say

POLL = 1.0
"""Seconds between two checks of files that another process uses."""

LAST_LINES = 100

Answer = TypeVar("Answer")


def bring_up_to_date(
    dvc: DvcProject,
    stage: DvcStage,
    *,
    project: Project,
    say: Say,
    follow: Callable[[dict[str, Any]], None],
    timeout: float | None = None,
    look: Callable[[], None] = lambda: None,
) -> Outcome:
    """Run `stage` if it is stale, and return how it went; it is stopped cleanly after `timeout` seconds.

    project: the flow's own. `say` gets each line of the stage's output, `follow` each progress record; `look` is called
    about twice a second, and may raise. Waits for another process that uses the stage's files, and then checks again:
    that process may have done the work. Raises `RunError` when DVC cannot answer. No exception in here, not even a
    signal's, leaves a process behind.
    """

    def is_stale() -> bool:
        look()
        return dvc.is_stale(stage)

    while when_free(is_stale, say=say):
        outcome = _repro(stage, _project_of(stage, project), say, follow, timeout, look)
        if outcome:
            if outcome.ok and outcome.message:
                say(outcome.message)
            return outcome
        time.sleep(POLL)
    return UNCHANGED


def when_free(ask: Callable[[], Answer], *, say: Say) -> Answer:
    """Return the answer of `ask` once no other process uses the files; report once which process is waited for."""
    told = ""
    while True:
        try:
            return ask()
        except Busy as busy:
            if str(busy) != told:
                told = str(busy)
                say(f"waiting: {told}")
            time.sleep(POLL)


def _project_of(stage: DvcStage, own: Project) -> Project:
    """Return the project that a stage leaves its progress in: its folder's, else the flow's own."""
    folder = stage.file.parent
    inside = any((above / PARAMS).is_file() for above in (folder, *folder.parents))
    return Project.find(folder) if inside else own


def _repro(
    stage: DvcStage,
    project: Project,
    say: Say,
    follow: Callable[[dict[str, Any]], None],
    timeout: float | None,
    look: Callable[[], None],
) -> Outcome | None:
    """Return the outcome of `dvc repro`, or None when DVC found the files in use."""
    kind, _, name = stage.name.partition("@")
    progress = ProgressFile(project.progress(kind, name))
    lines: deque[str] = deque(maxlen=LAST_LINES)
    deadline = time.monotonic() + (timeout or math.inf)
    say(f"dvc repro --single-item {stage.name}")
    child, answer = _started(stage, say)
    with answer, child:
        for line in child.lines():
            if line and line.strip():
                lines.append(line)
                say(line)
            for record in progress.records():
                follow(record)
            look()
            if time.monotonic() > deadline:
                child.end()
                return timed_out(kind, name, timeout)
        found = reproduction.read(answer.read())
    for record in progress.records():
        follow(record)
    if found and found.word == "busy":
        return None
    assert child.returncode is not None, "the child has ended"
    left = read_outcome(project.outcome(kind, name), session=child.session)
    return judge(stage.name, found, returncode=child.returncode, lines=lines, left=left)


def _started(stage: DvcStage, say: Say) -> tuple[Child, IO[bytes]]:
    """Start `dvc repro` of a stage; also return the file that gets what `reproduction.read` takes."""
    reader, writer = os.pipe()
    try:
        child = Child.of_module(
            reproduction.__name__,
            [stage.name, "{0}"],
            cwd=stage.file.parent,
            env=environment(),
            last_words=say,
            pass_fds=[writer],
        )
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return child, os.fdopen(reader, "rb")
