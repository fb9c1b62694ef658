"""A command for one dataset or pipeline of a project."""

import argparse
from dataclasses import dataclass

from tapeline.config import engine_lock
from tapeline.config.params import Params, Pipeline, check_recipe
from tapeline.config.project import Project


@dataclass(frozen=True)
class Call:
    """One stage or tool invoked for one dataset or pipeline."""

    project: Project
    params: Params
    name: str
    options: argparse.Namespace

    def pipeline(self) -> Pipeline:
        """Return the pipeline called `name`. Raises `InputError` if the pipeline or its recipe is invalid."""
        pipeline = self.params.pipeline(self.name)
        engine_lock.check(self.project.folder)
        check_recipe(self.project.folder, self.name, pipeline)
        return pipeline
