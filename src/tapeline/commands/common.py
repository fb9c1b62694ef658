"""What several commands need."""

import argparse
import sys
from dataclasses import dataclass

from tapeline.environment import check_versions
from tapeline.errors import Interrupted, TapelineError
from tapeline.params import Params, Pipeline, check_recipe
from tapeline.project import Project


@dataclass(frozen=True)
class Call:
    """One stage or tool called on one name."""

    project: Project
    params: Params
    name: str
    options: argparse.Namespace

    def pipeline(self) -> Pipeline:
        """Return the pipeline of that name. Raises `InputError` where it or its recipe is wrong."""
        pipeline = self.params.pipeline(self.name)
        check_versions(self.params.environment.model_dump())
        check_recipe(self.project.folder, self.name, pipeline)
        return pipeline


def fail(error: TapelineError | Interrupted) -> int:
    """Say what was wrong, and return its exit status."""
    print(f"tapeline: {error}", file=sys.stderr)
    return error.status


def wait(text: str) -> None:
    """Say for whom a command waits."""
    print(text, file=sys.stderr, flush=True)
