"""The metrics that a run is compared with: the last run's, and the production model's."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tapeline.config.params import Params
from tapeline.config.project import RUN_BRANCHES, Project
from tapeline.orchestration.stages.recorded import Record
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError

MOST = 5
"""How many branches are searched for the last run of a pipeline."""


def compared(project: Project, pipeline: str, cache: Path) -> dict[str, dict[str, float]]:
    """Return the metrics of the last run and of production by title; a missing one has no entry.

    The last run is the newest branch with a record of the pipeline, else what HEAD records. Metrics whose files the
    cache has lost are left out.
    """
    git = Git(project.folder)
    found: dict[str, dict[str, float]] = {}
    for title, commits in (
        ("last run", _last(git, pipeline)),
        ("production", _production(git, pipeline, Params.load_for(project.folder, pipeline=pipeline).registry.served)),
    ):
        for commit in commits:
            try:
                record = Record.at(git, commit, name=commit, cache=cache)
                metrics = record.metrics(pipeline) if record else {}
            except InputError as error:  # another run's branch is damaged: not a fault of the reported run
                print(f"tapeline: left out of the comparison: {error}", file=sys.stderr)
                continue
            if metrics:
                found[f"{title} ({commit})"] = metrics
                break
    return found


def _last(git: Git, pipeline: str) -> Iterator[str]:
    form = "--format=%(trailers:key=Pipeline,valueonly,separator=%2C) %(refname:short)"
    lines = (git.ask("for-each-ref", "--sort=-committerdate", form, f"refs/heads/{RUN_BRANCHES}") or "").splitlines()
    yield from [branch for name, _, branch in (line.partition(" ") for line in lines) if name == pipeline][:MOST]
    yield "HEAD"


def _production(git: Git, pipeline: str, stage: str) -> Iterator[str]:
    """Yield the newest assignment to the served stage, a Git tag `NAME#prod#5` in GTO's format.

    Yields nothing when the stage's newest tag unassigns the model.
    """
    folder = (git.ask("rev-parse", "--show-prefix") or "").strip("/")
    model = f"{folder}={pipeline}" if folder else pipeline  # GTO's name for an artifact below the repository's root
    assignment = re.compile(rf"{re.escape(model)}#{re.escape(stage)}(!?)#(\d+)")
    matches = map(assignment.fullmatch, (git.ask("tag", "--list", f"{model}#{stage}*") or "").splitlines())
    newest = max(filter(None, matches), key=lambda match: int(match[2]), default=None)
    if newest and not newest[1]:
        yield newest[0]
