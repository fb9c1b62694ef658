"""The metrics that a run is compared with: the last run's, and the production model's."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tapeline.config.params import Params
from tapeline.config.project import RUN_BRANCHES, Project
from tapeline.registry.registry import Registry
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.git import Git
from tapeline.repository.recorded import Recorded
from tapeline.runtime import files, streams
from tapeline.runtime.errors import InputError, RunError, TapelineError

MOST = 5
"""How many branches are searched for the last run of a pipeline."""


def compared(project: Project, pipeline: str, cache: Path) -> dict[str, dict[str, float]]:
    """Return the metrics of the last run and of production by title; a missing one has no entry.

    The last run is the newest branch with a record of the pipeline, else what HEAD records. Metrics whose files the
    cache has lost are left out. The title says if they were measured on other data than `project`'s.
    """
    git = Git(project.folder)
    params = Params.load_for(project.folder, pipeline=pipeline)
    found: dict[str, dict[str, float]] = {}
    data = _data(project, pipeline)
    for title, records in (
        ("last run", _last(git, pipeline)),
        ("production", _production(project, params, pipeline)),
    ):
        for name, commit in records:
            try:
                record = Recorded.at(git, commit, pipeline, name=name, cache=cache)
                metrics = record.metrics() if record else {}
                others = record.training_data() if record else None
            except (InputError, RunError) as error:  # another run's branch is damaged: not a fault of the reported run
                _left_out(error)
                continue
            if metrics:
                differs = data is not None and others not in (None, data)
                found[f"{title}{', on other data' * differs} ({name})"] = metrics
                break
    return found


def _data(project: Project, pipeline: str) -> str | None:
    """Return the MD5 of the data that the reported run used; None if its lock does not say it."""
    lock = project.folder / LOCK
    try:
        return Recorded.read(files.read_bytes(lock), pipeline, name=LOCK).training_data() if lock.is_file() else None
    except InputError:
        return None


def _left_out(error: TapelineError) -> None:
    streams.say(f"tapeline: not compared: {error}", sys.stderr)


def _last(git: Git, pipeline: str) -> Iterator[tuple[str, str]]:
    """Yield name and commit of the newest branches of the pipeline's runs, and of HEAD."""
    form = "--format=%(trailers:key=Pipeline,valueonly,separator=%2C) %(objectname) %(refname:short)"
    listed = git.ask("for-each-ref", "--sort=-committerdate", form, f"refs/heads/{RUN_BRANCHES}") or ""
    rows = (line.rsplit(" ", 2) for line in listed.split("\n"))
    yield from [(row[2], row[1]) for row in rows if row[0] == pipeline and len(row) == 3][:MOST]
    yield "HEAD", "HEAD"


def _production(project: Project, params: Params, pipeline: str) -> Iterator[tuple[str, str]]:
    """Yield tag and commit of the assignment that is in force in the served stage, such as `NAME#prod#5`.

    Under a trust policy, only tags that count say which that is.
    """
    if Git(project.folder).ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
        return  # no Git, or no commit yet
    try:
        registry = replace(Registry.open(project, params, pipeline=pipeline), quiet=True)
        live = registry.state(pipeline).live(registry.settings.served)
    except (InputError, RunError) as error:  # a policy that cannot be read
        _left_out(error)
        return
    if live:
        yield live.tag.name, live.tag.commit
