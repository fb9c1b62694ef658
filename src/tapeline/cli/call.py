"""A command for one dataset or pipeline of a project."""

import argparse
from dataclasses import dataclass

from tapeline.config.params import Params, Pipeline, check_recipe
from tapeline.config.project import Project
from tapeline.runtime.environment import check_versions


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
        check_versions(self.params.environment.model_dump())
        check_recipe(self.project.folder, self.name, pipeline)
        return pipeline
