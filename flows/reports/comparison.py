"""The metrics that a run is compared with: those of the last run, and of what is in production."""

import re
from collections.abc import Iterator
from pathlib import Path

from flows.stages.recorded import Record
from tapeline.git import Git
from tapeline.project import RUN_BRANCHES, Project

PRODUCTION = "prod"
"""The stage whose newest assignment is in production, as a Git tag `NAME#prod#5` in GTO's format."""

MOST = 5
"""How many branches are looked at for the last run of a pipeline."""


def compared(project: Project, pipeline: str, cache: Path) -> dict[str, dict[str, float]]:
    """Return the metrics of the last run and of production by their names; nothing for what there is not.

    The last run is the newest branch with a record of the pipeline, else what HEAD records. Metrics whose files the
    cache has lost are left out.
    """
    git = Git(project.folder)
    found: dict[str, dict[str, float]] = {}
    for title, commits in (("last run", _last(git, pipeline)), ("production", _production(git, pipeline))):
        for commit in commits:
            record = Record.at(git, commit, name=commit, cache=cache)
            metrics = record.metrics(pipeline) if record else {}
            if metrics:
                found[f"{title} ({commit})"] = metrics
                break
    return found


def _last(git: Git, pipeline: str) -> Iterator[str]:
    form = "--format=%(trailers:key=Pipeline,valueonly,separator=%2C) %(refname:short)"
    lines = (git.ask("for-each-ref", "--sort=-committerdate", form, f"refs/heads/{RUN_BRANCHES}") or "").splitlines()
    yield from [branch for name, _, branch in (line.partition(" ") for line in lines) if name == pipeline][:MOST]
    yield "HEAD"


def _production(git: Git, pipeline: str) -> Iterator[str]:
    """Yield the newest assignment to production; none when the newest tag takes the model out of it."""
    folder = (git.ask("rev-parse", "--show-prefix") or "").strip("/")
    model = f"{folder}={pipeline}" if folder else pipeline  # so GTO names what is not at the repository's root
    assignment = re.compile(rf"{re.escape(model)}#{PRODUCTION}(!?)#(\d+)")
    matches = map(assignment.fullmatch, (git.ask("tag", "--list", f"{model}#{PRODUCTION}*") or "").splitlines())
    newest = max(filter(None, matches), key=lambda match: int(match[2]), default=None)
    if newest and not newest[1]:
        yield newest[0]
