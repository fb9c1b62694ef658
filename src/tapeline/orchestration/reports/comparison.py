"""The metrics that a run is compared with: the last run's, and the production model's."""

import sys
from collections.abc import Iterator
from pathlib import Path

from tapeline.config.params import Params
from tapeline.config.project import RUN_BRANCHES, Project
from tapeline.registry.repository import Repository
from tapeline.registry.tags import state
from tapeline.registry.tags.names import Artifact
from tapeline.repository.git import Git
from tapeline.repository.recorded import Recorded
from tapeline.runtime import streams
from tapeline.runtime.errors import InputError, RunError

MOST = 5
"""How many branches are searched for the last run of a pipeline."""


def compared(project: Project, pipeline: str, cache: Path) -> dict[str, dict[str, float]]:
    """Return the metrics of the last run and of production by title; a missing one has no entry.

    The last run is the newest branch with a record of the pipeline, else what HEAD records. Metrics whose files the
    cache has lost are left out.
    """
    git = Git(project.folder)
    served = Params.load_for(project.folder, pipeline=pipeline).registry.served
    found: dict[str, dict[str, float]] = {}
    for title, commits in (
        ("last run", _last(git, pipeline)),
        ("production", _production(project, pipeline, served)),
    ):
        for commit in commits:
            try:
                record = Recorded.at(git, commit, pipeline, name=commit, cache=cache)
                metrics = record.metrics() if record else {}
            except (InputError, RunError) as error:  # another run's branch is damaged: not a fault of the reported run
                streams.say(f"tapeline: not compared: {error}", sys.stderr)
                continue
            if metrics:
                found[f"{title} ({commit})"] = metrics
                break
    return found


def _last(git: Git, pipeline: str) -> Iterator[str]:
    form = "--format=%(trailers:key=Pipeline,valueonly,separator=%2C) %(refname:short)"
    lines = (git.ask("for-each-ref", "--sort=-committerdate", form, f"refs/heads/{RUN_BRANCHES}") or "").split("\n")
    yield from [branch for name, _, branch in (line.partition(" ") for line in lines) if name == pipeline][:MOST]
    yield "HEAD"


def _production(project: Project, pipeline: str, stage: str) -> Iterator[str]:
    """Yield the tag of the assignment that is in force in the served stage, such as `NAME#prod#5`."""
    if Git(project.folder).ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
        return  # no Git, or no commit yet
    repository = Repository(project.folder)
    live = state.read(repository.tags(), Artifact(pipeline, repository.inside)).live(stage)
    if live:
        yield live.tag.name
