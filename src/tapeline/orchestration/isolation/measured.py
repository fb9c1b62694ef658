"""The names of a pipeline's validation metrics, by the code that trains in a worktree, before anything is trained."""

import re
import tempfile
from contextlib import closing
from pathlib import Path

from tapeline.config.project import Project
from tapeline.orchestration.isolation.isolated_run import bring_raw_data, code_of
from tapeline.orchestration.stages.child import Child, environment
from tapeline.orchestration.stages.dvc_stage import DvcProject
from tapeline.orchestration.stages.execution import bring_up_to_date, when_free
from tapeline.runtime import exit_status
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.streams import Say

TOOL = "tapeline/tuning/metric_names.py"
PROGRAM = str(Path(__file__).parents[1] / "stages" / "command_output.py")


def measured(project: Project, pipeline: str, *, say: Say) -> list[str] | None:
    """Return the metrics' names; None where the worktree's code cannot tell, or where another program trains.

    Training's dependencies are built first; DVC's cache has them for the run that follows. Raises `InputError` for
    invalid input that would end every training before its first step, `RunError` for a stage that fails.
    """
    code = code_of(project)
    if code is not None and not (code / TOOL).is_file():
        return None
    if not _trains_by_tapeline(project, pipeline, say):
        say(f"the validation metrics of {pipeline} are known only after a trial: another program trains it")
        return None
    bring_raw_data(project, pipeline, say)
    _make_inputs(project, pipeline, say)
    with tempfile.TemporaryFile() as names:
        with Child.of_module(
            PROGRAM,
            ["{0}", "metric-names", pipeline],
            cwd=project.folder,
            env=environment(),
            pass_fds=[names.fileno()],
            code=code,
        ) as answer:
            lines = list(filter(None, answer.lines()))
        if answer.returncode == 0:
            names.seek(0)
            return names.read().decode().splitlines()
    assert answer.returncode is not None, "it has ended"
    error = exit_status.error(answer.returncode, lines)
    if isinstance(error, InputError):
        raise error
    say(f"the validation metrics of {pipeline} are not known yet: {error}")
    return None


def _trains_by_tapeline(project: Project, pipeline: str, say: Say) -> bool:
    with closing(DvcProject(project.folder)) as dvc:
        commands = when_free(lambda: dvc.commands(f"train@{pipeline}"), say=say)
    return any(re.search(rf"\btapeline\s+train\s+{re.escape(pipeline)}(?!\S)", command) for command in commands)


def _make_inputs(project: Project, pipeline: str, say: Say) -> None:
    with closing(DvcProject(project.folder)) as dvc:
        for stage in when_free(lambda: dvc.upstream(f"train@{pipeline}"), say=say)[:-1]:
            outcome = bring_up_to_date(dvc, stage, project=project, say=say, follow=lambda record: None)
            if not outcome.ok:
                kind = InputError if outcome.status == InputError.status else RunError
                raise kind(f"{stage}: {outcome.message}")
